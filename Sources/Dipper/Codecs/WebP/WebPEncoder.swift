#if WebP
    import CWebP
    import Foundation

    /// Writes WebP by libwebp: lossy with a quality, or lossless; still and moving.
    public struct WebPEncoder: ImageEncoder {
        /// ``ImageFormat/webp``.
        public let format = ImageFormat.webp

        /// Without settings.
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
            // Of six methods for lossy and nine levels for lossless pictures: for a photograph the next ones take up to
            // three times as long, and the file becomes no more than 2 % smaller.
            settings.method = 2
            if options.isLossless { isGood = isGood && WebPConfigLosslessPreset(&settings, 2) != 0 }
            guard isGood, WebPValidateConfig(&settings) != 0 else {
                throw .unencodable.with(detail: "WebP: the settings are not accepted")
            }
            return settings
        }
    }
#endif
