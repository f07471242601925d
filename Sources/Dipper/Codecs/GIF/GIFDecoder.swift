#if GIF
    import Foundation

    /// A decoder for still and animated GIF 87a and 89a, by giflib.
    ///
    /// ```swift
    /// if let frames = try GIFDecoder().frames(of: bytes, DecodeOptions()) {
    ///     while let frame = try frames.next() { print(frame.image.size, frame.duration) }
    /// }
    /// ```
    public struct GIFDecoder: ImageDecoder {
        /// The format ``ImageFormat/gif``.
        public let format = ImageFormat.gif

        /// Creates a decoder.
        public init() {}

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            return try picture(GIFFrames(data, options), of: data, options)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            let frames = try GIFFrames(data, options)
            return frames.frameCount > 1 ? frames : nil
        }
    }
#endif
