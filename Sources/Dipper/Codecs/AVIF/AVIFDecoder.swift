#if AVIF
    import CAVIF
    import Foundation

    /// A decoder for still and animated AVIF with 8, 10 or 12 bits, by libavif.
    ///
    /// Colours are converted to sRGB from the file's profile, or from its coded primaries and transfer function (nclx).
    /// In PQ and HLG, light brighter than white is clipped: there is no tone mapping.
    public struct AVIFDecoder: ImageDecoder {
        /// The format ``ImageFormat/avif``.
        public let format = ImageFormat.avif

        /// Creates a decoder.
        public init() {}

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            return try picture(AVIFFrames(data, options), of: data, options)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            let frames = try AVIFFrames(data, options)
            return frames.frameCount > 1 ? frames : nil
        }
    }

    /// A still picture has one frame.
    private final class AVIFFrames: CountedFrames {
        let frameCount: Int
        let loopCount: Int
        private let file: AVIFFile
        private let options: DecodeOptions
        /// The transform of the first frame, used for all frames; `nil` before the first frame is decoded.
        private var color: ColorTransform??
        private var shown = 0
        private var isAtEnd = false

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            self.options = options
            let info = try? ImageInfo(data)
            if let size = info?.size {
                try options.limits.check(size, frames: options.firstFrameOnly ? 1 : info?.frameCount ?? 1)
            }
            loopCount = info?.loopCount ?? 1
            file = try AVIFFile(data, options.limits)
            frameCount = options.firstFrameOnly ? min(1, file.frameCount) : file.frameCount
            guard let announced = file.announced else { throw .undecodable.with(detail: "AVIF: there is no picture") }
            try options.limits.check(announced.size, frames: frameCount)
            let stored = options.storedTarget(for: announced.size, announced.orientation)
            try options.limits.checkMemory(stored)
            try options.limits.check(
                bytes: file.planeBytes(options.limits) + stored.width * stored.height * 4)
        }

        func rewind() throws(DipperError) {
            try file.rewind()
            (shown, isAtEnd) = (0, false)
        }

        func next() throws(DipperError) -> AnimationFrame? {
            guard !isAtEnd else { return nil }
            try options.checkCancelled()
            isAtEnd = true
            guard let picture = try nextPicture() else { return nil }
            let image = try image(of: picture)
            shown += 1
            isAtEnd = false
            return AnimationFrame(image: image, duration: picture.duration)
        }

        private func nextPicture() throws(DipperError) -> AVIFPicture? {
            do throws(DipperError) {
                return try file.next()
            } catch {
                // Frames before a broken one are good.
                if error == .undecodable, shown > 0 { return nil }
                throw error
            }
        }

        private func image(of picture: AVIFPicture) throws(DipperError) -> Image {
            let size = picture.size
            try options.limits.check(size)
            var writer = try RowWriter(
                source: size, of: size, alpha: picture.hasAlpha ? .straight : .opaque,
                orientation: picture.orientation, options)
            let beside = picture.rowsBeside
            let scratch = try PixelBuffer(
                PixelSize(width: size.width, height: min(size.height, RowWriter.rowsAtATime + 2 * beside + 1)))
            while writer.committed < size.height {
                try options.checkCancelled()
                let first = writer.committed
                let (memory, rows) = writer.memory(rows: RowWriter.rowsAtATime)
                // libavif's view of a part of the planes must begin at an even row.
                let start = max(0, first - first % 2 - beside)
                let end = min(size.height, first + rows + beside)
                try picture.convert(start..<end, into: scratch.base)
                memory.copyMemory(from: scratch.row(first - start), byteCount: rows * scratch.rowStride)
                writer.commit(rows)
            }
            withExtendedLifetime(scratch) {}
            let color = self.color ?? picture.color
            self.color = .some(color)
            return try writer.finish(color: color)
        }
    }

    private final class AVIFFile {
        /// The decoder reads the bytes frame by frame.
        private let bytes: PinnedBytes
        private let decoder: UnsafeMutablePointer<avifDecoder>

        /// libaom if it is available, because versions of dav1d in use write out of bounds for broken files.
        private static let codec =
            avifCodecName(AVIF_CODEC_CHOICE_AOM, AVIF_CODEC_FLAG_CAN_DECODE.rawValue) == nil
            ? AVIF_CODEC_CHOICE_AUTO : AVIF_CODEC_CHOICE_AOM

        /// Parses the container. No frame is decoded.
        init(_ data: Data, _ limits: DecodeLimits) throws(DipperError) {
            bytes = PinnedBytes(data)
            guard let decoder = avifDecoderCreate() else { throw .imageTooLarge.with(detail: "AVIF: no memory") }
            self.decoder = decoder
            decoder.pointee.maxThreads = 1
            decoder.pointee.codecChoice = Self.codec
            decoder.pointee.ignoreExif = 1
            decoder.pointee.ignoreXMP = 1
            // Files from older encoders lack parts that the standard requires but decoding does not need.
            decoder.pointee.strictFlags = 0
            decoder.pointee.imageSizeLimit = UInt32(
                clamping: max(1, min(limits.pixels, Int(AVIF_DEFAULT_IMAGE_DIMENSION_LIMIT) << 13)))
            // Only the number of pixels is limited, not the length of a side.
            decoder.pointee.imageDimensionLimit = 0
            // Bounds libavif's tables alone. The caller checks the number of frames, because it may want only the
            // first.
            decoder.pointee.imageCountLimit = UInt32(clamping: max(limits.frames, DecodeLimits().frames))
            try check(avifDecoderSetIOMemory(decoder, bytes.base, bytes.count))
            try check(avifDecoderParse(decoder))
        }

        deinit {
            avifDecoderDestroy(decoder)
        }

        /// Includes frames whose bytes have not arrived.
        var frameCount: Int { Int(decoder.pointee.imageCount) }

        /// As the container describes it, without pixels.
        var announced: AVIFPicture? { decoder.pointee.image.map { AVIFPicture($0, duration: .zero) } }

        /// The most bytes that the planes of a frame take. Throws `DipperError.undecodable` for an empty picture,
        /// `DipperError.imageTooLarge` above the limits.
        func planeBytes(_ limits: DecodeLimits) throws(DipperError) -> Int {
            guard let image = decoder.pointee.image?.pointee else { return 0 }
            let size = PixelSize(width: Int(image.width), height: Int(image.height))
            try limits.check(size)
            try limits.checkMemory(size)
            let planes = (image.yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1 : 3) + Int(decoder.pointee.alphaPresent)
            return size.width * size.height * planes * (image.depth > 8 ? 2 : 1)
        }

        /// The frame is valid until the next call.
        func next() throws(DipperError) -> AVIFPicture? {
            let result = avifDecoderNextImage(decoder)
            if result == AVIF_RESULT_NO_IMAGES_REMAINING { return nil }
            try check(result)
            guard let image = decoder.pointee.image else { return nil }
            return AVIFPicture(image, duration: duration)
        }

        func rewind() throws(DipperError) {
            try check(avifDecoderReset(decoder))
        }

        private var duration: Duration {
            let timing = decoder.pointee.imageTiming
            guard timing.timescale > 0 else { return .zero }
            let seconds = Double(timing.durationInTimescales) / Double(timing.timescale)
            return .nanoseconds(Int64((min(seconds, 1e9) * 1e9).rounded()))
        }

        private func check(_ result: avifResult) throws(DipperError) {
            switch result {
            case AVIF_RESULT_OK: return
            case AVIF_RESULT_OUT_OF_MEMORY: throw .imageTooLarge.with(detail: "AVIF: no memory")
            default: throw .undecodable.with(detail: "AVIF: " + String(cString: avifResultToString(result)))
            }
        }
    }
#endif
