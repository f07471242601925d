/// The frames of a moving picture, decoded on demand.
public final class ImageAnimation: Sendable {
    /// Makes a decoder that begins with the first frame and takes no more than the limits allow. The closure that it is
    /// given tells decoding and processing to end.
    typealias MakeDecoder =
        @Sendable (DecodeLimits, @escaping @Sendable () -> Bool) throws(DipperError) -> any FrameDecoder

    /// The number of frames in the file.
    public let frameCount: Int
    /// The number of times that all frames are shown; 0 for ever.
    public let loopCount: Int
    /// All frames, if they were decoded ahead.
    public let preloaded: [AnimationFrame]?
    /// The limits of one frame.
    let limits: DecodeLimits
    /// The size of the file in memory, in bytes.
    private let fileSize: Int
    private let makeDecoder: MakeDecoder

    init(
        frameCount: Int, loopCount: Int, fileSize: Int, limits: DecodeLimits, preloaded: [AnimationFrame]? = nil,
        makeDecoder: @escaping MakeDecoder
    ) {
        self.frameCount = frameCount
        self.loopCount = loopCount
        self.fileSize = fileSize
        self.limits = limits
        self.preloaded = preloaded
        self.makeDecoder = makeDecoder
    }

    /// The memory that it takes in addition to the picture, which is the first frame, in bytes.
    public var byteCount: Int {
        fileSize + (preloaded?.dropFirst().reduce(0) { $0 + $1.image.byteCount } ?? 0)
    }

    /// ``byteCount`` with what is allocated around the pixels.
    var footprint: Int {
        fileSize + (preloaded?.dropFirst().reduce(0) { $0 + $1.image.footprint } ?? 0)
    }

    /// Decodes the frames again, from the first. Each has the size of the picture and is processed as it was.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    public func makeFrameDecoder() throws(DipperError) -> any FrameDecoder {
        try makeFrameDecoder(isCancelled: { false })
    }

    /// - Parameter isCancelled: tells decoding and processing to end.
    func makeFrameDecoder(isCancelled: @escaping @Sendable () -> Bool) throws(DipperError) -> any FrameDecoder {
        try makeDecoder(limits, isCancelled)
    }

    /// Returns an animation whose frames are made from those of this one.
    /// - Parameters:
    ///   - preloaded: all new frames, if they are there.
    ///   - change: makes the decoder of the new frames from that of the old ones.
    func changed(
        limits: DecodeLimits, preloaded: [AnimationFrame]?,
        _ change: @escaping @Sendable (any FrameDecoder, DecodeLimits, @escaping @Sendable () -> Bool) -> any FrameDecoder
    ) -> ImageAnimation {
        ImageAnimation(
            frameCount: frameCount, loopCount: loopCount, fileSize: fileSize, limits: limits, preloaded: preloaded
        ) { [makeDecoder] limits, isCancelled throws(DipperError) in
            change(try makeDecoder(limits, isCancelled), limits, isCancelled)
        }
    }
}

/// One frame as it is shown: what earlier ones left and this one draws.
public struct AnimationFrame: Sendable {
    /// The whole picture as it is to be seen.
    public let image: Image
    /// How long it is shown, as the file says.
    public let duration: Duration

    /// A frame that is shown for a while.
    public init(image: Image, duration: Duration) {
        self.image = image
        self.duration = duration
    }
}

/// Decodes the frames of one picture in order. For one thread at a time.
public protocol FrameDecoder: AnyObject {
    /// The next frame, of the whole picture's size; `nil` after the last.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`; what processors throw.
    func next() throws(DipperError) -> AnimationFrame?
    /// Begins with the first again.
    /// - Throws: `DipperError.undecodable`.
    func rewind() throws(DipperError)
}
