#if WebP
    import CPixels
    import CWebP
    import Foundation

    /// A decoder for lossy and lossless WebP, still and animated, by libwebp.
    public struct WebPDecoder: ImageDecoder {
        /// The format ``ImageFormat/webp``.
        public let format = ImageFormat.webp

        /// Creates a decoder.
        public init() {}

        public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
            try WebPHeader(data).memory(options).all
        }

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            let file = try WebPFile(data, options)
            return try file.header.isAnimated
                ? picture(FileFrames(WebPFrames(file, options), options), of: data) : file.still(options)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            let file = try WebPFile(data, options)
            return try file.header.isAnimated ? FileFrames(WebPFrames(file, options), options).ifAnimated : nil
        }
    }

    private struct WebPHeader {
        let size: PixelSize
        let frameCount: Int
        let orientation: Image.Orientation
        private let features: WebPBitstreamFeatures
        private let fileSize: Int

        /// Throws `DipperError.undecodable`, also if the bytes end before the size.
        init(_ data: Data) throws(DipperError) {
            var features = WebPBitstreamFeatures()
            let status = data.withUnsafeBytes { bytes in
                WebPGetFeatures(bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count, &features)
            }
            guard status == VP8_STATUS_OK else { throw WebPFile.error(status) }
            self.features = features
            size = PixelSize(width: Int(features.width), height: Int(features.height))
            let info = try? ImageInfo(data)
            frameCount = info?.frameCount ?? 1
            orientation = info?.orientation ?? .up
            fileSize = data.count
        }

        var isAnimated: Bool { features.has_animation != 0 }
        /// The header of a lossless picture only gives a hint about alpha.
        var mayHaveAlpha: Bool { features.format != 1 || features.has_alpha != 0 }

        /// The size in which libwebp decodes a still picture. It averages areas when it shrinks one; when it enlarges
        /// one, the result is poor.
        func decodedSize(_ options: DecodeOptions) throws(DipperError) -> PixelSize {
            let stored = try options.storedTarget(for: size, orientation)
            return stored.width <= size.width && stored.height <= size.height ? stored : size
        }

        /// In bytes, with a copy of the file. libwebp decodes a lossy picture row by row, but holds a lossless one as a
        /// whole, and alpha, which is a lossless picture too, twice.
        func memory(_ options: DecodeOptions) throws(DipperError) -> (held: Int, all: Int) {
            let stored = try options.storedTarget(for: size, orientation)
            let pixels = try size.byteCount(
                isAnimated || features.format == 1 && mayHaveAlpha ? 5 : mayHaveAlpha ? 4 : 0)
            if isAnimated {
                // libwebp keeps two canvases, and decodes a frame before it is copied.
                let held = try size.byteCount(8) + fileSize
                let frame = try RowWriter.byteCount(from: size, to: stored, orientation)
                return (held, held + max(pixels, options.resultBytes(frame, frames: frameCount, beside: held)))
            }
            let decoded = try decodedSize(options)
            let isResult = decoded == stored && orientation == .up
            let writer = try isResult ? 0 : RowWriter.byteCount(from: decoded, to: stored, orientation)
            let held = try decoded.byteCount() + fileSize
            return (held, held + max(pixels, writer))
        }
    }

    private struct WebPFile {
        let header: WebPHeader
        let bytes: PinnedBytes
        var size: PixelSize { header.size }
        var orientation: Image.Orientation { header.orientation }

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            header = try WebPHeader(data)
            try options.check(header.size, frames: header.frameCount)
            try options.limits.check(bytes: header.memory(options).all)
            bytes = PinnedBytes(data)
        }

        /// The conversion from the file's profile. A file that ends too early has the chunks that have arrived.
        var color: ColorTransform? {
            var data = WebPData(bytes: bytes.base, size: bytes.count)
            var state = WEBP_DEMUX_PARSING_HEADER
            guard let demuxer = WebPDemuxPartial(&data, &state) else { return nil }
            defer { WebPDemuxDelete(demuxer) }
            var iterator = WebPChunkIterator()
            guard WebPDemuxGetChunk(demuxer, "ICCP", 1, &iterator) != 0 else { return nil }
            defer { WebPDemuxReleaseChunkIterator(&iterator) }
            return iterator.chunk.bytes.flatMap {
                ColorTransform.shared(icc: Data(bytes: $0, count: iterator.chunk.size))
            }
        }

        static func error(_ status: VP8StatusCode) -> DipperError {
            switch status {
            case VP8_STATUS_OUT_OF_MEMORY: PixelMemory.noMemory
            case VP8_STATUS_SUSPENDED, VP8_STATUS_NOT_ENOUGH_DATA:
                .undecodable.with(detail: "WebP: the file ends too early")
            default: .undecodable.with(detail: "WebP: status \(status.rawValue)")
            }
        }

        static let otherVersion = DipperError.undecodable.with(detail: "WebP: another version of libwebp")

        func still(_ options: DecodeOptions) throws(DipperError) -> Image {
            let stored = try options.storedTarget(for: size, orientation)
            let decoded = try header.decodedSize(options)
            let buffer = try PixelBuffer(decoded)
            let isComplete = try decode(into: buffer, options)
            let pixels = buffer.base.assumingMemoryBound(to: UInt8.self)
            let isOpaque =
                isComplete && (!header.mayHaveAlpha || pixels_are_opaque(pixels, decoded.width * decoded.height))
            if decoded == stored, orientation == .up {
                try color?.apply(to: buffer, isOpaque: isOpaque, options)
                return buffer.image(isOpaque: isOpaque, scale: options.scale)
            }
            let image = try RowWriter.image(
                of: buffer.base, decoded, picture: size, alpha: isOpaque ? .opaque : .premultiplied,
                orientation: orientation, color: color, options)
            withExtendedLifetime(buffer) {}
            return image
        }

        /// Writes premultiplied RGBA. Returns `false` if the file ends too early and may be partial.
        private func decode(
            into buffer: borrowing PixelBuffer, _ options: DecodeOptions
        ) throws(DipperError) -> Bool {
            if options.allowsPartial { buffer.clear() }
            // At a fixed address, because libwebp's decoder keeps a pointer to it.
            let config = UnsafeMutablePointer<WebPDecoderConfig>.allocate(capacity: 1)
            defer { config.deallocate() }
            config.initialize(to: WebPDecoderConfig())
            guard WebPInitDecoderConfig(config) != 0 else { throw Self.otherVersion }
            config.pointee.output.colorspace = MODE_rgbA
            config.pointee.output.is_external_memory = 1
            config.pointee.output.u.RGBA = WebPRGBABuffer(
                rgba: buffer.base.assumingMemoryBound(to: UInt8.self), stride: Int32(buffer.rowStride),
                size: buffer.bytes.count)
            if buffer.size != size {
                config.pointee.options.use_scaling = 1
                config.pointee.options.scaled_width = Int32(buffer.size.width)
                config.pointee.options.scaled_height = Int32(buffer.size.height)
            }
            guard let decoder = WebPIDecode(nil, 0, config) else { throw PixelMemory.noMemory }
            defer {
                WebPIDelete(decoder)
                WebPFreeDecBuffer(&config.pointee.output)
            }
            var status = VP8_STATUS_SUSPENDED
            // Small steps end a cancelled decode soon; this step is large enough that the restarts cost nothing.
            let step = max(16 << 10, bytes.count / 32)
            var count = 0
            while status == VP8_STATUS_SUSPENDED, count < bytes.count {
                try options.checkCancelled()
                count = min(bytes.count, count + step)
                status = WebPIUpdate(decoder, bytes.base, count)
            }
            if status == VP8_STATUS_OK { return true }
            var rows: Int32 = 0
            guard options.allowsPartial, WebPIDecGetRGB(decoder, &rows, nil, nil, nil) != nil, rows > 0 else {
                throw Self.error(status)
            }
            return false
        }
    }

    /// Each frame is the canvas as it looks when the frame is displayed. Owns libwebp's decoder.
    private final class WebPFrames: FrameReader {
        let frameCount: Int
        let loopCount: Int
        let held: Int
        private let file: WebPFile
        private let decoder: OpaquePointer
        private let options: DecodeOptions
        private let color: ColorTransform?
        /// In milliseconds.
        private var time = 0

        init(_ file: WebPFile, _ options: DecodeOptions) throws(DipperError) {
            self.file = file
            self.options = options
            held = try file.header.memory(options).held
            var settings = WebPAnimDecoderOptions()
            guard WebPAnimDecoderOptionsInit(&settings) != 0 else { throw WebPFile.otherVersion }
            settings.color_mode = MODE_rgbA
            var data = WebPData(bytes: file.bytes.base, size: Self.cut(file.bytes))
            guard let decoder = WebPAnimDecoderNew(&data, &settings) else {
                throw .undecodable.with(detail: "WebP: the animation is broken")
            }
            var info = WebPAnimInfo()
            WebPAnimDecoderGetInfo(decoder, &info)
            self.decoder = decoder
            frameCount = Int(info.frame_count)
            loopCount = Int(info.loop_count)
            color = file.color
            // The pixels are read with this size from libwebp's canvas.
            guard info.canvas_width == file.size.width, info.canvas_height == file.size.height else {
                throw .undecodable.with(detail: "WebP: the canvas has another size")
            }
        }

        deinit {
            WebPAnimDecoderDelete(decoder)
        }

        /// Changes the header of a file that ends too early so that the file ends with its last complete frame: libwebp
        /// reads only complete files. Returns the number of bytes of the file to read.
        private static func cut(_ bytes: PinnedBytes) -> Int {
            let file = ByteReader(UnsafeRawBufferPointer(bytes.bytes))
            guard let length = try? file.u32(at: 4, .little), length + 8 > bytes.count,
                var chunks = try? WebPChunks(file)
            else { return bytes.count }
            var end = 0
            while let (name, _) = try? chunks.next(), chunks.end <= bytes.count {
                if name == "ANMF" { end = chunks.end }
            }
            if end == 0 { return bytes.count }
            bytes.bytes.storeBytes(of: UInt32(clamping: end - 8).littleEndian, toByteOffset: 4, as: UInt32.self)
            return end
        }

        func restart() throws(DipperError) {
            WebPAnimDecoderReset(decoder)
            time = 0
        }

        func read() throws(DipperError) -> AnimationFrame? {
            guard WebPAnimDecoderHasMoreFrames(decoder) != 0 else { return nil }
            var pixels: UnsafeMutablePointer<UInt8>?
            var end: Int32 = 0
            guard WebPAnimDecoderGetNext(decoder, &pixels, &end) != 0, let pixels else {
                throw .undecodable.with(detail: "WebP: a frame is broken")
            }
            let image = try RowWriter.image(
                of: pixels, file.size, picture: file.size, alpha: .premultiplied, orientation: file.orientation,
                color: color, options)
            let duration = Duration.milliseconds(max(0, Int(end) - time))
            time = Int(end)
            return AnimationFrame(image: image, duration: duration)
        }
    }
#endif
