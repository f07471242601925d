import DipperData
import Foundation

/// A picture out of a video, at a time.
///
/// ```swift
/// let still = VideoFrameProvider(video, at: .seconds(3), fitting: PixelSize(width: 320, height: 320))
/// let image = try await cache.getImage(ImageRequest(still)).value
/// ```
///
/// The picture is the first one at the time or after it. A time past the end is the last picture, one before the start the
/// first. Pictures come upright, and as wide as they are to be shown.
///
/// `ffmpeg` decodes the video, in a process of its own, so that a video that makes a decoder crash, hang or take all
/// memory does not do that to the program.
/// The process has no standard input, no shell, a few variables of the environment, limits on time, memory and output, and
/// the video as an open file: its name is never an argument. Playlists and other files that name files are refused. At
/// most two such processes run at once; one that nobody waits for any more is killed.
///
/// The video is a file of this machine, or in memory. A video on a server is first to be fetched, by the cache, so that
/// queues, address policy and credentials hold for it as they do for everything.
///
/// What was made is kept on disk, because making it takes long.
public struct VideoFrameProvider: DataProvider {
    /// The time in the video.
    public let time: Duration
    /// What the picture fits into, with its proportions kept, in pixels; it is never enlarged. `nil` leaves its size.
    public let bounds: PixelSize?
    public let cacheKey: CacheKey

    /// The program that decodes: a name, which is looked for in the folders of `PATH`, or an absolute path. It takes the
    /// arguments of `ffmpeg`; 5.1 is what the tests run.
    public var program = "ffmpeg"
    /// How long the program may run. Time it waits for others to end does not count.
    public var timeLimit = Duration.seconds(30)
    /// The most that the program may write, in bytes: the size of a PNG file.
    public var maximumSize = 1 << 28

    private let source: VideoSource

    /// Creates a provider for one frame of a video file.
    ///
    /// The initializer does not read the file. With the default key, which is the file's URL, a changed file is not
    /// noticed until its pictures are removed or requested with the policy `ignoreCache`. With a key from ``key(of:)``
    /// a changed file counts as another video.
    /// - Parameters:
    ///   - video: a file URL.
    ///   - time: the position of the frame in the video.
    ///   - bounds: the size into which the frame is fitted, in pixels; `nil` keeps its size.
    ///   - key: identifies the video; time and bounds are added to it. The default is the file's URL.
    public init(_ video: URL, at time: Duration, fitting bounds: PixelSize? = nil, key: CacheKey? = nil) {
        self.init(.file(video), key ?? CacheKey(video.standardizedFileURL), time, bounds)
    }

    /// Returns a key made of a file's URL, size and modification time, which are read on a thread of the cache.
    ///
    /// ```swift
    /// let key = await VideoFrameProvider.key(of: video)
    /// let still = VideoFrameProvider(video, at: .seconds(3), key: key)
    /// ```
    public static func key(of video: URL) async -> CacheKey { await runners.run { VideoSource.key(of: video) } }

    /// Creates a provider for one frame of a video in memory.
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
        // An empty key stays what every call refuses.
        cacheKey = key.isEmpty ? key : CacheKey("\(key.string)\nframe \(FrameCommand(time, bounds).name)")
    }

    /// The picture, as a PNG file.
    /// - Throws: `DipperError.unsupportedFormat` without the program; `DipperError.unreadable` for what is no file;
    ///   `DipperError.undecodable` for what is no video, is broken, or takes longer than ``timeLimit``;
    ///   `DipperError.tooLarge`; `DipperError.cancelled`.
    public func data() async throws -> Data {
        let (source, command) = (source, FrameCommand(time, bounds))
        let (program, timeLimit, maximumSize) = (program, timeLimit, maximumSize)
        return try await Self.runners.run { wakeup throws(DipperError) in
            let program = try FrameCommand.find(program)
            // Behind the end of a video without an index there is nothing to begin with.
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

    /// Waiting for a program blocks, which a thread of Swift's concurrency must not.
    private static let runners = ProgramQueue(name: "dipper-video", programs: 2)
}
