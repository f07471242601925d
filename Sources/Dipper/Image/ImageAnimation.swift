/// The frames of an animated picture, decoded on demand. An ``AnimationPlayer`` plays them.
public final class ImageAnimation: Sendable {
    /// Creates a decoder at the first frame. The limits and the cancellation are those of each later frame too.
    typealias MakeDecoder = @Sendable (ProcessingContext) throws(DipperError) -> any FrameDecoder

    /// The number of frames in the file.
    public let frameCount: Int
    /// The number of times the animation plays; 0 for endlessly.
    public let loopCount: Int
    /// The time of all frames together, as the file states it; `nil` if that is known only after decoding, as in AVIF.
    public let loopDuration: Duration?
    /// All frames, if they were decoded ahead; otherwise `nil`.
    public let preloaded: [AnimationFrame]?
    let limits: DecodeLimits
    /// In bytes: the animation keeps the encoded file in memory.
    let fileSize: Int
    /// The size in which the file stores each frame, whatever they are made into; `nil` if it is not known.
    let storedSize: PixelSize?
    let makeDecoder: MakeDecoder

    init(
        frameCount: Int, loopCount: Int, loopDuration: Duration? = nil, fileSize: Int, storedSize: PixelSize? = nil,
        limits: DecodeLimits, preloaded: [AnimationFrame]? = nil, makeDecoder: @escaping MakeDecoder
    ) {
        self.frameCount = frameCount
        self.loopDuration = loopDuration
        self.loopCount = loopCount
        self.fileSize = fileSize
        self.storedSize = storedSize
        self.limits = limits
        self.preloaded = preloaded
        self.makeDecoder = makeDecoder
    }

    static func still(_ image: Image) -> ImageAnimation {
        ImageAnimation(
            frameCount: 1, loopCount: 1, fileSize: 0, limits: DecodeLimits(),
            preloaded: [AnimationFrame(image: image, duration: .zero)]
        ) { _ throws(DipperError) in throw .undecodable }
    }

    /// The memory that the animation uses in addition to the picture, which is the first frame, in bytes.
    public var byteCount: Int {
        fileSize + (preloaded?.dropFirst().reduce(0) { $0 + $1.image.byteCount } ?? 0)
    }

    var footprint: Int {
        fileSize + (preloaded?.dropFirst().reduce(0) { $0 + $1.image.footprint } ?? 0)
    }

    /// Creates a decoder of the frames, from the first. Each frame has the picture's size and is processed as the
    /// picture was.
    ///
    /// ```swift
    /// if let frames = try image.animation?.makeFrameDecoder() {
    ///     while let frame = try frames.next() { print(frame.image.size, frame.duration) }
    /// }
    /// ```
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    public func makeFrameDecoder() throws(DipperError) -> any FrameDecoder {
        try makeDecoder(ProcessingContext(limits: limits))
    }

    /// The limits hold for all frames together, as for one picture of them all, though one after the other is in
    /// memory: a small file may have more of them than anybody would wait for.
    func frames(like first: Image) throws(DipperError) -> any FrameDecoder {
        if let preloaded { return FrameList(preloaded) }
        let (bytes, overflows) = (first.rowStride * first.height).multipliedReportingOverflow(by: frameCount)
        try limits.check(bytes: overflows ? .max : bytes)
        if let storedSize {
            let (height, overflows) = storedSize.height.multipliedReportingOverflow(by: frameCount)
            try limits.check(PixelSize(width: storedSize.width, height: overflows ? .max : height))
        }
        return try makeFrameDecoder()
    }

    /// Returns an animation whose frames are decoded until a closure returns `true`.
    func cancelled(by isCancelled: @escaping @Sendable () -> Bool) -> ImageAnimation {
        ImageAnimation(
            frameCount: frameCount, loopCount: loopCount, loopDuration: loopDuration, fileSize: fileSize,
            storedSize: preloaded == nil ? storedSize : nil, limits: limits
        ) { [makeDecoder, preloaded] context throws(DipperError) in
            var context = context
            context.isCancelled = { [earlier = context.isCancelled] in earlier() || isCancelled() }
            if let preloaded { return FrameList(preloaded, context) }
            return try makeDecoder(context)
        }
    }
}

/// One frame of an animation as it is displayed: the pixels it draws, over those that earlier frames left.
///
/// ```swift
/// let frames = [image, mirrored].map { AnimationFrame(image: $0, duration: .milliseconds(500)) }
/// let file = try GIFEncoder().encode(frames, loopCount: 0, EncodeOptions())
/// ```
public struct AnimationFrame: Sendable {
    /// The whole picture during this frame.
    public let image: Image
    /// The time for which the frame is displayed, as the file states it.
    public let duration: Duration

    /// Creates a frame from a picture and the time for which it is displayed.
    public init(image: Image, duration: Duration) {
        self.image = image
        self.duration = duration
    }
}

/// A decoder of one picture's frames, in order, for one thread at a time. See ``ImageAnimation/makeFrameDecoder()``.
public protocol FrameDecoder: AnyObject {
    /// Returns the next frame, in the size of the whole picture; `nil` after the last.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`, `DipperError.cancelled`; the errors of
    ///   processors.
    func next() throws(DipperError) -> AnimationFrame?
    /// Restarts at the first frame. Throws `DipperError.undecodable`.
    func rewind() throws(DipperError)
}

/// Frames that are in memory.
final class FrameList: FrameDecoder {
    private let frames: [AnimationFrame]
    private let context: ProcessingContext
    private var position = 0

    init(_ frames: [AnimationFrame], _ context: ProcessingContext = .init()) {
        (self.frames, self.context) = (frames, context)
    }

    func next() throws(DipperError) -> AnimationFrame? {
        try context.checkCancelled()
        guard position < frames.count else { return nil }
        position += 1
        return frames[position - 1]
    }

    func rewind() { position = 0 }
}
