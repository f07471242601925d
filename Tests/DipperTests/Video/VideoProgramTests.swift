import TestSupport
import Testing

@Suite("Programs that decode videos, and those that do not", .serialized, .timeLimit(.minutes(2)))
struct VideoProgramTests {
    private func error(
        _ script: String, _ change: (VideoFrameProvider) -> VideoFrameProvider = { $0 }
    ) async throws -> DipperError? {
        let fake = try await FakeProgram(script)
        let error = await change(fake.frame()).error
        withExtendedLifetime(fake) {}
        return error
    }

    @Test("a program that is not there is an error that says what to install")
    func missing() async throws {
        let folder = TemporaryFolder()
        let file = folder.url.appendingPathComponent("no program")
        try Data("hello".utf8).write(to: file)
        let provider = VideoFrameProvider(Data(), key: "a", at: .zero)
        for name in [
            "dipper-no-such-program", "", "./ffmpeg", "../ffmpeg", "/nowhere/ffmpeg", folder.url.path, file.path,
        ] {
            let error = await provider.with(\.program, name).error
            #expect(error == .unsupportedFormat && error?.detail?.contains("install ffmpeg") == true, "\(name)")
        }
        chmod(file.path, 0o700)
        #expect(await provider.with(\.program, file.path).error == .unsupportedFormat)
    }

    @Test("a program that never ends is ended, with its children, after the time limit")
    func endless() async throws {
        // On a busy machine it may not have come so far at first.
        for limit in [500, 4_000, 30_000] {
            let fake = try await FakeProgram("watch; sleep 1000 & echo $! >>$HERE/ids; wait")
            #expect(await fake.frame().with(\.timeLimit, .milliseconds(limit)).error == .undecodable)
            guard !fake.lines("ids").isEmpty else { continue }
            // It ends when the last of them is gone.
            for await _ in fake.news {}
            return
        }
        Issue.record("the program was not started within 30 seconds")
    }

    @Test("so is one that has closed its output, and one that never stops complaining")
    func closed() async throws {
        for script in ["exec >&- 2>&-; exec sleep 1000", "exec >&-; exec yes >&2", "exec yes >&2"] {
            let error = try await error(script) { $0.with(\.timeLimit, .milliseconds(300)) }
            #expect(error == .undecodable, "\(script)")
        }
    }

    @Test("a child that is left behind is ended, and does not take the picture away")
    func leftBehind() async throws {
        let fake = try await FakeProgram("watch; sleep 1000 >/dev/null 2>&1 & picture")
        #expect(try await fake.frame().image.pixels == Image.sample().pixels)
        for await _ in fake.news {}
    }

    @Test("one that writes forever is too large")
    func large() async throws {
        #expect(try await error("exec cat /dev/zero") { $0.with(\.maximumSize, 1 << 20) } == .tooLarge)
        let fake = try await FakeProgram("picture")
        let exact = fake.frame()
        let size = try await exact.data().count
        #expect(await exact.with(\.maximumSize, size).error == nil)
        #expect(await exact.with(\.maximumSize, size - 1).error == .tooLarge)
        withExtendedLifetime(fake) {}
    }

    @Test("what is no whole picture, or comes with a failure, is undecodable, and the error tells what was said")
    func garbage() async throws {
        for script in [
            "echo garbage", ":", "picture | head -c 60", "picture; exit 1", "picture; kill -9 $$", "kill -11 $$",
        ] {
            #expect(try await error(script) == .undecodable, "\(script)")
        }
        let message = "printf 'one\\n\\033[31mtwo\\a three\\n \\n' >&2; exit 1"
        let failure = try await error(message)
        #expect(failure == .undecodable && failure?.detail == "'the video': ?[31mtwo? three")
        let long = try await error("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1")
        #expect(long == .undecodable && (long?.detail?.count ?? 0) < 400)
    }

