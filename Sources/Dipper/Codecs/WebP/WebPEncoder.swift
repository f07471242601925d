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

        /// Creates an encoder.
        public init() {}

        public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
            var settings = try Self.settings(options)
            let picture = try WebPPixels(image)
            return try picture.encode(&settings)
        }

        public func encode(
            _ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions
        ) throws(DipperError) -> Data {
            guard let first = frames.first else { throw .unencodable.with(detail: "there are no frames") }
            var settings = try Self.settings(options)
            let animation = try WebPAnimation(first.image.size, loopCount: loopCount)
            for frame in frames { try animation.add(frame, &settings) }
            return try animation.finish()
        }

        private static func settings(_ options: EncodeOptions) throws(DipperError) -> WebPConfig {
            var settings = WebPConfig()
            let quality = options.quality.isFinite ? min(1, max(0, options.quality)) : 0.85
            var isGood = WebPConfigPreset(&settings, WEBP_PRESET_DEFAULT, Float(quality * 100)) != 0
            // Method 2 of 0 to 6 for lossy pictures, and level 2 of 0 to 9 for lossless ones. For a photograph the next
            // steps take up to three times as long, and the file becomes at most 2 % smaller.
            settings.method = 2
            if options.isLossless { isGood = isGood && WebPConfigLosslessPreset(&settings, 2) != 0 }
            guard isGood, WebPValidateConfig(&settings) != 0 else {
                throw .unencodable.with(detail: "WebP: the settings are not accepted")
            }
            return settings
        }
    }
#endif
