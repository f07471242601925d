#if WebP
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
#endif