    @Test("it has no input, four open files, few variables, and limits")
    func surroundings() async throws {
        let fake = try await FakeProgram(
            """
            cat >$HERE/input; pwd >$HERE/folder; cat <&3 >$HERE/video
            env | sed 's/=.*//' | sort >$HERE/variables
            ls -l /proc/$$/fd >$HERE/files
            until [ "$(ulimit -v)" != unlimited ] && [ "$(ulimit -c)" = 0 ]; do :; done; ulimit -v >$HERE/limit
            picture
            """)
        #expect(try await fake.frame().image.pixels == Image.sample().pixels)
        #expect(fake.lines("input").isEmpty && fake.lines("folder") == ["/"] && fake.lines("video") == ["video"])
        let allowed = ["HOME", "LC_ALL", "LD_LIBRARY_PATH", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "_"]
        #expect(Set(fake.lines("variables")).isSubset(of: allowed))
        // What the shell opens for itself begins with ten.
        let files = fake.lines("files").filter { $0.contains(" -> ") }
        let numbers = files.compactMap { $0.split(separator: " -> ").first?.split(separator: " ").last }
            .compactMap { Int($0) }.filter { $0 < 10 }
        #expect(numbers.sorted() == [0, 1, 2, 3], "\(files)")
        #expect(fake.lines("limit") == ["4194304"])
    }

    @Test("a serializer is not given the video as the original: the frame is on disk, whatever the serializer does")
    func serializers() async throws {
        let fake = try await FakeProgram("echo run >>$HERE/runs; picture")
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(url("video.mp4"), [.body(Data("video".utf8))])
        let own = ImageSerializer { image, original, codecs in try original ?? codecs.encode(image, as: .png) }
        for (second, serializer) in [ImageSerializer.original, own].enumerated() {
            let frame = VideoFrameProvider(url("video.mp4"), at: .seconds(second)).with(\.program, fake.path)
            let request = ImageRequest(frame).with(\.serializer, serializer)
            _ = try await test.cache.getImage(request).value
            await test.cache.idle()
            test.cache.clearMemory()
            let response = try await test.cache.getImage(request).response
            #expect(response.source == .disk && response.image.pixels == Image.sample().pixels)
        }
        #expect(fake.lines("runs").count == 2)
    }

    @Test("options copied from a frame to another request, or to a cache, do not make a video of its bytes")
    func copiedOptions() async throws {
        let (video, photo) = (url("video.mp4"), Image.sample())
        func frame(_ second: Int) -> ImageRequest {
            ImageRequest(VideoFrameProvider(video, at: .seconds(second)).with(\.program, "/nowhere/ffmpeg"))
        }
        let test = TestImageCache { $0.options = frame(1).with(\.firstFrameOnly, true).options }
        test.transport.script(url("a.png"), [try .image(photo)])
        #expect(try await test.cache.getImage(url("a.png")).value.pixels == photo.pixels)
        let copy = ImageRequest(url("a.png")).with(\.options, frame(1).with(\.scale, 2).options)
        #expect(try await test.cache.getImage(copy).value.pixels == photo.pixels)
        let keys = [frame(1), frame(2), frame(2).with(\.options, frame(1).options)].map { test.cache.imageKey(for: $0) }
        #expect(keys[0] != keys[1] && keys[1] == keys[2])
    }

    @Test("an urgent frame of a video on a server passes prefetched ones, and one that is cancelled is not made")
    func urgent() async throws {
        let video = url("video.mp4")
        let fake = try await FakeProgram(
            """
            while [ "$1" != -ss ]; do shift; done
            mkdir $HERE/first 2>/dev/null && isFirst=1
            watch; tell $2; echo $2 >>$HERE/runs; [ "$isFirst" ] && pause; picture
            """)
        let test = TestImageCache()
        test.transport.script(video, [.body(Data("video".utf8))])
        // It begins ten seconds before the time.
        let requests = (0..<4).map {
            ImageRequest(VideoFrameProvider(video, at: .seconds($0 + 11)).with(\.program, fake.path))
        }
        let slow = requests.prefix(3).map { test.cache.slowGetImage($0) }
        var news = fake.news.makeAsyncIterator()
        // It runs until the end, so that no other prefetch begins.
        let first = try #require(await news.next().flatMap(Double.init).map { Int($0) - 1 })
        let waiting = Set(0..<3).subtracting([first]).sorted()
        for number in [3, waiting[1]] {
            #expect(try await test.cache.getImage(requests[number]).value.pixels == Image.sample().pixels)
            #expect(await news.next() == "\(number + 1).000000")
        }
        slow[waiting[0]].cancel()
        #expect(await slow[waiting[0]].error == .cancelled)
        fake.letGo()
        #expect(try await slow[first].value.pixels == Image.sample().pixels)
        await test.cache.idle()
        #expect(fake.lines("runs").count == 3)
    }

