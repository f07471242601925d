import Foundation

/// A decoder of one picture format. It may be called from any thread, several at a time.
///
/// To add a format, write a decoder and register it in ``ImageCache/Configuration/codecs``:
///
/// ```swift
/// struct EnvelopeDecoder: ImageDecoder {              // for files of six bytes, PHOTO1, and a JPEG file
///     let format = ImageFormat(rawValue: "envelope")
///     func recognizes(_ start: Data) -> Bool { start.starts(with: "PHOTO1".utf8) }
///     func info(of data: Data) throws(DipperError) -> ImageInfo { try ImageInfo(data.dropFirst(6)) }
///     func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
///         try JPEGDecoder().decode(data.dropFirst(6), options)
///     }
/// }
/// ```
public protocol ImageDecoder: Sendable {
    /// The format that the decoder reads.
    var format: ImageFormat { get }

    /// How pictures of the format are decoded with ``Isolation/automatic``: the default is `.off`, in the program. Formats
    /// whose libraries are attacked the most have `.preferred`. The program itself still calls ``info(of:)`` and
    /// ``memory(of:_:)`` of such a decoder, which therefore must not call the library.
    var isolation: Isolation { get }

    /// Starts the threads that the decoder's library needs, in a helper process before its wall is closed: behind it, none
    /// can be started. Files are out of reach already. The default does nothing.
    func prepareForIsolation()

    /// Returns whether a file with these first bytes has the decoder's format. The default asks
    /// ``ImageFormat/init(sniffing:)``.
    /// - Parameter start: the first 4096 bytes, or all bytes if there are fewer.
    func recognizes(_ start: Data) -> Bool

    /// Returns the properties that the file's header states. The default is ``ImageInfo/init(_:)``.
    /// - Throws: `DipperError.undecodable`.
    func info(of data: Data) throws(DipperError) -> ImageInfo

    /// Returns the most memory that a decode takes, in bytes: the result, and all that the decoder and its library hold
    /// meanwhile, apart from the bytes given. ``ImageCache/Configuration/decodingMemory`` counts it for a decode, and a
    /// decoder checks it by ``DecodeLimits/check(bytes:)``. The default is the picture in its own size beside the result.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int

    /// Decodes the picture, or the first frame of an animation, upright, in sRGB, in the size of the options' target.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`, `DipperError.cancelled`.
    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image

    /// Returns a decoder of an animation's frames; `nil` for a still picture, or if only the first frame is wanted.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)?
}

extension ImageDecoder {
    public var isolation: Isolation { .off }
    public func prepareForIsolation() {}
    public func recognizes(_ start: Data) -> Bool { ImageFormat(sniffing: start) == format }
    public func info(of data: Data) throws(DipperError) -> ImageInfo { try ImageInfo(data) }
    public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? { nil }

    public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        guard let size = try info(of: data).size else { return data.count }
        return try size.byteCount() + (options.target?.size(for: size) ?? size).byteCount()
    }

    /// The picture of an animation also has the decoder of the frames, and all frames if the options preload them.
    func picture(_ frames: FileFrames, of data: Data) throws(DipperError) -> Image {
        var options = frames.options
        try options.checkCancelled()
        guard let first = try frames.next() else { throw .undecodable.with(detail: "there are no frames") }
        let preloaded = try options.preloadsFrames && frames.frameCount > 1 ? frames.all(after: first) : nil
        let count = preloaded?.count ?? frames.frameCount
        guard count > 1 else { return first.image }
        // The caller's closure would keep the cache alive.
        options.isCancelled = { false }
        options.preloadsFrames = false
        var image = first.image
        let info = try? ImageInfo(data)
        image.animation = ImageAnimation(
            frameCount: count, loopCount: frames.loopCount, loopDuration: info?.loopDuration,
            fileSize: data.count, storedSize: info?.size, limits: options.limits, preloaded: preloaded
        ) { [options] context throws(DipperError) in
            var options = options
            options.limits = context.limits
            options.isCancelled = context.isCancelled
            guard let frames = try self.frames(of: data, options) else {
                throw .undecodable.with(detail: "there are no frames")
            }
            return frames
        }
        return image
    }
}

protocol FrameReader: AnyObject {
    /// The memory that decoding takes beside the frames, in bytes.
    var held: Int { get }
    var frameCount: Int { get }
    /// The number of times the animation plays; 0 for endlessly.
    var loopCount: Int { get }
    func read() throws(DipperError) -> AnimationFrame?
    func restart() throws(DipperError)
}

/// The frames of a file, up to the first broken one: data after it cannot be told from noise.
final class FileFrames: FrameDecoder {
    fileprivate let options: DecodeOptions
    private let reader: any FrameReader
    private var hasFrame = false
    private var isAtEnd = false

    init(_ reader: any FrameReader, _ options: DecodeOptions) {
        self.reader = reader
        self.options = options
    }

    fileprivate var frameCount: Int { options.firstFrameOnly ? min(1, reader.frameCount) : reader.frameCount }
    fileprivate var loopCount: Int { reader.loopCount }

    var ifAnimated: FileFrames? { frameCount > 1 ? self : nil }

    func rewind() throws(DipperError) {
        try reader.restart()
        (hasFrame, isAtEnd) = (false, false)
    }

    func next() throws(DipperError) -> AnimationFrame? {
        guard !isAtEnd else { return nil }
        try options.checkCancelled()
        // Reading goes on only after a complete frame, whatever happens before.
        isAtEnd = true
        do throws(DipperError) {
            guard let frame = try reader.read() else { return nil }
            (hasFrame, isAtEnd) = (true, false)
            return frame
        } catch {
            if error == .undecodable, hasFrame { return nil }
            throw error
        }
    }

    fileprivate func all(after first: AnimationFrame) throws(DipperError) -> [AnimationFrame]? {
        let size = first.image.byteCount
        guard options.resultBytes(size, frames: frameCount, beside: reader.held) > size else { return nil }
        var all = [first]
        while all.count < frameCount, let frame = try next() { all.append(frame) }
        return all
    }
}

extension Data {
    /// Foundation's `withUnsafeBytes` loses the type of the closure's error.
    func withBytes<Value>(
        _ body: (UnsafeRawBufferPointer) throws(DipperError) -> Value
    ) throws(DipperError) -> Value {
        let result: Result<Value, DipperError> = withUnsafeBytes { bytes in
            Result { () throws(DipperError) in try body(bytes) }
        }
        return try result.get()
    }
}

/// A copy of a file's bytes at a fixed address, for C libraries that read them over several calls.
// The bytes are written only before the reference is shared.
final class PinnedBytes: @unchecked Sendable {
    let base: UnsafeMutablePointer<UInt8>
    let count: Int

    init(_ data: Data) {
        // One more byte, so that there is an address even if the data is empty.
        base = .allocate(capacity: data.count + 1)
        base[data.count] = 0
        data.copyBytes(to: base, count: data.count)
        count = data.count
    }

    deinit {
        base.deallocate()
    }

    var bytes: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: base, count: count) }
}
