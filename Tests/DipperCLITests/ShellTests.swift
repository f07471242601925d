import FaultServer
import Glibc
import TestSupport
import Testing

@Suite("The command line among the other tools of a shell", .timeLimit(.minutes(2)))
struct ShellTests {
    private let dipper: Dipper

    init() async throws { dipper = try await Dipper() }

    /// Runs a script whose `$DIPPER` is the tool, and whose `$1` and so on are the arguments, in the test's folder.
    private func shell(_ script: String, _ arguments: String...) async throws -> Dipper.Output {
        let all = ProcessInfo.processInfo.environment.merging(["DIPPER": Dipper.executable]) { $1 }
        return try await ChildProcess(
            "/bin/bash", ["-c", script, "bash"] + arguments, environment: all, in: dipper.path
        ).output()
    }

    private func linesOfErrors(_ output: Dipper.Output) -> [Substring] { output.errors.split(separator: "\n") }

    // MARK: Input

    @Test("lists of URLs are read from pipes, with the marks and line ends of other systems")
    func lists() async throws {
        let urls = ["/bytes/10/a", "/bytes/10/b"].map(dipper.url)
        try dipper.folder.place("\u{FEFF}\(urls[0])\r\n\r\n# none\r\n  # none\r\n \(urls[1]) \r\n", at: "list")
        for script in [
            "$DIPPER get --from <(cat list) --json", "cat list | $DIPPER get --from /dev/stdin --json",
            "$DIPPER prefetch --from - --json < <(cat list)", "$DIPPER get --slow-from <(cat list) --json",
            "sed 's/ *http/get http/' list | $DIPPER batch --json",
        ] {
            let output = try await shell("set -o pipefail; " + script + " --cache-dir c")
            #expect(output.status == 0 && output.errors.isEmpty, "\(script): \(output.errors)")
            #expect(Set(output.calls.compactMap { $0["url"]?.text }) == Set(urls), "\(script): \(output.text)")
        }
    }

    @Test("info and sheet read pictures from pipes, and read them anew each time")
    func pictures() async throws {
        for (name, color) in [("red", 0xc80000), ("blue", 0x0000c8)] {
            let bytes = try Image.filled(with: Color(hex: UInt32(color)), 10, name == "red" ? 10 : 20).png
            try dipper.folder.place(bytes, at: name)
            // A URL among the pictures gives the cache its folder.
            let url = dipper.url("/none")
            let info = try await shell("cat \(name) | $DIPPER info - $1 --json --cache-dir c", url)
            #expect(info.calls.first?["height", "bytes"] == [name == "red" ? 10 : 20, .number(bytes.count)])
            let sheet = try await shell("$DIPPER sheet <(cat \(name)) --out s.png --columns 1 --cell 40x40")
            #expect(sheet.status == 0, "\(sheet.errors)")
            #expect(try PictureFiles.decode(dipper.path + "/s.png")[28, 28] == Color(hex: UInt32(color)).premultiplied)
        }
    }

    @Test("what cannot be read is told in one line, and is a failure")
    func unreadable() async throws {
        for (arguments, error) in [
            (["get", "--from", "none"], "cannot read 'none': No such file or directory"),
            (["get", "--slow-from", "."], "cannot read '.': Is a directory"),
            (["convert", "none", "a.png"], "cannot read 'none': No such file or directory"),
            (["sheet", "--from", "none", "--out", "a.png"], "cannot read 'none': No such file or directory"),
        ] {
            let output = try await dipper.start(arguments, in: dipper.path).output()
            #expect(output.status == 1 && output.errors == "dipper: \(error)\n", "\(arguments): \(output)")
        }
        let twice = try await dipper.run("get", "--from", "-", "--slow-from", "-")
        #expect(twice.status == 64 && twice.errors.contains("standard input"))
    }

    // MARK: Output

