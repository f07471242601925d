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

        public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
            try AVIFFrames.memory(of: data, options).all
        }

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            return try picture(FileFrames(AVIFFrames(data, options), options), of: data)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            try FileFrames(AVIFFrames(data, options), options).ifAnimated
        }
    }

    private final class AVIFFrames: FrameReader {
        let loopCount: Int
        let held: Int
        private let options: DecodeOptions
        private let bytes: PinnedBytes
        private let decoder: UnsafeMutablePointer<avifDecoder>
        /// The transform of the first frame, used for all frames; `nil` before the first frame is decoded.
        private var color: ColorTransform??

        /// libaom if it is available, because versions of dav1d in use write out of bounds for broken files.
        private static let codec =
            avifCodecName(AVIF_CODEC_CHOICE_AOM, AVIF_CODEC_FLAG_CAN_DECODE.rawValue) == nil
            ? AVIF_CODEC_CHOICE_AUTO : AVIF_CODEC_CHOICE_AOM

        static func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (held: Int, all: Int) {
            let info = try ImageInfo(data)
            let stored = info.orientation.applied(to: info.size ?? PixelSize(width: 0, height: 0))
            try options.check(stored, frames: info.frameCount)
            let streams = try data.withBytes { bytes throws(DipperError) in
                try AV1Streams.byteCount(of: ByteReader(bytes), options.limits)
            }
            let rows = DecodeOptions.rowsAtATime + 5
            let held = try streams + data.count + PixelSize(width: stored.width, height: rows).byteCount()
            let target = try options.storedTarget(for: stored, info.orientation)
            let frame = try RowWriter.byteCount(from: stored, to: target, info.orientation)
            return (held, held + options.resultBytes(frame, frames: info.frameCount, beside: held))
        }

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            let limits = options.limits
            let memory = try Self.memory(of: data, options)
            try limits.check(bytes: memory.all)
            held = memory.held
            loopCount = try ImageInfo(data).loopCount
            self.options = options
            bytes = PinnedBytes(data)
            guard let decoder = avifDecoderCreate() else { throw PixelMemory.noMemory }
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
            // Bounds libavif's tables alone. The number of frames is checked below: only the first may be wanted.
            decoder.pointee.imageCountLimit = UInt32(clamping: max(limits.frames, DecodeLimits().frames))
            try AVIFPicture.check(avifDecoderSetIOMemory(decoder, bytes.base, bytes.count))
            try AVIFPicture.check(avifDecoderParse(decoder))
            guard let image = decoder.pointee.image else {
                throw .undecodable.with(detail: "AVIF: there is no picture")
            }
            let announced = AVIFPicture(image)
            try options.check(announced.size, frames: frameCount)
        }

        deinit {
            avifDecoderDestroy(decoder)
        }

        var frameCount: Int { Int(decoder.pointee.imageCount) }

        func restart() throws(DipperError) {
            try AVIFPicture.check(avifDecoderReset(decoder))
        }

        func read() throws(DipperError) -> AnimationFrame? {
            let result = avifDecoderNextImage(decoder)
            if result == AVIF_RESULT_NO_IMAGES_REMAINING { return nil }
            try AVIFPicture.check(result)
            guard let image = decoder.pointee.image else { return nil }
            return AnimationFrame(image: try converted(AVIFPicture(image)), duration: duration)
        }

        private var duration: Duration {
            let timing = decoder.pointee.imageTiming
            guard timing.timescale > 0 else { return .zero }
            let seconds = Double(timing.durationInTimescales) / Double(timing.timescale)
            return .nanoseconds(Int64((min(seconds, 1e9) * 1e9).rounded()))
        }

        private func converted(_ picture: AVIFPicture) throws(DipperError) -> Image {
            let size = picture.size
            try options.limits.check(size)
            var writer = try RowWriter(
                source: size, of: size, alpha: picture.hasAlpha ? .straight : .opaque,
                orientation: picture.orientation, options)
            let beside = picture.rowsBeside
            let scratch = try PixelStorage(
                byteCount: min(size.height, DecodeOptions.rowsAtATime + 2 * beside + 1) * size.width * 4)
            try writer.fill { memory, first, rows throws(DipperError) in
                // libavif's view of a part of the planes must begin at an even row.
                let start = max(0, first - first % 2 - beside)
                try picture.convert(start..<min(size.height, first + rows + beside), into: scratch.base)
                memory.copyMemory(
                    from: scratch.base + (first - start) * size.width * 4, byteCount: rows * size.width * 4)
                return rows
            }
            withExtendedLifetime(scratch) {}
            let color = self.color ?? picture.color
            self.color = .some(color)
            return try writer.finish(color: color)
        }
    }
#endif
