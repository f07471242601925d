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

    private struct WebPStill {
        private let bytes: PinnedBytes
        private let options: DecodeOptions
        private let size: PixelSize
        /// The header of a lossless picture only gives a hint.
        private let mayHaveAlpha: Bool
        /// In bytes, the memory that libwebp uses itself: the whole of a lossless picture, or the alpha of a lossy one.
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

        /// Returns `false` if the file ends too early and the options allow a partial picture.
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

    /// Receives the file piece by piece. Owns libwebp's decoder.
    private final class WebPIncrementalDecoder {
        /// At a fixed address, because libwebp's decoder keeps a pointer to it.
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

        var rows: Int {
            var last: Int32 = 0
            guard WebPIDecGetRGB(decoder, &last, nil, nil, nil) != nil else { return 0 }
            return Int(last)
        }
    }

    struct WebPFeatures {
        /// The size of the stored picture, or of an animation's canvas.
        let size: PixelSize
        let hasAlpha: Bool
        let isMoving: Bool
        /// libwebp decodes a lossy picture row by row, but holds a lossless one whole.
        let isLossy: Bool

        /// Throws `DipperError.undecodable`, also if the bytes end before the size.
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

    /// Owns libwebp's demuxer.
    final class WebPContainer {
        private let demuxer: OpaquePointer

        /// A file that ends too early gives the chunks it holds; `nil` if the bytes do not even hold a header. The
        /// caller must hold them for as long as the container.
        init?(_ bytes: PinnedBytes) {
            var data = WebPData(bytes: bytes.base, size: bytes.count)
            var state = WEBP_DEMUX_PARSING_HEADER
            guard let demuxer = WebPDemuxPartial(&data, &state) else { return nil }
            self.demuxer = demuxer
        }

        deinit {
            WebPDemuxDelete(demuxer)
        }

        /// `nil` if no conversion is needed or the profile cannot be used.
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

    /// Each frame is the canvas as it looks when the frame is displayed. Owns libwebp's decoder.
    final class WebPFrames: CountedFrames {
        let frameCount: Int
        let loopCount: Int
        private let bytes: PinnedBytes
        private let decoder: OpaquePointer
        private let size: PixelSize
        private let options: DecodeOptions
        private let orientation: Orientation
        private let color: ColorTransform?
        /// In milliseconds.
        private var time = 0
        private var shown = 0
        private var isAtEnd = false

        init(
            _ bytes: PinnedBytes, _ features: WebPFeatures, _ orientation: Orientation, _ options: DecodeOptions
        ) throws(DipperError) {
            self.bytes = bytes
            self.options = options
            self.orientation = orientation
            size = features.size
            let chunks = WebPChunks(bytes)
            try options.limits.check(size, frames: options.firstFrameOnly ? 1 : chunks.completeFrames)
            // libwebp allocates two canvases, and the picture is a third.
            try options.limits.checkMemory(PixelSize(width: size.width, height: 3 * size.height))
            let count = Self.cut(bytes, to: chunks)
            var settings = WebPAnimDecoderOptions()
            guard WebPAnimDecoderOptionsInit(&settings) != 0 else {
                throw .undecodable.with(detail: "WebP: another version of libwebp")
            }
            settings.color_mode = MODE_rgbA
            var webP = WebPData(bytes: bytes.base, size: count)
            guard let decoder = WebPAnimDecoderNew(&webP, &settings) else {
                throw .undecodable.with(detail: "WebP: the animation is broken")
            }
            var info = WebPAnimInfo()
            WebPAnimDecoderGetInfo(decoder, &info)
            // The pixels are read with this size from libwebp's canvas.
            guard info.canvas_width == size.width, info.canvas_height == size.height else {
                WebPAnimDecoderDelete(decoder)
                throw .undecodable.with(detail: "WebP: the canvas has another size")
            }
            self.decoder = decoder
            frameCount = options.firstFrameOnly ? min(1, Int(info.frame_count)) : Int(info.frame_count)
            loopCount = Int(info.loop_count)
            color = WebPContainer.color(in: bytes)
        }

        deinit {
            WebPAnimDecoderDelete(decoder)
        }

        /// Changes the header of a file that ends too early so that the file ends with its last complete frame: libwebp
        /// reads only complete files. Returns the number of bytes of the file to read.
        private static func cut(_ bytes: PinnedBytes, to chunks: WebPChunks) -> Int {
            guard chunks.announced > bytes.count, chunks.completeFrames > 0 else { return bytes.count }
            let length = UInt32(clamping: chunks.endOfFrames - 8)
            bytes.bytes.storeBytes(of: length.littleEndian, toByteOffset: 4, as: UInt32.self)
            return chunks.endOfFrames
        }

        func rewind() throws(DipperError) {
            WebPAnimDecoderReset(decoder)
            (time, shown, isAtEnd) = (0, 0, false)
        }

        func next() throws(DipperError) -> AnimationFrame? {
            guard !isAtEnd, WebPAnimDecoderHasMoreFrames(decoder) != 0 else { return nil }
            try options.checkCancelled()
            isAtEnd = true
            var pixels: UnsafeMutablePointer<UInt8>?
            var end: Int32 = 0
            guard WebPAnimDecoderGetNext(decoder, &pixels, &end) != 0, let pixels else {
                guard shown > 0 else { throw .undecodable.with(detail: "WebP: the first frame is broken") }
                return nil
            }
            let image = try RowWriter.image(
                of: Canvas(base: pixels, size: size, rowStride: size.width * 4), picture: size,
                alpha: .premultiplied, orientation: orientation, color: color, options)
            let duration = Duration.milliseconds(max(0, Int(end) - time))
            time = Int(end)
            shown += 1
            isAtEnd = false
            return AnimationFrame(image: image, duration: duration)
        }
    }

    /// The positions of a WebP file's frames, found without decoding (RFC 9649, 2.3 and 2.7).
    private struct WebPChunks {
        /// The length that the header states, in bytes.
        private(set) var announced = 0
        private(set) var completeFrames = 0
        /// In bytes.
        private(set) var endOfFrames = 0

        init(_ pinned: PinnedBytes) {
            let bytes = UnsafeRawBufferPointer(start: pinned.base, count: pinned.count)
            guard bytes.count >= 12 else { return }
            func number(_ offset: Int) -> Int {
                Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
            }
            announced = number(4) + 8
            var offset = 12
            while offset + 8 <= bytes.count {
                let length = number(offset + 4)
                let end = offset + 8 + length + length % 2
                guard end <= bytes.count else { return }
                if number(offset) == Self.frame {
                    completeFrames += 1
                    endOfFrames = end
                }
                offset = end
            }
        }

        /// `ANMF`.
        private static let frame = 0x464D_4E41
    }
#endif
