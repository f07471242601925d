import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Programs that decode videos, and those that do not", .serialized, .timeLimit(.minutes(5)))
struct VideoProgramTests {
    /// Returns the result of a call whose program is a script.
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
        for name in [
            "dipper-no-such-program", "", "./ffmpeg", "../ffmpeg", "/nowhere/ffmpeg", folder.url.path, file.path,
        ] {
            let error = await VideoFrameProvider(Data(), key: "a", at: .zero).with(\.program, name).error
            #expect(error == .unsupportedFormat && error?.detail?.contains("install ffmpeg") == true, "\(name)")
        }
        chmod(file.path, 0o700)
        let broken = await VideoFrameProvider(Data(), key: "a", at: .zero).with(\.program, file.path).error
        #expect(broken == .unsupportedFormat)
    }

    @Test("a program that never ends is ended, with its children, after the time limit")
    func endless() async throws {
        let fake = try await FakeProgram("echo $$ >>$HERE/ids; sleep 1000 & echo $! >>$HERE/ids; wait")
        // On a busy machine it may not have come so far at first.
        var limit = Duration.milliseconds(200)
        while fake.lines("ids").count < 2, limit < .seconds(30) {
            #expect(await fake.frame().with(\.timeLimit, limit).error == .undecodable)
            limit *= 2
        }
        let ids = fake.lines("ids")
        #expect(ids.count >= 2 && !FileManager.default.fileExists(atPath: "/proc/\(ids.first ?? "self")"))
        #expect(await settle { !ids.contains(where: FakeProgram.isRunning) })
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
        let fake = try await FakeProgram("sleep 1000 >/dev/null 2>&1 & echo $! >$HERE/ids; picture")
        #expect(try await fake.frame().image.pixels == Image.sample().pixels)
        #expect(await settle { !fake.lines("ids").contains(where: FakeProgram.isRunning) })
        #expect(fake.lines("ids").count == 1)
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

    @Test("equal calls are one run, in whichever queue")
    func shared() async throws {
        let fake = try await FakeProgram("echo run >>$HERE/runs; while [ ! -e $HERE/go ]; do sleep 0.01; done; picture")
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(fake.frame())
        let tasks = [
            test.cache.slowGetImage(request), test.cache.getImage(request),
            test.cache.getImage(ImageRequest(fake.frame())),
            test.cache.getImage(request.processed(by: Inverting())),
        ]
        #expect(await settle { !fake.lines("runs").isEmpty })
        try Data().write(to: fake.folder.url.appendingPathComponent("go"))
        for task in tasks.prefix(3) { #expect(try await task.value.pixels == Image.sample().pixels) }
        _ = try await tasks[3].value
        #expect(fake.lines("runs") == ["run"])
        await test.cache.shutdown()
    }

    @Test("at most two run at once; who is cancelled in the queue ends at once, and who runs is killed")
    func cancelled() async throws {
        let fake = try await FakeProgram(
            """
            while [ "$1" != -ss ]; do shift; done
            echo $2 >>$HERE/times; echo $$ >>$HERE/ids; exec sleep 1000
            """)
        // It begins ten seconds before the time.
        let calls = (0..<4).map { number in Task { await fake.frame(number + 11).error } }
        #expect(await settle { fake.lines("ids").count == 2 })
        let running = Set(fake.lines("times").compactMap { Double($0) }.map { Int($0) - 1 })
        for number in Set(0..<4).subtracting(running) {
            calls[number].cancel()
            #expect(await calls[number].value == .cancelled)
        }
        #expect(running.count == 2 && fake.lines("ids").allSatisfy(FakeProgram.isRunning))
        for number in running {
            calls[number].cancel()
            #expect(await calls[number].value == .cancelled)
        }
        let ids = fake.lines("ids")
        #expect(ids.count == 2 && !ids.contains { FileManager.default.fileExists(atPath: "/proc/\($0)") })
        let late = Task {
            while !Task.isCancelled { await Task.yield() }
            return await fake.frame().error
        }
        late.cancel()
        #expect(await late.value == .cancelled && fake.lines("ids").count == 2)
    }

    @Test("the key of a video does not wait for running programs")
    func keyMeanwhile() async throws {
        let fake = try await FakeProgram("echo $$ >>$HERE/ids; exec sleep 1000")
        let calls = (0..<2).map { number in
            Task { await fake.frame(number).with(\.timeLimit, .seconds(200)).error }
        }
        try #require(await settle { fake.lines("ids").count == 2 })
        _ = await VideoFrameProvider.key(of: URL(fileURLWithPath: fake.path))
        #expect(fake.lines("ids").allSatisfy(FakeProgram.isRunning))
        for call in calls { call.cancel() }
        for call in calls { #expect(await call.value == .cancelled) }
    }

    @Test("a call that is cancelled in a cache ends its program; so does the end of the cache")
    func cancelledInCache() async throws {
        for shutsDown in [false, true] {
            let fake = try await FakeProgram("echo $$ >>$HERE/ids; exec sleep 1000")
            let test = TestImageCache()
            let task = test.cache.getImage(ImageRequest(fake.frame()))
            #expect(await settle { fake.lines("ids").count == 1 })
            if shutsDown { await test.cache.shutdown() } else { task.cancel() }
            #expect(await task.error?.isCancelled == true)
            #expect(await settle { !fake.lines("ids").contains(where: FakeProgram.isRunning) })
            await test.cache.shutdown()
        }
    }

    @Test("runs leave no open file and no process behind, however they end")
    func leaks() async throws {
        // In a process of its own: other tests open files as well.
        await #expect(processExitsWith: .success) {
            let before = Self.openFiles()
            let rounds = 40
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

    private static func openFiles() -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") }
    }
}
