#if WebP
    import CPixels
    import CWebP
    import Foundation

    /// A decoder for lossy and lossless WebP, still and animated, by libwebp.
    ///
    /// ```swift
    /// var options = DecodeOptions()
    /// options.firstFrameOnly = true
    /// let image = try WebPDecoder().decode(bytes, options)
    /// ```
    public struct WebPDecoder: ImageDecoder {
        /// The format ``ImageFormat/webp``.
        public let format = ImageFormat.webp

        /// Creates a decoder.
        public init() {}

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            let bytes = PinnedBytes(data)
            let features = try WebPFeatures(bytes)
            let orientation = (try? ImageInfo(data))?.orientation ?? .up
            if features.isMoving {
                return try picture(WebPFrames(bytes, features, orientation, options), of: data, options)
            }
            return try WebPStill(bytes, features, orientation, options).decode()
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            let bytes = PinnedBytes(data)
            let features = try WebPFeatures(bytes)
            guard features.isMoving else { return nil }
            let orientation = (try? ImageInfo(data))?.orientation ?? .up
            let frames = try WebPFrames(bytes, features, orientation, options)
            return frames.frameCount > 1 ? frames : nil
        }
    }

    /// A decoder of one still picture.
    private struct WebPStill {
        private let bytes: PinnedBytes
        private let options: DecodeOptions
        private let size: PixelSize
        /// Whether pixels may be transparent. The header of a lossless picture only gives a hint.
        private let mayHaveAlpha: Bool
        /// The memory that libwebp uses itself, in bytes: the whole of a lossless picture, or the alpha of a lossy one.
        private let held: Int
        private let orientation: Orientation
        private let color: ColorTransform?

        init(
            _ bytes: PinnedBytes, _ features: WebPFeatures, _ orientation: Orientation, _ options: DecodeOptions
        ) throws(DipperError) {
            self.bytes = bytes
            self.options = options
            self.orientation = orientation
            size = features.size
            mayHaveAlpha = features.hasAlpha || !features.isLossy
            try options.limits.check(size)
            held = size.width * size.height * (features.isLossy ? (features.hasAlpha ? 1 : 0) : 4)
            color = WebPContainer.color(in: bytes)
        }

        func decode() throws(DipperError) -> Image {
            let stored = options.storedTarget(for: size, orientation)
            // libwebp averages areas when it shrinks a picture. When it enlarges one, the result is poor.
            let isShrinking = stored.width <= size.width && stored.height <= size.height
            let decoded = isShrinking ? stored : size
            try options.limits.checkMemory(decoded)
            try options.limits.check(bytes: held + decoded.width * decoded.height * 4)
            let buffer = try PixelBuffer(decoded)
            let isComplete = try decode(into: buffer)
            let pixels = buffer.base.assumingMemoryBound(to: UInt8.self)
            let isOpaque = isComplete && (!mayHaveAlpha || pixels_are_opaque(pixels, decoded.width * decoded.height))
            if decoded == stored, orientation == .up {
                try bringIntoSRGB(buffer, isOpaque: isOpaque)
                return buffer.image(isOpaque: isOpaque, scale: options.scale)
            }
            let canvas = Canvas(base: buffer.base, size: decoded, rowStride: buffer.rowStride)
            let image = try RowWriter.image(
                of: canvas, picture: size, alpha: isOpaque ? .opaque : .premultiplied, orientation: orientation,
                color: color, options)
            withExtendedLifetime(buffer) {}
            return image
        }

        private func bringIntoSRGB(_ buffer: borrowing PixelBuffer, isOpaque: Bool) throws(DipperError) {
            guard let color else { return }
            for y in 0..<buffer.size.height {
                if y % RowWriter.rowsAtATime == 0 { try options.checkCancelled() }
                color.apply(to: buffer.row(y), pixels: buffer.size.width, isOpaque: isOpaque)
            }
        }

        /// Decodes the file into a buffer.
        /// - Returns: `false` if the file ends too early and the options allow a partial picture.
        private func decode(into buffer: borrowing PixelBuffer) throws(DipperError) -> Bool {
            if options.allowsPartial { buffer.clear() }
            let decoder = try WebPIncrementalDecoder(
                into: buffer.bytes, rowStride: buffer.rowStride, buffer.size, scaled: buffer.size != size)
            var status = VP8_STATUS_SUSPENDED
            // Small steps end a cancelled decode soon; this step is large enough that the restarts cost nothing.
            let step = max(16 << 10, bytes.count / 32)
            var count = 0
            while status == VP8_STATUS_SUSPENDED, count < bytes.count {
                try options.checkCancelled()
                count = min(bytes.count, count + step)
                status = decoder.update(bytes.base, count)
            }
            if status == VP8_STATUS_OK { return true }
            guard options.allowsPartial, decoder.rows > 0 else { throw WebPFeatures.error(status) }
            return false
        }
    }

    /// A decoder of one picture that receives the file piece by piece. It owns libwebp's decoder.
    private final class WebPIncrementalDecoder {
        /// The configuration, at a fixed address because libwebp's decoder keeps a pointer to it.
        private let config: UnsafeMutablePointer<WebPDecoderConfig>
        private let decoder: OpaquePointer

        /// Creates a decoder that writes premultiplied RGBA into memory.
        /// - Parameters:
        ///   - pixels: the memory, held by the caller for as long as the decoder.
        ///   - scaled: whether the size differs from the picture's own.
        init(
            into pixels: UnsafeMutableRawBufferPointer, rowStride: Int, _ size: PixelSize, scaled: Bool
        ) throws(DipperError) {
            let config = UnsafeMutablePointer<WebPDecoderConfig>.allocate(capacity: 1)
            config.initialize(to: WebPDecoderConfig())
            guard WebPInitDecoderConfig(config) != 0 else {
                config.deallocate()
                throw .undecodable.with(detail: "WebP: another version of libwebp")
            }
            config.pointee.output.colorspace = MODE_rgbA
            config.pointee.output.is_external_memory = 1
            config.pointee.output.u.RGBA = WebPRGBABuffer(
                rgba: pixels.baseAddress?.assumingMemoryBound(to: UInt8.self), stride: Int32(rowStride),
                size: pixels.count)
            if scaled {
                config.pointee.options.use_scaling = 1
                config.pointee.options.scaled_width = Int32(size.width)
                config.pointee.options.scaled_height = Int32(size.height)
            }
            guard let decoder = WebPIDecode(nil, 0, config) else {
                config.deallocate()
                throw .imageTooLarge.with(detail: "WebP: no memory")
            }
            self.config = config
            self.decoder = decoder
        }

        deinit {
            WebPIDelete(decoder)
            WebPFreeDecBuffer(&config.pointee.output)
            config.deallocate()
        }

        /// Decodes as much as possible of the file's first `count` bytes.
        func update(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> VP8StatusCode {
            WebPIUpdate(decoder, bytes, count)
        }

        /// The number of rows decoded so far.
        var rows: Int {
            var last: Int32 = 0
            guard WebPIDecGetRGB(decoder, &last, nil, nil, nil) != nil else { return 0 }
            return Int(last)
        }
    }

    /// The properties of a WebP file that libwebp reads before decoding.
    struct WebPFeatures {
        /// The size of the stored picture, or of an animation's canvas.
        let size: PixelSize
        let hasAlpha: Bool
        let isMoving: Bool
        /// Whether the picture is lossy. libwebp decodes it row by row, but holds a lossless picture whole.
        let isLossy: Bool

        /// Reads the properties.
        /// - Throws: `DipperError.undecodable`, also if the bytes end before the size.
        init(_ bytes: PinnedBytes) throws(DipperError) {
            var found = WebPBitstreamFeatures()
            let status = WebPGetFeatures(bytes.base, bytes.count, &found)
            guard status == VP8_STATUS_OK else { throw Self.error(status) }
            size = PixelSize(width: Int(found.width), height: Int(found.height))
            hasAlpha = found.has_alpha != 0
            isMoving = found.has_animation != 0
            isLossy = found.format == 1
        }

        static func error(_ status: VP8StatusCode) -> DipperError {
            switch status {
            case VP8_STATUS_OUT_OF_MEMORY: .imageTooLarge.with(detail: "WebP: no memory")
            case VP8_STATUS_SUSPENDED, VP8_STATUS_NOT_ENOUGH_DATA:
                .undecodable.with(detail: "WebP: the file ends too early")
            default: .undecodable.with(detail: "WebP: status \(status.rawValue)")
            }
        }
    }

    /// The chunks of a WebP file other than the pixels. The object owns libwebp's demuxer.
    final class WebPContainer {
        private let demuxer: OpaquePointer

        /// Opens a file. A file that ends too early gives the chunks it holds.
        /// - Parameter bytes: the file, held by the caller for as long as the container.
        /// - Returns: `nil` if the bytes do not even hold a header.
        init?(_ bytes: PinnedBytes) {
            var data = WebPData(bytes: bytes.base, size: bytes.count)
            var state = WEBP_DEMUX_PARSING_HEADER
            guard let demuxer = WebPDemuxPartial(&data, &state) else { return nil }
            self.demuxer = demuxer
        }

        deinit {
            WebPDemuxDelete(demuxer)
        }

        /// Returns the conversion of a file's colours to sRGB; `nil` if none is needed or the profile cannot be used.
        static func color(in bytes: PinnedBytes) -> ColorTransform? {
            WebPContainer(bytes)?.chunk("ICCP").flatMap { ColorTransform.shared(icc: $0) }
        }

        private func chunk(_ name: String) -> Data? {
            var iterator = WebPChunkIterator()
            guard WebPDemuxGetChunk(demuxer, name, 1, &iterator) != 0 else { return nil }
            defer { WebPDemuxReleaseChunkIterator(&iterator) }
            guard let bytes = iterator.chunk.bytes else { return nil }
            return Data(bytes: bytes, count: iterator.chunk.size)
        }
    }
#endif