    @Test("--out - writes the bodies to standard output, in the order of the calls, and nothing else")
    func bodies() async throws {
        let urls = ["/bytes/9000/a?delay=300", "/none", "/bytes/700/b", "/bytes/50/c"].map(dipper.url)
        let wanted = [(9_000, "a"), (700, "b"), (50, "c")].map { FaultServer.body(of: "/bytes/\($0)/\($1)", size: $0) }
        let script = "$DIPPER get \"$1\" \"$2\" \"$3\" --slow \"$4\" --out - --cache-dir c"
        for _ in 0..<2 {
            let output = try await shell(script, urls[0], urls[1], urls[2], urls[3])
            #expect(output.data == wanted.reduce(Data(), +))
            #expect(output.status == 1 && linesOfErrors(output).count == 1 && output.errors.contains("404"))
        }
        #expect(!dipper.folder.files.contains { $0.hasPrefix("-") })
        let timeline = try await shell("$DIPPER get $1 --timeline - --cache-dir c", urls[2])
        #expect(timeline.text.hasPrefix("<svg") && !dipper.folder.files.contains("-"))
        for more in ["--json --out -", "--json --timeline -", "--out - --timeline -"] {
            let output = try await shell("$DIPPER get $1 --cache-dir c \(more)", urls[2])
            #expect(output.status == 64 && output.data.isEmpty && output.errors.contains("standard output"), "\(more)")
        }
    }

    @Test("links, devices and pipes that are named are written to, not replaced; a file keeps its mode")
    func inPlace() async throws {
        let url = dipper.url("/bytes/5000/a")
        let body = FaultServer.body(of: "/bytes/5000/a", size: 5_000)
        // Links, so that the system's devices stay as they are whatever the tool does.
        let output = try await shell(
            """
            set -e; umask 022; $DIPPER prefetch $1 --cache-dir c > log
            echo old > target; ln -s target link; echo mine > .plain.part; echo old > plain; chmod 600 plain
            ln -s /dev/null null; ln -s /dev/full full; mkfifo pipe; cat pipe > piped & reader=$!
            for file in link plain new null pipe; do $DIPPER export $1 $file --cache-dir c; done
            wait $reader
            if $DIPPER export $1 full --cache-dir c; then exit 9; fi
            stat --format '%N %F %a' link plain new null full pipe
            """, url)
        let kinds = [
            "'link' -> 'target' symbolic link 777", "'plain' regular file 600", "'new' regular file 644",
            "'null' -> '/dev/null' symbolic link 777", "'full' -> '/dev/full' symbolic link 777", "'pipe' fifo 644",
        ]
        #expect(output.status == 0 && output.lines == kinds, "\(output)")
        #expect(output.errors == "dipper: cannot write 'full': No space left on device\n")
        for name in ["target", "plain", "new", "piped"] { #expect(try dipper.file(name) == body, "\(name)") }
        #expect(dipper.folder.text(".plain.part") == "mine\n")
        #expect(!dipper.folder.files.contains { $0.hasPrefix(".dipper") })
    }

    @Test("an --out that cannot be used is told in one line that names it and the reason, before anything is fetched")
    func unusableFolders() async throws {
        try dipper.folder.place("", at: "file")
        for (out, error) in [
            ("/proc/none", "No such file or directory"), ("file", "File exists"), ("file/x/y", "Not a directory"),
        ] {
            let output = try await dipper.start(["get", dipper.url("/bytes/10/a"), "--out", out], in: dipper.path)
                .output()
            #expect(output.status == 1 && output.lines.isEmpty && linesOfErrors(output).count == 1, "\(output)")
            #expect(
                output.errors.hasPrefix("dipper: cannot ") && output.errors.contains("'\(out)': \(error)"), "\(output)")
        }
        #expect(dipper.server.requests.isEmpty)
        let timeline = try await dipper.run("get", dipper.url("/bytes/10/a"), "--timeline", "/proc/none/a.svg")
        #expect(timeline.status == 1)
        #expect(timeline.errors == "dipper: cannot write '/proc/none/a.svg': No such file or directory\n")
        let deep = try await dipper.run("get", dipper.url("/bytes/10/a"), "--out", dipper.path + "/x//y/z/")
        #expect(try deep.status == 0 && dipper.file("x/y/z/a").count == 10)
    }

    @Test("files have the names of their URLs in every script; what misleads a shell or a terminal is left out")
    func names() async throws {
        let long = String(repeating: "é", count: 150)
        let urls = ["日本 é.txt", "👩‍🚀.png", "a\u{202E}b\u{1B}c\nd.txt", "..\u{301}x", "a/\u{301}b", long + ".txt"].map {
            name in
            dipper.url("/bytes/10/" + (name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""))
        }
        let output = try await dipper.run(["get"] + urls + ["--out", dipper.path + "/out"])
        #expect(output.status == 0, "\(output.errors)")
        let names = try FileManager.default.contentsOfDirectory(atPath: dipper.path + "/out")
        let rest = String(long.prefix(98)) + ".txt"
        #expect(Set(names) == ["日本_é.txt", "👩‍🚀.png", "a_b_c_d.txt", "\u{301}x", "a_\u{301}b", rest], "\(names)")
    }

