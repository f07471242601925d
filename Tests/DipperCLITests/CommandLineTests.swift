import FaultServer
import Foundation
import TestSupport
import Testing

@Suite("The command line against a real server", .timeLimit(.minutes(2)))
struct CommandLineTests {
    @Test("three urgent gets of one url and slow gets of it together make one request")
    func oneRequest() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let url = server.url("/bytes/3000/a?delay=50").absoluteString
        let output = try await Dipper.run(
            ["get", url, url, url, "--slow", url, "--slow", url, "--json", "--cache-dir", folder.path])
        #expect(output.status == 0)
        #expect(server.requests.count == 1)
        #expect(output.calls.count == 5)
        #expect(output.calls.map { $0["queue"] as? String } == ["fast", "fast", "fast", "slow", "slow"])
        for call in output.calls {
            #expect(Set(call.keys) == ["url", "queue", "source", "status", "bytes", "milliseconds", "attempts"])
            #expect(call["source"] as? String == "network")
            #expect(call["status"] as? Int == 200)
            #expect(call["bytes"] as? Int == 3_000)
            #expect(call["attempts"] as? Int == 1)
        }
        // The others may have joined the request a little later.
        #expect((output.calls[0]["milliseconds"] as? Int ?? 0) >= 50)
        #expect(Set(output.summary.keys) == ["requests", "networkRequests", "bytes", "failed", "milliseconds"])
        #expect(output.summary["requests"] as? Int == 5)
        #expect(output.summary["networkRequests"] as? Int == 1)
        await server.stop()
    }

    @Test("no slow request starts before the last urgent one ended, and slow ones never overlap")
    func queues() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        var arguments = ["get", "--json", "--cache-dir", folder.path, "--timeline", folder.path + "/t.svg"]
        for number in 0..<8 { arguments.append(server.url("/bytes/1000/u\(number)?delay=300").absoluteString) }
        for number in 0..<5 { arguments += ["--slow", server.url("/bytes/1000/s\(number)?delay=20").absoluteString] }
        #expect(try await Dipper.run(arguments).status == 0)
        let urgent = server.requests.filter { $0.path.contains("/u") }
        let slow = server.requests.filter { $0.path.contains("/s") }.sorted { $0.start < $1.start }
        #expect(urgent.count == 8 && slow.count == 5)
        let last = urgent.compactMap(\.end).max()!
        for request in slow { #expect(request.start >= last) }
        for (one, next) in zip(slow, slow.dropFirst()) { #expect(next.start >= one.end!) }
        #expect(folder.text("t.svg")?.contains("<svg") == true)
        await server.stop()
    }

    @Test("a second run with the same cache folder makes no request, and bodies go to files")
    func secondRun() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let urls = (0..<6).map { server.url("/bytes/\($0 * 1_500)/file.bin?n=\($0)").absoluteString }
        for run in 0..<2 {
            let out = folder.path + "/out\(run)"
            let output = try await Dipper.run(
                ["get"] + urls + ["--json", "--cache-dir", folder.path + "/cache", "--out", out])
            #expect(output.status == 0)
            #expect(output.summary["networkRequests"] as? Int == (run == 0 ? 6 : 0))
            for call in output.calls {
                let file = try #require(call["file"] as? String)
                let url = try #require(URL(string: call["url"] as? String ?? ""))
                let body = try Data(contentsOf: URL(fileURLWithPath: file))
                #expect(body == FaultServer.body(of: url.path, size: body.count))
                #expect(body.count == call["bytes"] as? Int)
            }
            #expect(Set(output.calls.compactMap { $0["file"] as? String }).count == 6)
        }
        #expect(server.requests.count == 6)
        await server.stop()
    }

    @Test("failures: a 404 once with exit status 1, a 503 twice with three attempts, a cut body whole, a timeout kept")
    func failures() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        func get(_ target: String, _ more: [String] = []) async throws -> Dipper.Output {
            try await Dipper.run(
                ["get", server.url(target).absoluteString, "--json", "--cache-dir", folder.path] + more)
        }
        let missing = try await get("/nothing")
        #expect(missing.status == 1)
        #expect(missing.calls[0]["status"] as? Int == 404)
        #expect((missing.calls[0]["error"] as? String)?.contains("404") == true)
        #expect(server.requests.count == 1)

        let busy = try await get("/bytes/10/b?status=503&times=2")
        #expect(busy.status == 0)
        #expect(busy.calls[0]["attempts"] as? Int == 3)

        let cut = try await get("/bytes/9000/c?cut=100&times=1", ["--out", folder.path])
        #expect(cut.status == 0)
        #expect(
            try Data(contentsOf: folder.url.appendingPathComponent("c"))
                == FaultServer.body(of: "/bytes/9000/c", size: 9_000))

        let start = ContinuousClock.now
        let late = try await get("/bytes/10/d?delay=90000", ["--timeout", "1"])
        #expect(late.status == 1)
        #expect((late.calls[0]["error"] as? String)?.contains("timed out") == true)
        #expect(ContinuousClock.now - start < .seconds(60))

        let impatient = try await get("/bytes/10/e?status=503", ["--retries", "0"])
        #expect(impatient.calls[0]["attempts"] as? Int == 1)
        await server.stop()
    }

    @Test("batch: queues are driven by a script, and a bad line is told")
    func batch() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        func url(_ name: String, _ delay: Int = 30) -> String {
            server.url("/bytes/100/\(name)?delay=\(delay)").absoluteString
        }
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
        let output = try await Dipper.run(["batch", "--json", "--cache-dir", folder.path], input: script)
        #expect(output.status == 2)
        #expect(output.errors.contains("line 10"))
        let byURL = Dictionary(grouping: output.calls) { $0["url"] as? String ?? "" }
        #expect(byURL[url("a")]?.count == 1)
        #expect(byURL[url("s", 2_000)]?.map { $0["queue"] as? String } == ["slow", "slow"])
        #expect(byURL[url("c", 60_000)]?.first?["error"] as? String == "cancelled")
        #expect(server.requests(to: "/bytes/100/s").count == 1)
        await server.stop()
    }

    @Test(
        "an interrupt ends the run cleanly, and a killed run leaves a cache that verify calls sound",
        arguments: [SIGINT, SIGTERM, SIGKILL])
    func interrupted(signal: Int32) async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let urls = (0..<400).map { server.url("/bytes/4000/n\($0)?delay=\($0 < 100 ? 1 : 2_000)").absoluteString }
        let cache = ["--json", "--cache-dir", folder.path + "/cache"]
        #expect(try await Dipper.run(["prefetch"] + urls.prefix(30) + cache).status == 0)
        let running = try Dipper.Running(["get"] + urls + cache + ["--out", folder.path + "/out"])
        await server.waitForEnds(60)
        kill(running.process.processIdentifier, signal)
        let output = try await running.output()
        if signal == SIGKILL {
            #expect(output.status == -SIGKILL)
        } else {
            #expect(output.status == 130)
            #expect(output.calls.count == 400, "each call ended")
            #expect(output.summary["requests"] as? Int == 400)
        }
        let verified = try await Dipper.run(["verify"] + cache)
        #expect(verified.status == 0, "\(verified)")
        #expect(verified.calls[0]["sound"] as? Bool == true)
        // A run that ends cleanly keeps what it fetched, and a killed one what earlier runs did.
        #expect((verified.calls[0]["entries"] as? Int ?? 0) >= (signal == SIGKILL ? 30 : 60))
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path + "/out") where !name.hasPrefix(".")
        {
            let body = try Data(contentsOf: folder.url.appendingPathComponent("out/" + name))
            #expect(body == FaultServer.body(of: "/bytes/4000/\(name)", size: 4_000))
        }
        await server.stop()
    }

    @Test(
        "an interrupt ends a batch that waits for its next line, or sleeps, and calls for pictures",
        arguments: [("", []), ("sleep 1000\n", ["--resize", "9x9"])])
    func interruptedBatch(script: String, options: [String]) async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let url = server.url("/bytes/10/a?noanswer=1").absoluteString
        let running = try Dipper.Running(
            ["batch", "--json", "--cache-dir", folder.path] + options, input: "get \(url)\n" + script,
            keepsInputOpen: true)
        await server.waitForRequests(1)
        kill(running.process.processIdentifier, SIGINT)
        let output = try await running.output()
        #expect(output.status == 130)
        #expect(output.calls.first?["error"] as? String == "cancelled")
        await server.stop()
    }

    @Test("the store's commands: stats, list, show, export, trim, remove, clear")
    func store() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let small = server.url("/bytes/100/small").absoluteString
        let large = server.url("/bytes/90000/large").absoluteString
        func dipper(_ arguments: String...) async throws -> Dipper.Output {
            try await Dipper.run(arguments + ["--cache-dir", folder.path + "/cache"])
        }
        _ = try await dipper("prefetch", small, large)
        #expect(try await dipper("stats", "--json").calls[0]["entries"] as? Int == 2)
        #expect(try await dipper("stats").lines[0].contains("2 entries"))
        #expect(try await dipper("list").lines.count == 2)
        #expect(Set(try await dipper("list", "--json").calls.compactMap { $0["url"] as? String }) == [small, large])
        #expect(try await dipper("show", large).lines.contains { $0.contains("90000 bytes") })
        #expect(try await dipper("export", large, folder.path + "/copy").status == 0)
        #expect(
            try Data(contentsOf: folder.url.appendingPathComponent("copy"))
                == FaultServer.body(of: "/bytes/90000/large", size: 90_000))
        #expect(try await dipper("get", small, "--cache-only").status == 0)
        #expect(try await dipper("get", small + "x", "--cache-only").status == 1)
        #expect(try await dipper("trim", "--size", "10kB").status == 0)
        #expect(try await dipper("stats", "--json").calls[0]["entries"] as? Int == 1)
        _ = try await dipper("prefetch", small, large)
        #expect(try await dipper("trim", "--older-than", "1h", "--json").calls[0]["removed"] as? Int == 0)
        #expect(try await dipper("remove", large).status == 0)
        let again = try await dipper("remove", large)
        #expect(again.status == 1)
        #expect(again.errors.contains("not in the cache"))
        #expect(try await dipper("clear").status == 0)
        #expect(try await dipper("list").lines.isEmpty)
        await server.stop()
    }

    @Test("bad usage is told with a status of its own, and help is there for every command")
    func usage() async throws {
        for arguments in [
            ["get"], ["get", "x", "--retries", "-1"], ["get", "x", "--timeout", "0"], ["fetch"], ["trim"],
            ["get", "x", "--refresh", "--cache-only"], ["trim", "--size", "many"], ["get", "x", "--header", "none"],
            ["get", "--from", "/nowhere/at/all"], ["get", "http://h/x", "--resize", "0x10"],
            ["get", "http://h/x", "--resize", "10x!"], ["get", "http://h/x", "--format", "bmp"],
            ["batch", "--format", "pdf"], ["info"], ["convert", "a.png"], ["convert", "a.png", "b"],
            ["convert", "a.png", "-"], ["convert", "a.png", "b.jpg", "--quality", "101"], ["sheet", "a.png"],
            ["sheet", "a.png", "--out", "s.png", "--columns", "0"],
            ["sheet", "a.png", "--out", "s.png", "--cell", "9x9!"],
        ] {
            let output = try await Dipper.run(arguments)
            #expect(output.status == 64, "\(arguments)")
            #expect(!output.errors.isEmpty)
        }
        for command in [
            "get", "batch", "prefetch", "stats", "list", "show", "export", "remove", "trim", "clear", "verify", "info",
            "convert", "sheet",
        ] {
            let output = try await Dipper.run([command, "--help"])
            #expect(output.status == 0)
            #expect(output.lines.contains { $0.hasPrefix("OVERVIEW:") })
        }
    }

    @Test("the default folder follows XDG_CACHE_HOME")
    func defaultFolder() async throws {
        let folder = TemporaryFolder()
        let output = try await Dipper.run(["stats", "--json"], environment: ["XDG_CACHE_HOME": folder.path])
        #expect(output.calls[0]["folder"] as? String == folder.path + "/dipper")
    }

    @Test("each line of each command's --json is an object")
    func json() async throws {
        let server = try await PictureFiles.serve(["/a.jpg": Data(contentsOf: PictureFiles.photo)])
        let folder = TemporaryFolder()
        let url = server.address("/a.jpg")
        for command in [
            ["prefetch", url], ["get", url], ["batch"], ["info", url], ["sheet", url, "--out", folder.path + "/s.png"],
            ["stats"], ["list"], ["show", url], ["export", url, folder.path + "/copy"], ["verify"],
            ["trim", "--size", "1GB"], ["remove", url], ["clear"],
        ] {
            let output = try await Dipper.run(
                command + ["--json", "--cache-dir", folder.path + "/cache"], input: "get \(url)\n")
            #expect(output.status == 0, "\(command): \(output.errors)")
            // The last line has an end, too.
            #expect(output.text.isEmpty || output.text.hasSuffix("\n"), "\(command)")
            for line in output.text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
                let value = try? JSONSerialization.jsonObject(with: Data(line.utf8))
                #expect(value is [String: Any], "\(command): '\(line)'")
            }
        }
        await server.stop()
    }

    @Test("a download that was cut goes on with a range in the next run, and what has become old is revalidated")
    func again() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        func get(_ target: String) async throws -> [String: Any] {
            let url = server.url(target).absoluteString
            return try await Dipper.run(["get", url, "--json", "--retries", "0", "--cache-dir", folder.path]).calls[0]
        }
        let cut = "/bytes/300000/a?etag=v&cut=100000&times=1"
        let broken = try await get(cut)["error"] as? String
        #expect(broken?.hasPrefix("truncated body") == true)
        let whole = try await get(cut)
        #expect(whole["source"] as? String == "network" && whole["bytes"] as? Int == 300_000)
        #expect(server.requests.map { $0.header("Range") } == [nil, "bytes=100000-"])
        var sources: [String?] = []
        for _ in 0..<2 {
            sources.append(try await get("/bytes/5000/b?etag=v&cacheControl=max-age=0")["source"] as? String)
        }
        #expect(sources == ["network", "revalidated"])
        await server.stop()
    }
}
