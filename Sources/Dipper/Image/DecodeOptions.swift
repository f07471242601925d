/// How a picture is decoded.
public struct DecodeOptions: Sendable {
    /// The size that is wanted, in pixels as displayed; `nil` for the picture's own.
    public var target: TargetSize?
    /// Pixels for each point of the display; only noted in the result.
    public var scale = 1.0
    /// Leaves out the other frames of an animation.
    public var firstFrameOnly = false
    /// Decodes all frames of an animation at once.
    public var preloadsFrames = false
    /// A file that ends too early gives a picture whose rest is transparent, or coarse; else it is an error.
    public var allowsPartial = false
    /// The most that the picture may ask for.
    public var limits = DecodeLimits()
    /// Asked between rows: true ends the decode with `DipperError.cancelled`.
    public var isCancelled: @Sendable () -> Bool = { false }

    /// The whole picture in its own size.
    public init() {}

    /// To a size.
    public init(target: TargetSize?) {
        self.target = target
    }

    /// To be called by decoders every few rows.
    /// - Throws: `DipperError.cancelled`.
    public func checkCancelled() throws(DipperError) {
        if isCancelled() { throw .cancelled }
    }

    /// The size to decode to before the orientation is applied.
    func storedTarget(for stored: PixelSize, _ orientation: Orientation) -> PixelSize {
        guard let target else { return stored }
        return orientation.applied(to: target.size(for: orientation.applied(to: stored)))
    }
}

/// The most that a picture may ask for, checked before memory is taken.
public struct DecodeLimits: Sendable, Hashable {
    /// Pixels of the stored picture, also if it is decoded to a smaller size.
    public var pixels = 1 << 28
    /// Frames of an animation.
    public var frames = 10_000
    /// Bytes of one decode: the result, and what is needed on the way.
    public var bytes = 1 << 30

    /// The defaults: 268 million pixels, 10,000 frames, 1 GiB.
    public init() {}

    /// Checks what a header announces.
    /// - Throws: `DipperError.undecodable` for an empty picture, `DipperError.imageTooLarge`.
    public func check(_ size: PixelSize, frames: Int = 1) throws(DipperError) {
        guard !size.isEmpty else { throw .undecodable.with(detail: "the picture is empty") }
        let (count, overflows) = size.width.multipliedReportingOverflow(by: size.height)
        guard !overflows, count <= pixels else { throw .imageTooLarge.with(detail: "\(size) pixels") }
        guard frames <= self.frames else { throw .imageTooLarge.with(detail: "\(frames) frames") }
    }

    /// Checks the memory that is about to be taken, in bytes.
    /// - Throws: `DipperError.imageTooLarge`.
    public func check(bytes count: Int) throws(DipperError) {
        guard count <= bytes else { throw .imageTooLarge.with(detail: "\(count) bytes") }
    }

    /// The same for a picture of four bytes a pixel.
    func checkMemory(_ size: PixelSize) throws(DipperError) {
        let (count, overflows) = size.width.multipliedReportingOverflow(by: size.height)
        guard !overflows, count <= Int.max / 4 else { throw .imageTooLarge.with(detail: "\(size) pixels") }
        try check(bytes: count * 4)
    }
}
