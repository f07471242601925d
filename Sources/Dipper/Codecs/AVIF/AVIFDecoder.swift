#if AVIF
    import CAVIF
    import Foundation
    import Synchronization

    /// A decoder for still and animated AVIF with 8, 10 or 12 bits, by libavif.
    ///
    /// Colours are converted to sRGB from the file's profile, or from its coded primaries and transfer function (nclx).
    /// In PQ and HLG, light brighter than white is clipped: there is no tone mapping.
    ///
    /// AV1 is decoded by dav1d, which writes a line to standard error for a damaged file, or by libaom: for files on which
    /// the installed version of dav1d may crash, and if libavif was built without dav1d.
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

        /// The pictures that are being decoded in the process, without animations.
        private static let running = Atomic<Int>(0)
        private let isRunning: Bool

        static func memory(
            of data: Data, _ options: DecodeOptions
        ) throws(DipperError) -> (held: Int, all: Int, streams: (bytes: Int, pictures: Int, isPlain: Bool)) {
            let info = try ImageInfo(data)
            let stored = info.orientation.applied(to: info.size ?? PixelSize(width: 0, height: 0))
            try options.check(stored, frames: info.frameCount)
            let streams = try data.withBytes { bytes throws(DipperError) in
                try AV1Streams.needs(of: ByteReader(bytes), options.limits)
            }
            let rows = DecodeOptions.rowsAtATime + 5
            let held = try streams.bytes + data.count + PixelSize(width: stored.width, height: rows).byteCount()
            let target = try options.storedTarget(for: stored, info.orientation)
            let frame = try RowWriter.byteCount(from: stored, to: target, info.orientation)
            return (held, held + options.resultBytes(frame, frames: info.frameCount, beside: held), streams)
        }

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            let limits = options.limits
            let memory = try Self.memory(of: data, options)
            try limits.check(bytes: memory.all)
            held = memory.held
            let info = try ImageInfo(data)
            loopCount = info.loopCount
            self.options = options
            bytes = PinnedBytes(data)
            guard let decoder = avifDecoderCreate() else { throw PixelMemory.noMemory }
            self.decoder = decoder
            let codec = AV1Codec.choice(isPlain: memory.streams.isPlain)
            // Colours and alpha: each picture of a grid would have threads of its own.
            isRunning = info.frameCount == 1 && memory.streams.pictures <= 2 && codec == AVIF_CODEC_CHOICE_DAV1D
            decoder.pointee.maxThreads = 1
            if isRunning {
                let others = Self.running.add(1, ordering: .relaxed).oldValue
                let size = info.size ?? PixelSize(width: 0, height: 0)
                decoder.pointee.maxThreads = Int32(
                    AV1Codec.threads(for: size.width * size.height, of: options.threads, others: others))
            }
            decoder.pointee.codecChoice = codec
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
            if isRunning { Self.running.subtract(1, ordering: .relaxed) }
        }

        var frameCount: Int { Int(decoder.pointee.imageCount) }

        func restart() throws(DipperError) {
            try AVIFPicture.check(avifDecoderReset(decoder))
        }

        func read() throws(DipperError) -> AnimationFrame? {
            var result = avifDecoderNextImage(decoder)
            if result == AVIF_RESULT_NO_IMAGES_REMAINING { return nil }
            if result != AVIF_RESULT_OK, exchange(&decoder.pointee.maxThreads, with: 1) > 1 {
                // The system may give no threads, which libavif does not tell from a damaged file.
                try restart()
                result = avifDecoderNextImage(decoder)
            }
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
            let isWhole = writer.memory(rows: size.height).rows == size.height
            let scratch = try PixelStorage(
                byteCount: isWhole ? 0 : min(size.height, DecodeOptions.rowsAtATime + 2 * beside + 1) * size.width * 4)
            let step = isWhole ? size.height : DecodeOptions.rowsAtATime
            try writer.fill(rowsAtATime: step) { memory, first, rows throws(DipperError) in
                if isWhole {
                    try picture.convert(0..<rows, into: memory)
                    return rows
                }
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

    /// The library that decodes AV1, and its threads.
    enum AV1Codec {
        private static let hasAOM =
            avifCodecName(AVIF_CODEC_CHOICE_AOM, AVIF_CODEC_FLAG_CAN_DECODE.rawValue) != nil
        /// The version of dav1d, 1.4 as 1004; `nil` if libavif was built without it.
        private static let dav1d: Int? = {
            var text = [CChar](repeating: 0, count: 256)
            avifCodecVersions(&text)
            return version(of: "dav1d", in: String(decoding: text.map { UInt8(bitPattern: $0) }, as: UTF8.self))
        }()

        /// - Parameter text: names and versions, as `avifCodecVersions` lists them.
        static func version(of codec: String, in text: String) -> Int? {
            let entry = text.split(separator: ",").first { $0.contains(codec + " [") }
            guard let number = entry?.split(separator: ":").last else { return nil }
            let parts = number.drop { !$0.isNumber }.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
            return parts.count == 2 ? parts[0] * 1000 + parts[1] : nil
        }

        static func choice(isPlain: Bool) -> avifCodecChoice { choice(isPlain: isPlain, dav1d: dav1d, hasAOM: hasAOM) }

        /// dav1d takes half the time of libaom. Versions before 1.4 may crash: on restoration with AVX-512, on grain, and
        /// on several frames with threads. Those files are left to libaom.
        static func choice(isPlain: Bool, dav1d: Int?, hasAOM: Bool) -> avifCodecChoice {
            if let dav1d, isPlain || dav1d >= 1004 { return AVIF_CODEC_CHOICE_DAV1D }
            return hasAOM ? AVIF_CODEC_CHOICE_AOM : AVIF_CODEC_CHOICE_AUTO
        }

        /// Threads are worth their start for a quarter of a million pixels each. Pictures decoded at once share them.
        static func threads(for pixels: Int, of most: Int, others: Int) -> Int {
            max(1, min(most / (others + 1), pixels >> 18, 4))
        }
    }
#endif
