import DipperData
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
/// `ffmpeg` decodes the video in a process of its own, so a video that makes a decoder crash, hang or take all memory
/// does no harm to the calling program. The process has no standard input, no shell, a few environment variables,
/// limits on time, memory and output, and the video as an open file, whose name is never an argument. Playlists and
/// other files that name files are refused. At most two such processes run at once. A process that nobody waits for any
/// more is killed.
///
/// The video is a file on this machine, or in memory. Fetch a video on a server with ``ImageCache/data`` first, so that
/// queues, address policy and credentials apply to it.
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
    ///
    /// ```swift
    /// var still = VideoFrameProvider(video, at: .seconds(3))
    /// still.program = "/opt/ffmpeg/bin/ffmpeg"
    /// ```
    public var program = "ffmpeg"
    /// The time that one run of the program may take. Time spent waiting for other programs does not count. A video
    /// without an index may need two runs.
    public var timeLimit = Duration.seconds(30)
    /// The most bytes that the program may write, which is the size of a PNG file.
    public var maximumSize = 1 << 28

    private let source: VideoSource

    /// Creates a provider for one frame of a video file.
    ///
    /// The initializer does not read the file. With the default key, which is the file's URL, a changed file is not
    /// noticed until its pictures are removed or requested with the policy `ignoreCache`. With a key from ``key(of:)``
    /// a changed file counts as another video.
    ///
    /// ```swift
    /// for second in stride(from: 0, to: 60, by: 10) {
    ///     cache.slowGetImage(ImageRequest(VideoFrameProvider(video, at: .seconds(second))))
    /// }
    /// ```
    /// - Parameters:
    ///   - video: a file URL.
    ///   - time: the position of the frame in the video.
    ///   - bounds: the size into which the frame is fitted, in pixels; `nil` keeps its size.
    ///   - key: identifies the video; time and bounds are added to it. The default is the file's URL.
    public init(_ video: URL, at time: Duration, fitting bounds: PixelSize? = nil, key: CacheKey? = nil) {
        self.init(.file(video), key ?? CacheKey(video.standardizedFileURL), time, bounds)
    }

    /// Returns a key made of a file's URL, size and modification time, which are read on a background thread.
    ///
    /// ```swift
    /// let key = await VideoFrameProvider.key(of: video)
    /// let still = VideoFrameProvider(video, at: .seconds(3), key: key)
    /// ```
    public static func key(of video: URL) async -> CacheKey {
        await withCheckedContinuation { continuation in
            files.run { continuation.resume(returning: VideoSource.key(of: video)) }
        }
    }

    /// The thread that reads the attributes of files.
    private static let files = SeparateThread()

    /// Creates a provider for one frame of a video in memory.
    ///
    /// ```swift
    /// let video = try await cache.data.getData(url).value
    /// let still = VideoFrameProvider(video, key: CacheKey(url), at: .seconds(3))
    /// let image = try await cache.getImage(ImageRequest(still)).value
    /// ```
    /// - Parameters:
    ///   - video: the contents of the video file.
    ///   - key: identifies the video; time and bounds are added to it.
    ///   - time: the position of the frame in the video.
    ///   - bounds: the size into which the frame is fitted, in pixels; `nil` keeps its size.
    public init(_ video: Data, key: CacheKey, at time: Duration, fitting bounds: PixelSize? = nil) {
        self.init(.bytes(video), key, time, bounds)
    }

    private init(_ source: VideoSource, _ key: CacheKey, _ time: Duration, _ bounds: PixelSize?) {
        self.source = source
        self.time = time
        self.bounds = bounds
        // An empty key stays empty, so that every call refuses it.
        cacheKey = key.isEmpty ? key : CacheKey("\(key.string)\nframe \(FrameCommand(time, bounds).name)")
    }

    /// Returns the frame as a PNG file.
    ///
    /// ```swift
    /// let file = try await VideoFrameProvider(video, at: .seconds(3)).data()
    /// try file.write(to: folder.appending(path: "poster.png"))
    /// ```
    /// - Throws: `DipperError.unsupportedFormat` if the program is not there; `DipperError.unreadable` if the video is
    ///   not a readable file; `DipperError.undecodable` if the file is not a video, is broken, or takes longer than
    ///   ``timeLimit``; `DipperError.tooLarge`; `DipperError.cancelled`.
    public func data() async throws -> Data {
        let (source, command) = (source, FrameCommand(time, bounds))
        let (program, timeLimit, maximumSize) = (program, timeLimit, maximumSize)
        return try await Self.runners.run { wakeup throws(DipperError) in
            let program = try FrameCommand.find(program)
            // A seek past the end of a video without an index finds no frame: then the video is read from its start.
            for fromStart in command.seeks ? [false, true] : [true] {
                let run = ProgramRun(
                    program: program, arguments: command.arguments(fromStart: fromStart), timeLimit: timeLimit,
                    maximumSize: maximumSize)
                let ended = try run.run(reading: source.opened(), endingAt: wakeup)
                if ended.isSuccess, ended.output.isEmpty, !fromStart { continue }
                return try FrameCommand.picture(ended, of: source.name)
            }
            throw .undecodable
        }
    }

    /// The threads that wait for programs. Waiting blocks, which threads of Swift's concurrency must not do.
    private static let runners = ProgramQueue(name: "dipper-video", programs: 2)
}

/// The place of a video: a file, or bytes in memory.
private enum VideoSource: Sendable {
    case file(URL)
    case bytes(Data)

    /// The name of the video in messages.
    var name: String {
        switch self {
        case .file(let file): file.path
        case .bytes: "the video"
        }
    }

    /// Opens the video for reading. Blocks the thread.
    func opened() throws(DipperError) -> OwnedDescriptor {
        switch self {
        case .file(let file): try Self.opened(file)
        case .bytes(let bytes): try Self.opened(bytes)
        }
    }

    /// Returns a key made of the file's URL, size and modification time, or of the URL alone if the file cannot be
    /// read. A URL contains no line break, so the line after it cannot be mistaken for a part of it.
    static func key(of file: URL) -> CacheKey {
        let key = CacheKey(file.standardizedFileURL)
        var status = stat()
        guard file.isFileURL, stat(file.path, &status) == 0 else { return key }
        return CacheKey("\(key.string)\n\(status.st_size) \(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)")
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

    /// Opens a file that exists only in memory. A pipe would not do, because a video's index may be at its end.
    private static func opened(_ bytes: Data) throws(DipperError) -> OwnedDescriptor {
        let descriptor = try OwnedDescriptor(dipper_memory_file(), for: "memory for a video")
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
