import Foundation

struct FrameCommand {
    /// In microseconds before the frame, where ffmpeg begins to read: without an index it may land anywhere, but within
    /// this time there is a whole picture. An earlier frame is read from the video's start.
    private static let lead = 10_000_000

    /// From the video's start in microseconds, which is ffmpeg's unit.
    private let time: Int
    private let bounds: PixelSize?

    init(_ time: Duration, _ bounds: PixelSize?) {
        let (whole, attoseconds) = min(max(time, .zero), .seconds(1_000_000_000)).components
        self.time = Int(whole) * 1_000_000 + Int((attoseconds + 500_000_000_000) / 1_000_000_000_000)
        self.bounds = bounds.map { PixelSize(width: max($0.width, 1), height: max($0.height, 1)) }
    }

    private static func seconds(_ time: Int) -> String {
        "\(time / 1_000_000)." + String(1_000_000 + time % 1_000_000).dropFirst()
    }

    var seeks: Bool { time > Self.lead }

    /// Distinguishes the frames of one video.
    var name: String { "frame " + Self.seconds(time) + (bounds.map { " in \($0.width)x\($0.height)" } ?? "") }

    /// Playlists, scripts, manifests and descriptions of streams are left out: they make ffmpeg open other files.
    private static let formats = [
        "mov", "matroska", "webm", "avi", "flv", "mpegts", "mpeg", "mpegvideo", "m4v", "h264", "hevc", "obu", "ivf",
        "ogg", "asf", "rm", "dv", "mxf", "nut", "wtv",
    ]

    /// The video is descriptor 3, the picture standard output. `fromStart` reads the video from its start.
    func arguments(fromStart: Bool = false) -> [String] {
        let begin = fromStart || !seeks ? 0 : time - Self.lead
        // ffmpeg begins at the key frame before this time: accurate seeking leaves nothing of a video that ends
        // earlier. Some videos have no frames left after any seek.
        let seeking = begin > 0 ? ["-noaccurate_seek", "-ss", Self.seconds(begin)] : []
        let input = [
            "-nostdin", "-hide_banner", "-loglevel", "error",
            "-protocol_whitelist", "file", "-format_whitelist", Self.formats.joined(separator: ","), "-threads", "2",
            // A path, because the protocol `pipe` cannot seek and the protocol `fd` is too new.
            "-i", "file:/proc/self/fd/3",
        ]
        let output = [
            "-an", "-sn", "-dn", "-map_metadata", "-1", "-filter_threads", "1", "-vf", filters(time - begin),
            "-frames:v", "1", "-threads", "1", "-c:v", "png", "-f", "image2pipe", "pipe:1",
        ]
        return seeking + input + output
    }

    /// `wait` is the time from where the reading begins to the frame, in microseconds.
    private func filters(_ wait: Int) -> String {
        [
            // The last frame goes on for ever, so that there is a frame at any time.
            "tpad=stop=-1:stop_mode=clone", "select='gte(t,\(Self.seconds(wait)))'",
            "scale=w='\(side("iw*sar"))':h='\(side("ih"))':flags=lanczos+accurate_rnd+full_chroma_int",
            "format=rgb24", "setsar=1",
            // The video's own transfer curve counts as that of sRGB, because videos are shown in this way.
            "setparams=color_trc=iec61966-2-1",
        ].joined(separator: ",")
    }

    private func side(_ length: String) -> String {
        guard let bounds else { return "max(1,round(\(length)))" }
        return "max(1,round(\(length)*min(1,min(\(bounds.width)/(iw*sar),\(bounds.height)/ih))))"
    }

    /// Only absolute folders of `PATH` count, because anybody may have put files into the working folder.
    static func find(_ program: String) throws(DipperError) -> String {
        let paths: [String]
        if program.hasPrefix("/") {
            paths = [program]
        } else if program.isEmpty || program.contains("/") {
            paths = []
        } else {
            let folders = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
            paths = folders.split(separator: ":").filter { $0.hasPrefix("/") }.map { "\($0)/\(program)" }
        }
        for path in paths {
            var status = stat()
            if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, access(path, X_OK) == 0 { return path }
        }
        throw missing(program)
    }

    static func missing(_ program: String) -> DipperError {
        .unsupportedFormat.with(
            detail: "pictures of videos need the program '\(program)', which is not there: install ffmpeg, "
                + "or set VideoFrameProvider.program to its path")
    }

    /// Throws `DipperError.undecodable` if the output is not a complete PNG file.
    static func picture(_ ended: ProgramRun.Ended, of video: String) throws(DipperError) -> Data {
        let end = Data([0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82])
        if ended.isSuccess, ImageFormat(sniffing: ended.output) == .png, ended.output.suffix(end.count) == end {
            return ended.output
        }
        let reason = ended.message ?? (ended.output.isEmpty ? "no picture in it" : "the program's answer is no picture")
        throw .undecodable.with(
            detail: "'\(video)': " + reason.replacingOccurrences(of: "file:/proc/self/fd/3: ", with: ""))
    }
}
