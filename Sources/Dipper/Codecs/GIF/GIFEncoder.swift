#if GIF
    import Foundation

    /// An encoder for still and animated GIF 89a, by giflib: 256 colours for each frame, each pixel opaque or
    /// transparent.
    ///
    /// A picture of few colours keeps them exactly; others get the colours of giflib's median cut. Pixels with less
    /// than half of full alpha become transparent. Durations are rounded to hundredths of a second.
    ///
    /// ```swift
    /// var frames: [AnimationFrame] = []
    /// let decoder = try image.animation?.makeFrameDecoder()
    /// while let frame = try decoder?.next() { frames.append(frame) }
    /// let file = try GIFEncoder().encode(frames, loopCount: 0, EncodeOptions())
    /// ```
    public struct GIFEncoder: ImageEncoder {
        /// The format ``ImageFormat/gif``.
        public let format = ImageFormat.gif

        /// Creates an encoder.
        public init() {}

        public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
            let writer = try GIFWriter(image.size, loopCount: 1)
            try writer.add(IndexedPixels(image), duration: nil)
            return try writer.finish()
        }

        public func encode(
            _ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions
        ) throws(DipperError) -> Data {
            guard let first = frames.first else { throw .unencodable.with(detail: "there are no frames") }
            let size = first.image.size
            let writer = try GIFWriter(size, loopCount: loopCount)
            for frame in frames {
                guard frame.image.size == size else {
                    throw .unencodable.with(detail: "frames of \(size) and of \(frame.image.size) pixels")
                }
                try writer.add(IndexedPixels(frame.image), duration: frame.duration)
            }
            return try writer.finish()
        }
    }
#endif
