#if WebP
    import CWebP
    import Foundation

    /// An encoder for WebP, by libwebp: lossy with a quality, or lossless; still and animated.
    ///
    /// ```swift
    /// var options = EncodeOptions()
    /// options.isLossless = true
    /// let file = try WebPEncoder().encode(image, options)
    /// ```
    public struct WebPEncoder: ImageEncoder {
        /// The format ``ImageFormat/webp``.
        public let format = ImageFormat.webp
        public let encodesAnimations = true

        /// Creates an encoder.
        public init() {}

        public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
            var settings = try Self.settings(options)
            let picture = try WebPPixels(image)
            return try picture.encode(&settings)
        }

        public func encode(
            _ frames: any FrameDecoder, loopCount: Int, _ options: EncodeOptions
        ) throws(DipperError) -> Data {
            var settings = try Self.settings(options)
            var frames = try FrameRun(frames)
            let animation = try WebPAnimation(frames.size, loopCount: loopCount)
            while let frame = try frames.next() { try animation.add(frame, &settings) }
            return try animation.finish()
        }

        private static func settings(_ options: EncodeOptions) throws(DipperError) -> WebPConfig {
            var settings = WebPConfig()
            var isGood = WebPConfigPreset(&settings, WEBP_PRESET_DEFAULT, Float(options.validQuality * 100)) != 0
            // Method 2 of 0 to 6 for lossy pictures, and level 2 of 0 to 9 for lossless ones. For a photograph the next
            // steps take up to three times as long, and the file becomes at most 2 % smaller.
            settings.method = 2
            if options.isLossless { isGood = isGood && WebPConfigLosslessPreset(&settings, 2) != 0 }
            guard isGood, WebPValidateConfig(&settings) != 0 else { throw .webP("the settings are not accepted") }
            return settings
        }
    }

    extension DipperError {
        fileprivate static func webP(_ detail: String) -> DipperError { .unencodable.with(detail: "WebP: " + detail) }
    }

    private final class WebPAnimation {
        private let encoder: OpaquePointer
        private var time = Duration.zero

        init(_ size: PixelSize, loopCount: Int) throws(DipperError) {
            guard (0...0xFFFF).contains(loopCount) else { throw .webP("shown \(loopCount) times") }
            var settings = WebPAnimEncoderOptions()
            guard WebPAnimEncoderOptionsInit(&settings) != 0 else { throw .webP("another version of libwebp") }
            settings.anim_params.loop_count = Int32(loopCount)
            guard let encoder = WebPAnimEncoderNew(Int32(clamping: size.width), Int32(clamping: size.height), &settings)
            else { throw .webP("\(size) pixels") }
            self.encoder = encoder
        }

        deinit {
            WebPAnimEncoderDelete(encoder)
        }

        func add(_ frame: AnimationFrame, _ settings: inout WebPConfig) throws(DipperError) {
            guard try WebPPixels(frame.image).add(to: encoder, at: timestamp(), &settings) else { throw error }
            time += max(.zero, frame.duration)
        }

        func finish() throws(DipperError) -> Data {
            guard WebPAnimEncoderAdd(encoder, nil, try timestamp(), nil) != 0 else { throw error }
            var data = WebPData()
            WebPDataInit(&data)
            defer { WebPDataClear(&data) }
            guard WebPAnimEncoderAssemble(encoder, &data) != 0, let bytes = data.bytes else { throw error }
            return Data(bytes: bytes, count: data.size)
        }

        /// In milliseconds. Only the sum of the durations is rounded, so that errors do not add up.
        private func timestamp() throws(DipperError) -> Int32 {
            let milliseconds = (time / .milliseconds(1)).rounded()
            guard milliseconds < Double(Int32.max) else { throw .webP("too long") }
            return Int32(milliseconds)
        }

        private var error: DipperError {
            let text = WebPAnimEncoderGetError(encoder).map { String(cString: $0) } ?? ""
            return .webP(text)
        }
    }

    private final class WebPPixels {
        private let picture: UnsafeMutablePointer<WebPPicture>

        init(_ image: Image) throws(DipperError) {
            let largest = Int(WEBP_MAX_DIMENSION)
            guard image.width <= largest, image.height <= largest else { throw .webP("\(image.size) pixels") }
            picture = .allocate(capacity: 1)
            picture.initialize(to: WebPPicture())
            guard WebPPictureInit(picture) != 0 else { throw .webP("another version of libwebp") }
            picture.pointee.use_argb = 1
            picture.pointee.width = Int32(image.width)
            picture.pointee.height = Int32(image.height)
            guard WebPPictureAlloc(picture) != 0, let pixels = picture.pointee.argb else { throw .webP("no memory") }
            let stride = Int(picture.pointee.argb_stride)
            try image.forEachRow { y, row throws(DipperError) in
                let target = pixels + y * stride
                for x in 0..<image.width {
                    let color = row + x * 4
                    target[x] =
                        UInt32(color[3]) << 24 | UInt32(color[0]) << 16 | UInt32(color[1]) << 8 | UInt32(color[2])
                }
            }
        }

        deinit {
            WebPPictureFree(picture)
            picture.deallocate()
        }

        func encode(_ settings: inout WebPConfig) throws(DipperError) -> Data {
            var writer = WebPMemoryWriter()
            WebPMemoryWriterInit(&writer)
            defer { WebPMemoryWriterClear(&writer) }
            let isEncoded = withUnsafeMutablePointer(to: &writer) { writer in
                picture.pointee.writer = WebPMemoryWrite
                picture.pointee.custom_ptr = UnsafeMutableRawPointer(writer)
                defer { picture.pointee.custom_ptr = nil }
                return WebPEncode(&settings, picture) != 0
            }
            guard isEncoded, let bytes = writer.mem else { throw .webP("error \(picture.pointee.error_code.rawValue)") }
            return Data(bytes: bytes, count: writer.size)
        }

        func add(to encoder: OpaquePointer, at milliseconds: Int32, _ settings: inout WebPConfig) -> Bool {
            WebPAnimEncoderAdd(encoder, picture, milliseconds, &settings) != 0
        }
    }
#endif
