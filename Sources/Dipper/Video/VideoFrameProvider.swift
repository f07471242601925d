import Foundation
import ProcessShims

/// A provider of one frame of a video.
///
/// ```swift
/// let still = VideoFrameProvider(video, at: .seconds(3), fitting: PixelSize(width: 320, height: 320))
/// let image = try await cache.getImage(ImageRequest(still)).value
/// ```
///
/// The frame is the first one at the time or after it. A time past the end gives the last frame, and a time before the
/// start gives the first. Frames are upright and have square pixels.
///
/// `ffmpeg` decodes the video in a separate process, so a video that makes a decoder crash, hang or take all memory
/// does no harm to the program. The process has no standard input, no shell, few environment variables, limits on time,
/// memory and output, and the video as an open file, whose name is never an argument. Playlists and other files that
/// name files are refused. At most two processes run at once; one that nobody waits for is killed.
///
/// The video is a file on this machine, in memory, or on a server. A cache fetches the video of an `http` or `https` URL
/// like other bytes, once for all of its frames and with all options of the ``ImageRequest``, and keeps it on disk under
/// the key of the URL; ``ImageOptions/keepsOriginal`` set to `false` keeps the frames alone. ``data()`` alone fetches
/// nothing.
///
/// The cache keeps the frame on disk, because making it takes long.
public struct VideoFrameProvider: DataProvider {
    /// The position of the frame in the video.
    public let time: Duration
    /// The size into which the frame is fitted, in pixels, with its proportions kept. The frame is never enlarged.
    /// `nil` keeps the frame's size.
    public let bounds: PixelSize?
    public let cacheKey: CacheKey

    /// The program that decodes: a name, which is looked for in the absolute folders of `PATH`, or an absolute path.
    /// The program must take the arguments of `ffmpeg`; the tests run version 5.1.
    public var program = "ffmpeg"
    /// The time that one run of the program may take. Time spent waiting for other programs does not count. A video
    /// without an index may need two runs.
    public var timeLimit = Duration.seconds(30)
    /// The most bytes that the program may write, which is the size of a PNG file.
    public var maximumSize = 1 << 28

    private let source: VideoSource
    private let ownKey: CacheKey?
    private let command: FrameCommand

    /// Creates a provider for one frame of a video in a file, or on a server for an ``ImageRequest``. The frame is
    /// fitted into the bounds, in pixels; `nil` keeps its size.
    ///
    /// The key identifies the video; time and bounds are added to it. The initializer does not read the file. With the
    /// default key, which is the URL, a changed file is not noticed until its pictures are removed or requested with
    /// the policy `ignoreCache`. With a key from `FileProvider.key(of:)` a changed file counts as
    /// another video.
    public init(_ video: URL, at time: Duration, fitting bounds: PixelSize? = nil, key: CacheKey? = nil) {
        self.init(.file(video), key ?? CacheKey(video.standardizedFileURL), time, bounds, ownKey: key)
    }

    /// Creates a provider for one frame of a video in memory. The key identifies the video; time and bounds are added
    /// to it. The frame is fitted into the bounds, in pixels; `nil` keeps its size.
    public init(_ video: Data, key: CacheKey, at time: Duration, fitting bounds: PixelSize? = nil) {
        self.init(.bytes(video), key, time, bounds)
    }

    private init(
        _ source: VideoSource, _ key: CacheKey, _ time: Duration, _ bounds: PixelSize?, ownKey: CacheKey? = nil
    ) {
        self.source = source
        self.ownKey = ownKey
        self.time = time
        self.bounds = bounds
        let command = FrameCommand(time, bounds)
        self.command = command
        // An empty key stays empty, so that every call refuses it.
        cacheKey = key.isEmpty ? key : CacheKey("\(key.string)\n\(command.name)")
    }

