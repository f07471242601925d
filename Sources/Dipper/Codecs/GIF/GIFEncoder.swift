#if GIF
    import Foundation

    /// Writes GIF 89a by giflib, still and moving: 256 colours a frame, each pixel opaque or transparent.
    ///
    /// Pictures of few colours keep them exactly; others get the colours of giflib's median cut. Pixels of less than
    /// half of full alpha become transparent. Durations are rounded to hundredths of a second.
    public struct GIFEncoder: ImageEncoder {
        /// ``ImageFormat/gif``.
        public let format = ImageFormat.gif

        /// Without settings.
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
