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

    /// Returns whether a file with these first bytes has the decoder's format. The default asks
    /// ``ImageFormat/init(sniffing:)``.
    /// - Parameter start: the first 4096 bytes, or all bytes if there are fewer.
    func recognizes(_ start: Data) -> Bool

    /// Returns the properties that the file's header states. The default is ``ImageInfo/init(_:)``.
    /// - Throws: `DipperError.undecodable`.
    func info(of data: Data) throws(DipperError) -> ImageInfo

    /// Decodes the picture, or the first frame of an animation, upright, in sRGB, in the size of the options' target.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`, `DipperError.cancelled`.
    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image

    /// Returns a decoder of an animation's frames; `nil` for a still picture, or if only the first frame is wanted.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)?
}

extension ImageDecoder {
    public func recognizes(_ start: Data) -> Bool { ImageFormat(sniffing: start) == format }
    public func info(of data: Data) throws(DipperError) -> ImageInfo { try ImageInfo(data) }
    public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? { nil }
}

protocol CountedFrames: FrameDecoder {
    var frameCount: Int { get }
    var loopCount: Int { get }
}

extension ImageDecoder {
    /// The picture of an animation also has the decoder of the frames, and all frames if the options preload them.
    func picture(
        _ frames: some CountedFrames, of data: Data, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        guard let first = try frames.next() else { throw .undecodable.with(detail: "there are no frames") }
        var image = first.image
        guard !options.firstFrameOnly, frames.frameCount > 1 else { return image }
        var count = frames.frameCount
        var preloaded: [AnimationFrame]?
        if options.preloadsFrames {
            preloaded = try allFrames(after: first, of: frames, options)
            count = preloaded?.count ?? count
        }
        guard count > 1 else { return image }
        image.animation = ImageAnimation(
            frameCount: count, loopCount: frames.loopCount, fileSize: data.count, limits: options.limits,
            preloaded: preloaded
        ) { [options = options.forFrames] limits, isCancelled throws(DipperError) in
            var options = options
            options.limits = limits
            options.isCancelled = isCancelled
            guard let frames = try self.frames(of: data, options) else {
                throw .undecodable.with(detail: "there are no frames")
            }
            return frames
        }
        return image
    }

    /// `nil` if the frames would take more memory than allowed.
    private func allFrames(
        after first: AnimationFrame, of frames: some CountedFrames, _ options: DecodeOptions
    ) throws(DipperError) -> [AnimationFrame]? {
        let (bytes, overflows) = first.image.byteCount.multipliedReportingOverflow(by: frames.frameCount)
        guard !overflows, bytes <= options.limits.bytes else { return nil }
        var all = [first]
        while all.count < frames.frameCount, let frame = try frames.next() {
            try options.checkCancelled()
            all.append(frame)
        }
        return all
    }
}

extension DecodeOptions {
    fileprivate var forFrames: DecodeOptions {
        var options = self
        // The caller's closure would keep the cache alive.
        options.isCancelled = { false }
        options.preloadsFrames = false
        options.allowsPartial = false
        return options
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
// The bytes are written only before the object is shared.
final class PinnedBytes: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer

    init(_ data: Data) {
        // One more byte, so that there is an address even if the data is empty.
        bytes = .allocate(byteCount: data.count + 1, alignment: 16)
        bytes[data.count] = 0
        data.copyBytes(to: bytes)
        count = data.count
    }

    deinit {
        bytes.deallocate()
    }

    let count: Int

    var base: UnsafeMutablePointer<UInt8> {
        // At least one byte was allocated.
        bytes.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self)
    }
}
