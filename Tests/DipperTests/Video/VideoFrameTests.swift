import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures of videos", .enabled(if: VideoFile.isPossible, "ffmpeg is not installed"), .timeLimit(.minutes(2)))
struct VideoFrameTests {
    private let folder = TemporaryFolder()

    private func video(_ name: String = "video.mp4", _ bytes: Data? = nil) async throws -> URL {
        let file = folder.url.appendingPathComponent(name)
        let contents = if let bytes { bytes } else { await VideoFile.colors }
        try contents.write(to: file)
        return file
    }

    @Test("the picture is that of the time; past the end the last one, before the start the first")
    func times() async throws {
        let video = try await video()
        for (time, color) in [(-5, 0), (0, 0), (0.5, 0), (1.0, 1), (1.5, 1), (2.02, 2), (2.99, 2), (3, 2), (400, 2)] {
            let image = try await VideoFrameProvider(video, at: .seconds(time)).image
            #expect(image.mainColor == color && image.size == PixelSize(width: 160, height: 90), "\(time)")
        }
    }

    @Test(
        "of each container there is the right picture before the end and after it, with pictures far between and no index",
        arguments: [
            ("mkv", false), ("avi", false), ("mpg", false), ("ts", true), ("flv", true), ("h264", true), ("mkv", true),
        ])
    func containers(_ ending: String, isRare: Bool) async throws {
        let options = isRare ? ["-c:v", "libx264", "-g", "250", "-sc_threshold", "0"] : []
        let video = try await VideoFile.colors(as: "video.\(ending)", in: folder, options)
        for (time, color) in [(0.2, 0), (1.5, 1), (12, 2), (30, 2)] as [(Double, Int)] {
            let image = try await VideoFrameProvider(video, at: .seconds(time)).image
            #expect(image.mainColor == color, "\(time)")
        }
    }

    @Test("it fits into its bounds, keeps its proportions, and is not enlarged")
    func bounds() async throws {
        let video = try await video()
        for (bounds, size) in [
            ((80, 80), (80, 45)), ((80, 9), (16, 9)), ((1_000, 1_000), (160, 90)), ((160, 1), (2, 1)), ((1, 1), (1, 1)),
            ((0, -4), (1, 1)), ((Int.max, Int.max), (160, 90)),
        ] {
            let bounds = PixelSize(width: bounds.0, height: bounds.1)
            let image = try await VideoFrameProvider(video, at: .seconds(1.5), fitting: bounds).image
            #expect(image.size == PixelSize(width: size.0, height: size.1), "\(bounds)")
            #expect(image.mainColor == 1)
        }
    }

    @Test("it is turned as the video says, and as wide as it is to be shown")
    func shape() async throws {
        let turned = VideoFrameProvider(await VideoFile.turned, key: "turned", at: .zero)
        #expect(try await turned.image.size == PixelSize(width: 90, height: 160))
        let wide = try await VideoFile.colors(as: "wide.mp4", in: folder, ["-vf", "setsar=2"])
        #expect(try await VideoFrameProvider(wide, at: .zero).image.size == PixelSize(width: 320, height: 90))
        let small = VideoFrameProvider(wide, at: .zero, fitting: PixelSize(width: 32, height: 32))
        #expect(try await small.image.size == PixelSize(width: 32, height: 9))
    }

    @Test("the name of a file is never an option, a protocol or a pattern")
    func names() async throws {
        for name in ["-version", "concat:a|b.mp4", "http:", "%03d.png", "a\nb 'c' \"d\" $(e) ü.mp4", "pipe:0"] {
            let image = try await VideoFrameProvider(try await video(name), at: .seconds(1.5)).image
            #expect(image.mainColor == 1, "\(name)")
        }
    }