    @Test("at most two run at once; a call that is cancelled in the queue ends at once, and one that runs is killed")
    func cancelled() async throws {
        let fake = try await FakeProgram(
            """
            while [ "$1" != -ss ]; do shift; done
            watch; tell $2; echo $2 >>$HERE/runs; exec sleep 1000
            """)
        // It begins ten seconds before the time.
        let calls = (0..<4).map { number in Task { await fake.frame(number + 11).error } }
        var news = fake.news.makeAsyncIterator()
        var running: Set<Int> = []
        for _ in 0..<2 { running.insert(try #require(await news.next().flatMap(Double.init).map { Int($0) - 1 })) }
        for number in Set(0..<4).subtracting(running) {
            calls[number].cancel()
            #expect(await calls[number].value == .cancelled)
        }
        // The key of a video does not wait for running programs.
        _ = await FileProvider.key(of: URL(fileURLWithPath: fake.path))
        for number in running {
            calls[number].cancel()
            #expect(await calls[number].value == .cancelled)
        }
        #expect(await news.next() == nil)
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await fake.frame(11).error
        }
        #expect(await late.value == .cancelled && running.count == 2)
        #expect(fake.lines("runs").count <= 2)
    }

    @Test(
        "a call that is cancelled in a cache ends its program; so does the end of the cache", arguments: [false, true],
        [false, true])
    func cancelledInCache(shutsDown: Bool, isRemote: Bool) async throws {
        let fake = try await FakeProgram("watch; tell started; exec sleep 1000")
        let test = TestImageCache()
        test.transport.script(url("video.mp4"), [.body(Data("video".utf8))])
        let remote = VideoFrameProvider(url("video.mp4"), at: .zero).with(\.program, fake.path)
        let task = test.cache.getImage(ImageRequest(isRemote ? remote : fake.frame()))
        var news = fake.news.makeAsyncIterator()
        #expect(await news.next() == "started")
        if shutsDown { await test.cache.shutdown() } else { task.cancel() }
        #expect(await task.error?.isCancelled == true)
        #expect(await news.next() == nil)
    }

    @Test("runs leave no open file and no process behind, however they end")
    func leaks() async throws {
        // In a process of its own: other tests open files as well.
        await #expect(processExitsWith: .success) {
            let before = Self.openFiles()
            let rounds = 15
            var ids: [String] = []
            for script in ["picture", "exit 1", "exec cat /dev/zero", "exec sleep 1000"] {
                let fake = try await FakeProgram("echo $$ >>$HERE/ids; \(script)")
                // Only the last is to be ended by its time.
                let limit = script.contains("sleep") ? Duration.milliseconds(30) : .seconds(30)
                for _ in 0..<rounds {
                    _ = await fake.frame().with(\.maximumSize, 10_000).with(\.timeLimit, limit).error
                }
                ids += fake.lines("ids")
            }
            #expect(ids.count >= 3 * rounds && !ids.contains { FileManager.default.fileExists(atPath: "/proc/\($0)") })
            let after = Self.openFiles()
            #expect(after.count < before.count + rounds)
            #expect(!after.contains { $0.contains("memfd:dipper-video") })
        }
    }

    @Test("a program runs and is waited for while three thousand files are open")
    func manyFiles() async {
        // In a process of its own, so that other tests can open files.
        await #expect(processExitsWith: .success) {
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = min(limit.rlim_max, 4_096)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let fake = try await FakeProgram("picture")
            let endless = try await FakeProgram("watch; exec sleep 1000")
            var opened = 0
            while opened < 3_000, open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 { opened += 1 }
            try #require(opened == 3_000 || limit.rlim_max < 3_100)
            #expect(try await fake.frame().image.pixels == Image.sample().pixels)
            #expect(await endless.frame().with(\.timeLimit, .seconds(10)).error == .undecodable)
            for await _ in endless.news {}
        }
    }

    private static func openFiles() -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") }
    }
}
