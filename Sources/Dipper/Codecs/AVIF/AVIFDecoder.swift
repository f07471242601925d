#if AVIF
    import Foundation

    /// A decoder for still and animated AVIF with 8, 10 or 12 bits, by libavif.
    ///
    /// Colours are converted to sRGB from the file's profile, or from its coded primaries and transfer function (nclx).
    /// In PQ and HLG, light brighter than white is clipped: there is no tone mapping.
    ///
    /// ```swift
    /// var options = DecodeOptions()
    /// options.limits.pixels = 50_000_000
    /// let image = try AVIFDecoder().decode(bytes, options)
    /// ```
    public struct AVIFDecoder: ImageDecoder {
        /// The format ``ImageFormat/avif``.
        public let format = ImageFormat.avif

        /// Creates a decoder.
        public init() {}

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            return try picture(AVIFFrames(data, options), of: data, options)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            let frames = try AVIFFrames(data, options)
            return frames.frameCount > 1 ? frames : nil
        }
    }
#endif