    @Test("a message stays on its line, whatever the name of a file")
    func oneLine() async throws {
        let output = try await dipper.run("info", dipper.path + "/a\nb\u{1B}[31mc")
        #expect(output.status == 1 && linesOfErrors(output).count == 1 && !output.errors.contains("\u{1B}"))
    }

    @Test("standard streams that are closed, or full, or have lost their reader, are an exit status, and harm no cache")
    func lostStreams() async throws {
        let url = dipper.url("/bytes/10/a")
        let list =
            "for n in {1..9}; do $DIPPER prefetch $1?n=$n --cache-dir c; done >log; $DIPPER list --json --cache-dir c"
        let closed = try await shell(list + " >&-", url)
        #expect(closed.status == 1 && closed.errors == "dipper: standard output: Bad file descriptor\n")
        let full = try await shell("$DIPPER list --cache-dir c >/dev/full")
        #expect(full.status == 1 && full.errors == "dipper: standard output: No space left on device\n")
        // The reader has gone before the tool writes.
        let listed = "{ read <gone; $DIPPER list --json --cache-dir c; echo $? >&2; }"
        let lost = try await shell("mkfifo gone; \(listed) | { exec 0<&-; echo >gone; }")
        #expect(lost.errors == "1\n")
        let input = try await shell("$DIPPER get --from - --cache-dir c <&-")
        #expect(input.status == 1 && input.errors == "dipper: cannot read '-': Bad file descriptor\n")
        let none = try await shell("$DIPPER get $1 --refresh --cache-dir c <&- >&- 2>&-", url)
        #expect(none.status == 1)
        let verified = try await shell("$DIPPER verify --json --cache-dir c")
        #expect(verified.status == 0 && verified.calls.first?["sound", "entries"] == [true, 10], "\(verified)")
    }

    @Test("a terminal shows the bytes of a download, its total and its rate, in one line that fits")
    func progress() async throws {
        var (terminal, side) = (Int32(), Int32())
        var size = winsize(ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0)
        try #require(openpty(&terminal, &side, nil, nil, &size) == 0)
        let screen = FileHandle(fileDescriptor: terminal, closeOnDealloc: true)
        // Half of the body, and then nothing.
        let url = dipper.url("/bytes/20000000/a?stall=10000000")
        let process = try dipper.start(["get", url], errors: FileHandle(fileDescriptor: side, closeOnDealloc: true))
        let (lines, continuation) = AsyncStream.makeStream(of: String.self)
        // Reading blocks, so it needs a thread outside of Swift concurrency.
        Thread.detachNewThread {
            var rest = ""
            while let bytes = try? screen.read(upToCount: 4_096), !bytes.isEmpty {
                let parts = (rest + String(decoding: bytes, as: UTF8.self)).components(separatedBy: "\r\u{1B}[K")
                for part in parts.dropLast() { continuation.yield(part) }
                rest = parts.last ?? ""
            }
            continuation.finish()
        }
        let line = await lines.first { $0.contains("10.0 MB of 20.0 MB, ") }
        #expect(
            line?.contains("MB/s, ") == true && line?.contains(" s left, 0/1 done") == true && line?.count ?? 99 < 60,
            "\(line ?? "none")")
        process.send(SIGINT)
        #expect(await process.output().status == 130)
    }

    // MARK: Ends

    @Test("an interrupt ends a command that waits for its input, with the status of an interrupt")
    func interruptedReading() async throws {
        let fifo = dipper.path + "/fifo"
        try #require(mkfifo(fifo, 0o600) == 0)
        let process = try dipper.start(["get", "--from", fifo])
        // Opens as soon as the tool reads.
        let writer = await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: open(fifo, O_WRONLY | O_CLOEXEC)) }
        }
        defer { close(writer) }
        process.send(SIGINT)
        #expect(await process.output().status == 130)
    }

    @Test("the version is the library's, and the newest in the change log")
    func version() async throws {
        let output = try await dipper.run("--version")
        #expect(output.status == 0 && output.text == "dipper \(DataCache.libraryVersion)\n")
        let log = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../CHANGELOG.md").standardized
        let headings = try String(contentsOf: log, encoding: .utf8).split(separator: "\n").filter {
            $0.hasPrefix("## ")
        }
        #expect(headings.first { $0 != "## Unreleased" } == "## \(DataCache.libraryVersion)")
    }
}