    @Test("what is no video is an error: \"undecodable\" for bytes, \"unreadable\" for what is no file")
    func bad() async throws {
        let truncated = await VideoFile.colors.prefix(await VideoFile.colors.count / 2)
        for bytes in [
            Data(), Data("hello, world\n".utf8), try Image.sample().png, Data(truncated), Data(count: 100_000),
        ] {
            let error = await VideoFrameProvider(try await video("bad.mp4", bytes), at: .zero).error
            #expect(error == .undecodable && error?.detail?.contains("bad.mp4'") == true, "\(bytes)")
        }
        let sound = folder.url.appendingPathComponent("sound.mp4")
        await VideoFile.run("ffmpeg", ["-f", "lavfi", "-i", "sine=duration=1", sound.path])
        #expect(await VideoFrameProvider(sound, at: .zero).error == .undecodable)
        let pipe = folder.url.appendingPathComponent("pipe")
        #expect(mkfifo(pipe.path, 0o600) == 0)
        for file in [
            folder.url, pipe, folder.url.appendingPathComponent("nothing"), URL(fileURLWithPath: "/dev/zero"), url("a"),
        ] {
            #expect(await VideoFrameProvider(file, at: .zero).error == .unreadable, "\(file)")
        }
    }

    @Test("in a cache it is a picture like others: processed, and kept on disk until the video is another")
    func cached() async throws {
        let video = try await video()
        let test = TestImageCache(folder: TemporaryFolder())
        func frame() async -> VideoFrameProvider {
            VideoFrameProvider(video, at: .seconds(1.5), key: await FileProvider.key(of: video))
        }
        let small = ImageRequest(await frame()).processed(by: .downsample(width: 40, height: 40))
        let image = try await test.cache.getImage(small).value
        #expect(image.size.width == 40 && image.mainColor == 1)
        #expect(try await test.cache.getImage(ImageRequest(await frame())).value.size.width == 160)
        #expect(test.cache.data.statistics.networkRequests == 0)
        await test.cache.idle()
        let again = await test.reopened()
        let same = ImageRequest(await frame().with(\.program, "/nowhere/ffmpeg"))
        let response = try await again.cache.getImage(same).response
        #expect(response.source == .disk && response.image.mainColor == 1)
        try await VideoFile.turned.write(to: video)
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1)], ofItemAtPath: video.path)
        let changed = try await again.cache.getImage(ImageRequest(await frame())).value
        #expect(changed.size == PixelSize(width: 90, height: 160))
    }

    @Test("frames of a video on a server share one fetch; the video and the frames stay on disk")
    func remote() async throws {
        let video = url("video.mp4")
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(video, [.body(await VideoFile.colors)])
        func frame(_ second: Double, _ program: String = "ffmpeg") -> ImageRequest {
            ImageRequest(VideoFrameProvider(video, at: .seconds(second)).with(\.program, program))
        }
        let tasks = [0.5, 1.5, 2.5].map { test.cache.getImage(frame($0)) }
        for (color, task) in tasks.enumerated() { #expect(try await task.value.mainColor == color) }
        var options = ImageOptions()
        options.processors = [.downsample(width: 40, height: 40)]
        let small = frame(1.5).with(\.options, options)
        #expect(try await test.cache.getImage(small).value.size.width == 40)
        #expect(test.transport.transfers.count == 1)
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: video, in: .disk) && test.cache.data.diskCount == 5)
        let again = await test.reopened()
        let response = try await again.cache.getImage(frame(1.5, "/nowhere/ffmpeg")).response
        #expect(response.source == .disk && response.image.mainColor == 1)
        #expect(again.cache.readImage(for: frame(2.5))?.mainColor == 2)
        // No thread of a caller waits for a program, and a program that fails is no reason to fetch the video again.
        #expect(again.cache.readImage(for: frame(0.1)) == nil)
        #expect(await again.cache.getImage(frame(0.1, "/nowhere/ffmpeg")).error == .unsupportedFormat)
        #expect(again.transport.transfers.isEmpty)
        again.cache.removeImage(for: video)
        await again.cache.idle()
        #expect(again.cache.data.diskCount == 0)
    }

    @Test("the code of the guide makes pictures, of a file and of what was fetched")
    func guide() async throws {
        let test = TestImageCache()
        let image = try await DecodingGuide.video(test.cache, try await video())
        #expect(image.size == PixelSize(width: 160, height: 90) && image.mainColor == 2)
        test.transport.script(url("video.mp4"), [.body(await VideoFile.colors)])
        #expect(try await DecodingGuide.remoteVideo(test.cache, url("video.mp4")).mainColor == 2)
    }

    @Test(
        "time and bounds are in the key, the file's state where it is asked for; a key of one's own stands for the file"
    )
    func keys() async throws {
        let video = try await video()
        let bounds = PixelSize(width: 8, height: 8)
        let frames = [
            VideoFrameProvider(video, at: .seconds(1)), VideoFrameProvider(video, at: .seconds(1.000001)),
            VideoFrameProvider(video, at: .seconds(1), fitting: bounds),
            VideoFrameProvider(video, at: .seconds(1), key: "a"),
            VideoFrameProvider(Data(), key: "b", at: .seconds(1)),
        ]
        #expect(Set(frames.map(\.cacheKey)).count == frames.count && frames.allSatisfy { !$0.isLocal })
        #expect(VideoFrameProvider(video, at: .seconds(1)).cacheKey == frames[0].cacheKey)
        let key = await FileProvider.key(of: video)
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1)], ofItemAtPath: video.path)
        #expect(await FileProvider.key(of: video) != key)
        #expect(VideoFrameProvider(video, at: .seconds(1), key: "a").cacheKey == frames[3].cacheKey)
        #expect(VideoFrameProvider(video, at: .seconds(1), key: "").cacheKey.isEmpty)
    }

    // MARK: Videos that name other files

    /// Writes a file that refers to a secret video, by its path in a playlist or by its name in a script.
    private func file(_ name: String, isScript: Bool) async throws -> URL {
        let secret = try await VideoFile.colors(as: isScript ? "secret.mp4" : "secret.ts", in: folder)
        let text =
            isScript
            ? "ffconcat version 1.0\nfile secret.mp4\n"
            : "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n\(secret.path)\n#EXT-X-ENDLIST\n"
        let file = folder.url.appendingPathComponent(name)
        try Data(text.utf8).write(to: file)
        return file
    }

    /// Runs ffmpeg on a file by its path, as the provider does or without the list of formats.
    private func writes(_ file: URL, anyFormat: Bool) async throws -> Int {
        var arguments = FrameCommand(.zero, nil).arguments().map {
            $0 == "file:/proc/self/fd/3" ? "file:\(file.path)" : $0
        }
        let list = try #require(arguments.firstIndex(of: "-format_whitelist"))
        if anyFormat { arguments.removeSubrange(list...list + 1) }
        let output = file.deletingLastPathComponent().appendingPathComponent("output")
        #expect(FileManager.default.createFile(atPath: output.path, contents: nil))
        await VideoFile.run("ffmpeg", arguments, output: try FileHandle(forWritingTo: output))
        return try Data(contentsOf: output).count
    }

    @Test(
        "a playlist or a script opens nothing, whatever it is called; without the list of formats it would",
        arguments: ["a.m3u8", "a.mp4"], [true, false])
    func opensNothing(_ name: String, isScript: Bool) async throws {
        let file = try await file(name, isScript: isScript)
        #expect(try await writes(file, anyFormat: true) > 0)
        #expect(try await writes(file, anyFormat: false) == 0)
        #expect(await VideoFrameProvider(file, at: .zero).error == .undecodable)
    }

    @Test("a playlist of addresses connects to none")
    func addresses() async throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #expect(listener >= 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                #expect(bind(listener, pointer, length) == 0 && listen(listener, 8) == 0)
                #expect(getsockname(listener, pointer, &length) == 0)
            }
        }
        let target = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))/a.ts"
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n\(target)\n#EXT-X-ENDLIST\n"
        #expect(await VideoFrameProvider(Data(text.utf8), key: "playlist", at: .zero).error == .undecodable)
        #expect(accept(listener, nil, nil) == -1 && errno == EAGAIN)
    }
}
