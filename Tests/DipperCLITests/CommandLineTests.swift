import FaultServer
import TestSupport
import Testing

@Suite("The command line against a real server", .timeLimit(.minutes(2)))
struct CommandLineTests {
    private let dipper: Dipper

    init() async throws { dipper = try await Dipper() }

    @Test("three urgent gets of one url and slow gets of it together make one request")
    func oneRequest() async throws {
        let url = dipper.url("/bytes/3000/a?delay=2000")
        let output = try await dipper.run("get", url, url, url, "--slow", url, "--slow", url, "--json")
        #expect(output.status == 0 && dipper.server.requests.count == 1)
        #expect(output.calls.map { $0["queue"] } == ["fast", "fast", "fast", "slow", "slow"])
        for call in output.calls {
            #expect(Set(call.keys) == ["url", "queue", "source", "status", "bytes", "milliseconds", "attempts"])
            #expect(call["source", "status", "bytes", "attempts"] == ["network", 200, 3_000, 1])
        }
        // The others may have joined the request a little later.
        #expect((output.calls[0]["milliseconds"]?.number ?? 0) >= 2_000)
        #expect(Set(output.summary.keys) == ["requests", "networkRequests", "bytes", "failed", "milliseconds"])
        #expect(output.summary["requests", "networkRequests"] == [5, 1])
    }

    @Test("a list of URLs is read as text of URLs, also if it is not UTF-8")
    func list() async throws {
        let start = dipper.url("/bytes/30/")
        let lines = Data(" \(start)a b%20c \t\r\n# none\n\(start)caf".utf8) + [0xE9, 0x0A]
        let list = try dipper.folder.place(lines, at: "list").path
        let output = try await dipper.run("get", "--from", list, "--max-fast", "1", "--json")
        #expect(output.status == 0, "\(output.errors)")
        #expect(dipper.server.requests.map(\.path) == ["/bytes/30/a%20b%20c", "/bytes/30/caf%E9"])
    }

    @Test("a second run with the same cache folder makes no request, and bodies go to files")
    func secondRun() async throws {
        let urls = (0..<6).map { dipper.url("/bytes/\($0 * 1_500)/file.bin?n=\($0)") }
        for run in 0..<2 {
            let output = try await dipper.run(["get"] + urls + ["--json", "--out", dipper.path + "/out\(run)"])
            #expect(output.status == 0)
            #expect(output.summary["networkRequests"] == (run == 0 ? 6 : 0))
            for call in output.calls {
                let file = try #require(call["file"]?.text)
                let url = try #require(URL(string: call["url"]?.text ?? ""))
                let body = try Data(contentsOf: URL(fileURLWithPath: file))
                #expect(body == FaultServer.body(of: url.path, size: body.count) && body.count == call["bytes"]?.number)
            }
            #expect(Set(output.calls.compactMap { $0["file"] }).count == 6)
        }
        #expect(dipper.server.requests.count == 6)
    }

    @Test("failures: a 404 once with exit status 1, a 503 twice with three attempts, a cut body whole, a timeout kept")
    func failures() async throws {
        func get(_ target: String, _ more: String...) async throws -> (status: Int32, call: [String: JSON]) {
            let output = try await dipper.run(["get", dipper.url(target), "--json"] + more)
            return (output.status, output.calls[0])
        }
        let missing = try await get("/nothing")
        #expect(missing.status == 1 && missing.call["status"] == 404)
        #expect(missing.call["error"]?.text?.contains("404") == true && dipper.server.requests.count == 1)
        let busy = try await get("/bytes/10/b?status=503&times=2")
        #expect(busy.status == 0 && busy.call["attempts"] == 3)
        #expect(try await get("/bytes/9000/c?cut=100&times=1", "--out", dipper.path).status == 0)
        #expect(try dipper.file("c") == FaultServer.body(of: "/bytes/9000/c", size: 9_000))
        let start = ContinuousClock.now
        let late = try await get("/bytes/10/d?delay=90000", "--timeout", "1")
        #expect(late.status == 1 && late.call["error"]?.text?.contains("timed out") == true)
        #expect(ContinuousClock.now - start < .seconds(60))
        #expect(try await get("/bytes/10/e?status=503", "--retries", "0").call["attempts"] == 1)
    }

