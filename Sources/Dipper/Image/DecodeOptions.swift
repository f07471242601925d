import Foundation

/// Options for decoding a picture.
///
/// ```swift
/// var options = DecodeOptions(target: TargetSize(width: 64, height: 64))
/// options.firstFrameOnly = true
/// options.isCancelled = { Task.isCancelled }
/// let icon = try Image(data: bytes, options)
/// ```
///
/// A target in points is multiplied by the scale:
///
/// ```swift
/// var options = DecodeOptions(target: TargetSize(width: 64, height: 64).points)
/// options.scale = 2                           // at most 128 by 128 pixels
/// let icon = try Image(data: bytes, options)
/// ```
public struct DecodeOptions: Sendable {
    /// The size wanted, as displayed; `nil` for the picture's own size. With a target without pixels, decoding throws
    /// `DipperError.processingFailed`. A decoder of a ``CodecRegistry`` is given the target in pixels.
    public var target: TargetSize?
    /// The number of pixels for each point of the display, stored in the result and used for a target in points.
    public var scale = 1.0
    /// Whether to decode only the first frame of an animation.
    public var firstFrameOnly = false
    /// Whether to decode all frames of an animation at once.
    public var preloadsFrames = false
    /// Whether a file that ends too early gives a picture whose rest is transparent or coarse, instead of an error.
    public var allowsPartial = false
    /// The limits on what one decode may use.
    public var limits = DecodeLimits()
    /// Whether helper processes decode the picture, behind a wall.
    public var isolation = Isolation.automatic
    /// The program of the helper processes; `nil` for the one that is found. See ``Isolation``.
    public var decoderProgram: URL?
    /// A closure that the decoder calls between rows; if it returns `true`, the decode ends with
    /// `DipperError.cancelled`.
    public var isCancelled: @Sendable () -> Bool = { false }

    /// Creates options that decode the whole picture in its own size.
    public init() {}

    /// Creates options that decode to a target size, or to the picture's own size if the target is `nil`.
    public init(target: TargetSize?) {
        self.target = target
    }

    static let rowsAtATime = 64
    /// The most threads that a decoder may use, its caller's among them.
    var threads = Self.cores
    static let cores = max(1, min(8, ProcessInfo.processInfo.activeProcessorCount))

    /// Throws `DipperError.cancelled` if the decode was cancelled. Decoders call this method every few rows.
    public func checkCancelled() throws(DipperError) {
        if isCancelled() { throw .cancelled }
    }

    /// Checks a size as ``DecodeLimits/check(_:frames:)`` does, of the frames only the first if no more are wanted.
    func check(_ size: PixelSize, frames: Int) throws(DipperError) {
        try limits.check(size, frames: firstFrameOnly ? 1 : frames)
    }

    /// The memory of the result, in bytes: one frame, or all frames if they are decoded ahead, as far as the limits
    /// allow them beside what the decoder holds.
    func resultBytes(_ frame: Int, frames: Int, beside held: Int) -> Int {
        let (all, overflows) = frame.multipliedReportingOverflow(by: frames)
        let isAhead = preloadsFrames && !firstFrameOnly && !overflows && all <= max(0, limits.bytes) - held
        return isAhead ? all : frame
    }

    func storedTarget(for stored: PixelSize, _ orientation: Image.Orientation) throws(DipperError) -> PixelSize {
        guard let target = target?.pixels(at: scale) else { return stored }
        try target.check()
        return orientation.applied(to: target.size(for: orientation.applied(to: stored)))
    }
}

/// Whether pictures are decoded by helper processes, which can open no file, reach no network and start no program.
///
/// Decoders of foreign bytes are where programs are attacked. A helper that crashes, or is taken over, is only one
/// picture's error, `DipperError.decoderFailed`. <doc:Decoding#Decoding-apart> says which program the helpers run.
///
/// ```swift
/// var configuration = ImageCache.Configuration(directory: folder)
/// configuration.isolation = .required
/// ```
public enum Isolation: Sendable, Hashable {
    /// Pictures are decoded as with ``preferred`` if their format asks for it by ``ImageDecoder/isolation``, as HEIC,
    /// JPEG XL and SVG do, and as with ``off`` if not. The program must provide helpers, as for the other cases.
    case automatic
    /// Pictures are decoded by helpers behind a complete wall, or fail with `DipperError.notIsolated`.
    case required
    /// Pictures are decoded by helpers as far as the system can: behind an incomplete wall if a part is missing, and in
    /// this program if there is no helper, unless one has failed with the file. ``ImageCache/isolationPosture`` says what
    /// is missing, and a cache logs it.
    case preferred
    /// Pictures are decoded in this program.
    case off
}

/// Limits on the resources that one picture may use, checked before memory is allocated.
public struct DecodeLimits: Sendable, Hashable {
    /// The largest number of pixels of the stored picture, even if it is decoded to a smaller size.
    public var pixels = 1 << 28
    /// The largest number of frames of an animation.
    public var frames = 10_000
    /// The most memory that one decode may use, in bytes: the result and the intermediate buffers.
    public var bytes = 1 << 30
    /// The longest time that a helper process may take for a picture, or for a frame; see <doc:Decoding#Decoding-apart>.
    /// In the program itself no decode is ended by force.
    public var time = Duration.seconds(30)

    /// Creates the default limits: 268 million pixels, 10,000 frames, 1 GiB, 30 seconds.
    public init() {}

    /// Checks the size and the number of frames that a header announces.
    /// - Throws: `DipperError.undecodable` for an empty picture, `DipperError.imageTooLarge` above the limits.
    public func check(_ size: PixelSize, frames: Int = 1) throws(DipperError) {
        try size.checkNotEmpty()
        let (count, overflows) = size.width.multipliedReportingOverflow(by: size.height)
        guard !overflows, count <= pixels else { throw .imageTooLarge.with(detail: "\(size) pixels") }
        guard frames <= self.frames else { throw .imageTooLarge.with(detail: "\(frames) frames") }
    }

    /// Checks an amount of memory, in bytes, before it is allocated. Throws `DipperError.imageTooLarge`.
    public func check(bytes count: Int) throws(DipperError) {
        guard count <= bytes else { throw .imageTooLarge.with(detail: "\(count) bytes") }
    }

    /// Checks the memory for all pixels of a size, and further bytes beside them. Throws `DipperError.imageTooLarge`.
    func checkMemory(_ size: PixelSize, beside: Int = 0) throws(DipperError) {
        try check(bytes: size.byteCount() + beside)
    }
}

/// The limits and the cancellation of one processing.
public struct ProcessingContext: Sendable {
    /// The limits for the result and for the memory that is needed to make it.
    public var limits: DecodeLimits
    /// A closure that processors call now and then: if it returns `true`, the work ends with `DipperError.cancelled`.
    public var isCancelled: @Sendable () -> Bool
    /// Called with a processor's identifier before the processor; the closure that it returns is called afterwards.
    var onStep: (@Sendable (_ identifier: String) -> (@Sendable (DipperError?) -> Void)?)?

    /// Creates a context. The default closure never cancels the work.
    public init(limits: DecodeLimits = .init(), isCancelled: @escaping @Sendable () -> Bool = { false }) {
        self.limits = limits
        self.isCancelled = isCancelled
    }

    /// Throws `DipperError.cancelled` if the work is cancelled. Processors call this method every few rows.
    public func checkCancelled() throws(DipperError) {
        if isCancelled() { throw .cancelled }
    }
}
