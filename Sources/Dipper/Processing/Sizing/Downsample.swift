extension ImageProcessors {
    /// A processor that brings a picture to the size in which it is displayed.
    ///
    /// As the first processor of a request, `Downsample` takes effect while the picture is decoded: formats offer cheap
    /// ways to smaller sizes, and the decoder need not keep rows in the picture's own size.
    ///
    /// ```swift
    /// let thumbnail = ImageRequest(url).processed(by: .downsample(width: 200, height: 150))
    /// ```
    public struct Downsample: ImageProcessor, Hashable {
        /// The size, and how a picture of other proportions is brought to it.
        public let target: TargetSize

        /// Creates a processor for a target, which gives a size for pictures of any size.
        public init(to target: TargetSize) {
            self.target = target
        }

        /// Creates a processor for a size in pixels.
        public init(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) {
            self.init(to: TargetSize(PixelSize(width: width, height: height), mode))
        }

        /// The identifier, for example `downsample(400x300,fit)`.
        public var identifier: String { "downsample(\(target.identifier))" }

        /// The decode target, which is ``target``.
        public var decodeTarget: TargetSize? { target }

        /// Returns the picture in the target's size, or the picture itself if it has that size.
        /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try image.resized(to: target.size(for: image.size), context)
        }
    }
}