    @Test("--inspect prints the page's address on standard error, and the command still ends by itself")
    func inspect() async throws {
        let url = dipper.url("/bytes/100/a")
        for arguments in [["--inspect", "0"], ["--inspect"]] {
            let output = try await dipper.run(["get", url] + arguments + ["--json"])
            #expect(output.status == 0 && output.calls.count == 1)
            let page = output.errors.split(separator: " ").last.flatMap {
                URL(string: $0.trimmingCharacters(in: .newlines))
            }
            #expect(output.errors.hasPrefix("dipper: inspector: http://127.0.0.1:") && page?.path.count == 33)
        }
        #expect(try await dipper.run("get", url, "--inspect", "70000").status == 64)
        #expect(try await dipper.run("get", url, "--inspect-wait").status == 64)
        let taken = try await dipper.run("get", url, "--inspect", "\(dipper.server.url("/").port ?? 0)")
        #expect(taken.status == 1 && taken.errors.contains("Address already in use"))
    }

    @Test("batch: queues are driven by a script, and a bad line is told")
    func batch() async throws {
        func url(_ name: String, _ delay: Int = 30) -> String { dipper.url("/bytes/100/\(name)?delay=\(delay)") }
        let script = """
            # a script
            get \(url("a"))
            wait
            slow \(url("s", 2_000))
            get \(url("s", 2_000))
            demote \(url("s", 2_000))
            get \(url("c", 60_000))
            sleep 0.05
            cancel \(url("c", 60_000))
            nonsense
            wait
            """
        let output = try await dipper.run("batch", "--json", input: script)
        #expect(output.status == 2 && output.errors.contains("line 10"))
        let byURL = Dictionary(grouping: output.calls) { $0["url"]?.text ?? "" }
        #expect(byURL[url("a")]?.count == 1)
        #expect(byURL[url("s", 2_000)]?.map { $0["queue"] } == ["slow", "slow"])
        #expect(byURL[url("c", 60_000)]?.first?["error"] == "cancelled")
        #expect(dipper.server.requests(to: "/bytes/100/s").count == 1)
    }

    @Test(
        "an interrupt ends the run cleanly, and a killed run leaves a cache that verify calls sound",
        arguments: [SIGINT, SIGTERM, SIGKILL])
    func interrupted(signal: Int32) async throws {
        let urls = (0..<400).map { dipper.url("/bytes/4000/n\($0)?delay=\($0 < 100 ? 1 : 2_000)") }
        #expect(try await dipper.run(["prefetch"] + urls.prefix(30)).status == 0)
        let running = try dipper.start(["get"] + urls + ["--json", "--out", dipper.path + "/out"])
        await dipper.server.waitForEnds(60)
        running.send(signal)
        let output = await running.output()
        if signal == SIGKILL {
            #expect(output.status == -SIGKILL)
        } else {
            #expect(output.status == 130)
            #expect(output.calls.count == 400, "each call ended")
            #expect(output.summary["requests"] == 400)
        }
        let verified = try await dipper.run("verify", "--json")
        #expect(verified.status == 0 && verified.calls[0]["sound"] == true, "\(verified)")
        // A run that ends cleanly keeps what it fetched, but for the few answers that were on their way, and a killed one
        // what earlier runs did.
        #expect((verified.calls[0]["entries"]?.number ?? 0) >= (signal == SIGKILL ? 30 : 50))
        let names = try FileManager.default.contentsOfDirectory(atPath: dipper.path + "/out")
        for name in names where !name.hasPrefix(".") {
            #expect(try dipper.file("out/" + name) == FaultServer.body(of: "/bytes/4000/\(name)", size: 4_000))
        }
    }

    @Test(
        "an interrupt ends a batch that waits for its next line, or sleeps, and calls for pictures",
        arguments: [("", []), ("sleep 1000\n", ["--resize", "9x9"])])
    func interruptedBatch(script: String, options: [String]) async throws {
        let script = "get \(dipper.url("/bytes/10/a?noanswer=1"))\n" + script
        let input = Pipe()
        try input.fileHandleForWriting.write(contentsOf: Data(script.utf8))
        let running = try dipper.start(["batch", "--json"] + options, input: input.fileHandleForReading)
        await dipper.server.waitForRequests(1)
        running.send(SIGINT)
        let output = await running.output()
        // The input does not end before the run.
        try input.fileHandleForWriting.close()
        #expect(output.status == 130 && output.calls.first?["error"] == "cancelled")
    }