    /// Returns the frame as a PNG file.
    /// - Throws: `DipperError.unsupportedFormat` if the program is not there; `DipperError.unreadable` if the video is
    ///   not a readable file; `DipperError.undecodable` if the file is not a video, is broken, or takes longer than
    ///   ``timeLimit``; `DipperError.tooLarge`; `DipperError.cancelled`.
    public func data() async throws -> Data {
        if Task.isCancelled { throw DipperError.cancelled }
        let (results, caller) = AsyncStream.makeStream(of: Result<Data, DipperError>.self)
        let cancellation = Cancellation()
        caller.onTermination = { _ in cancellation.set() }
        let isCancelled: @Sendable () -> Bool = { cancellation.isSet }
        threads.run {
            guard !isCancelled() else { return }
            do throws(DipperError) {
                caller.yield(.success(try frame(of: source, isCancelled: isCancelled)))
            } catch {
                caller.yield(.failure(error))
            }
        }
        // The stream ends without a result as soon as the task is cancelled.
        for await result in results { return try result.get() }
        throw DipperError.cancelled
    }

    private func frame(of source: VideoSource, isCancelled: @escaping () -> Bool) throws(DipperError) -> Data {
        let path = try FrameCommand.find(program)
        // A seek past the end of a video without an index finds no frame: then the video is read from its start.
        for fromStart in command.seeks ? [false, true] : [true] {
            let run = ProgramRun(
                program: path, arguments: command.arguments(fromStart: fromStart), timeLimit: timeLimit,
                maximumSize: maximumSize, isCancelled: isCancelled)
            let ended = try run.run(reading: source.opened())
            if ended.isSuccess, ended.output.isEmpty, !fromStart { continue }
            return try FrameCommand.picture(ended, of: source.name)
        }
        throw .undecodable
    }

    private static let runners = Workers(name: "dipper-video", threads: 2)

    // MARK: Videos that a cache has fetched

    /// The request for the video; `nil` if the provider reads it itself.
    var remote: DataRequest? {
        guard case .file(let url) = source, ["http", "https"].contains(url.scheme?.lowercased()) else { return nil }
        return DataRequest(url).with(\.key, ownKey)
    }

    var name: String { command.name }

    /// Waiting for a program blocks, which threads of Swift's concurrency must not do.
    var threads: Workers { Self.runners }

    /// Returns the frame of a video as a PNG file. Blocks the thread.
    func picture(of bytes: Data, isCancelled: @escaping () -> Bool) throws(DipperError) -> Data {
        try frame(of: .bytes(bytes), isCancelled: isCancelled)
    }
}

private enum VideoSource: Sendable {
    case file(URL)
    case bytes(Data)

    var name: String {
        switch self {
        case .file(let file): file.path
        case .bytes: "the video"
        }
    }

    /// Blocks the thread.
    func opened() throws(DipperError) -> OwnedDescriptor {
        switch self {
        case .file(let file): try Self.opened(file)
        case .bytes(let bytes): try Self.opened(bytes)
        }
    }

    private static func opened(_ file: URL) throws(DipperError) -> OwnedDescriptor {
        guard file.isFileURL else { throw .unreadable.with(detail: "'\(file)' is no file") }
        // Opening a pipe without a writer must not block the thread.
        let flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK
        let descriptor = try OwnedDescriptor(open(file.path, flags), for: file.path)
        var status = stat()
        guard fstat(descriptor.number, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw .unreadable.with(detail: "'\(file.path)' is no regular file")
        }
        return descriptor
    }

    /// A file that exists only in memory. A pipe would not do, because a video's index may be at its end.
    private static func opened(_ bytes: Data) throws(DipperError) -> OwnedDescriptor {
        let descriptor = try OwnedDescriptor(dipper_memory_file("dipper-video"), for: "memory for a video")
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                pwrite(descriptor.number, bytes.baseAddress.map { $0 + offset }, bytes.count - offset, off_t(offset))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw OwnedDescriptor.failure("memory for a video", errno) }
            offset += count
        }
        return descriptor
    }
}
