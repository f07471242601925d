#if AVIF
    import Foundation

    /// Reads AVIF, still and moving, of 8, 10 and 12 bits, by libavif.
    ///
    /// Colours come into sRGB from the file's profile, or from its coded primaries and transfer function (nclx).
    /// What is brighter than white in PQ and HLG is cut off: there is no tone mapping.
    public struct AVIFDecoder: ImageDecoder {
        /// ``ImageFormat/avif``.
        public let format = ImageFormat.avif

        /// Without settings.
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