    @Test("the store's commands: stats, list, show, export, trim, remove, clear")
    func store() async throws {
        let (small, large) = (dipper.url("/bytes/100/small"), dipper.url("/bytes/90000/large"))
        _ = try await dipper.run("prefetch", small, large)
        #expect(try await dipper.run("stats", "--json").calls[0]["entries"] == 2)
        #expect(try await dipper.run("stats").lines[0].contains("2 entries"))
        #expect(try await dipper.run("list").lines.count == 2)
        #expect(Set(try await dipper.run("list", "--json").calls.compactMap { $0["url"]?.text }) == [small, large])
        #expect(try await dipper.run("show", large).lines.contains { $0.contains("90000 bytes") })
        #expect(try await dipper.run("export", large, dipper.path + "/copy").status == 0)
        #expect(try dipper.file("copy") == FaultServer.body(of: "/bytes/90000/large", size: 90_000))
        #expect(try await dipper.run("get", small, "--cache-only").status == 0)
        #expect(try await dipper.run("get", small + "x", "--cache-only").status == 1)
        #expect(try await dipper.run("trim", "--size", "10kB").status == 0)
        #expect(try await dipper.run("stats", "--json").calls[0]["entries"] == 1)
        _ = try await dipper.run("prefetch", small, large)
        #expect(try await dipper.run("trim", "--older-than", "1h", "--json").calls[0]["removed"] == 0)
        #expect(try await dipper.run("remove", large).status == 0)
        let again = try await dipper.run("remove", large)
        #expect(again.status == 1 && again.errors.contains("not in the cache"))
        #expect(try await dipper.run("clear").status == 0)
        #expect(try await dipper.run("list").lines.isEmpty)
    }

    @Test(
        "bad usage is told with a status of its own",
        arguments: [
            "get", "get x --retries -1", "get x --timeout 0", "fetch", "trim", "get x --refresh --cache-only",
            "trim --size many", "get x --header none", "get http://h/x --resize 0x10",
            "get http://h/x --max-slow 0", "get http://h/x --resize 10x!", "get http://h/x --format bmp",
            "batch --format pdf", "info",
            "convert a.png", "convert a.png b", "convert a.png -", "convert a.png b.jpg --quality 101", "sheet a.png",
            "sheet a.png --out s.png --columns 0", "sheet a.png --out s.png --cell 9x9!",
        ])
    func badUsage(line: String) async throws {
        let output = try await Dipper.run(line.split(separator: " ").map(String.init))
        #expect(output.status == 64 && !output.errors.isEmpty)
    }

    @Test(
        "help is there for every command",
        arguments: [
            "get", "batch", "prefetch", "stats", "list", "show", "export", "remove", "trim", "clear", "verify", "info",
            "convert", "sheet",
        ])
    func help(command: String) async throws {
        let output = try await Dipper.run([command, "--help"])
        #expect(output.status == 0 && output.lines.contains { $0.hasPrefix("OVERVIEW:") })
    }

    @Test("the default folder follows XDG_CACHE_HOME")
    func defaultFolder() async throws {
        let folder = TemporaryFolder()
        let output = try await Dipper.run(["stats", "--json"], environment: ["XDG_CACHE_HOME": folder.path])
        #expect(output.calls[0]["folder"]?.text == folder.path + "/dipper")
    }

    @Test("each line of each command's --json is an object")
    func json() async throws {
        let dipper = try await Dipper(["/a.jpg": PictureFiles.photoBytes])
        let url = dipper.url("/a.jpg")
        for command in [
            ["prefetch", url], ["get", url], ["batch"], ["info", url], ["sheet", url, "--out", dipper.path + "/s.png"],
            ["stats"], ["list"], ["show", url], ["export", url, dipper.path + "/copy"], ["verify"],
            ["trim", "--size", "1GB"], ["remove", url], ["clear"],
        ] {
            let output = try await dipper.run(command + ["--json"], input: "get \(url)\n")
            #expect(output.status == 0, "\(command): \(output.errors)")
            // The last line has an end, too.
            #expect(output.text.isEmpty || output.text.hasSuffix("\n"), "\(command)")
            for line in output.text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
                let value = try? JSONSerialization.jsonObject(with: Data(line.utf8))
                #expect(value is [String: Any], "\(command): '\(line)'")
            }
        }
    }

    @Test("a download that was cut goes on with a range in the next run, and what has become old is revalidated")
    func again() async throws {
        func get(_ target: String) async throws -> [String: JSON] {
            try await dipper.run("get", dipper.url(target), "--json", "--retries", "0").calls[0]
        }
        let cut = "/bytes/300000/a?etag=v&cut=100000&times=1"
        #expect(try await get(cut)["error"]?.text?.hasPrefix("truncated body") == true)
        #expect(try await get(cut)["source", "bytes"] == ["network", 300_000])
        #expect(dipper.server.requests.map { $0.header("Range") } == [nil, "bytes=100000-"])
        for source in ["network", "revalidated"] as [JSON] {
            #expect(try await get("/bytes/5000/b?etag=v&cacheControl=max-age=0")["source"] == source)
        }
    }
}
