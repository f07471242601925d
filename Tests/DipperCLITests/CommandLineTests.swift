import FaultServer
import Foundation
import TestSupport
import Testing

@Suite("The command line against a real server", .timeLimit(.minutes(5)))
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

    @Test("thousands of urls in one call")
    func many() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let list = folder.path + "/urls"
        let count = workload(5_000)
        let urls = (0..<count).map { server.url("/bytes/200/n\($0)").absoluteString }
        try (["# a comment", ""] + urls).joined(separator: "\n").write(toFile: list, atomically: true, encoding: .utf8)
        let output = try await Dipper.run(["get", "--from", list, "--json", "--cache-dir", folder.path + "/cache"])
        #expect(output.status == 0)
        #expect(output.summary["requests"] as? Int == count)
        #expect(output.summary["bytes"] as? Int == count * 200)
        #expect(server.requests.count == count)
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
        let running = try Dipper.Running(
            ["get"] + urls + ["--json", "--cache-dir", folder.path + "/cache", "--out", folder.path + "/out"])
        await server.waitForEnds(60)
        // The disk may be behind the network.
        #expect(await settle { folder.files.count { $0.hasPrefix("cache/blobs/") } > 40 })
        kill(running.process.processIdentifier, signal)
        let output = try await running.output()
        if signal == SIGKILL {
            #expect(output.status == -SIGKILL)
        } else {
            #expect(output.status == 130)
            #expect(output.calls.count == 400, "each call ended")
            #expect(output.summary["requests"] as? Int == 400)
        }
        let verified = try await Dipper.run(["verify", "--json", "--cache-dir", folder.path + "/cache"])
        #expect(verified.status == 0, "\(verified)")
        #expect(verified.calls[0]["sound"] as? Bool == true)
        #expect((verified.calls[0]["entries"] as? Int ?? 0) > 20)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path + "/out") where !name.hasPrefix(".")
        {
            let body = try Data(contentsOf: folder.url.appendingPathComponent("out/" + name))
            #expect(body == FaultServer.body(of: "/bytes/4000/\(name)", size: 4_000))
        }
        await server.stop()
    }

    @Test("an interrupt ends a batch that waits for its next line, or sleeps", arguments: ["", "sleep 1000\n"])
    func interruptedBatch(script: String) async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let url = server.url("/bytes/10/a?noanswer=1").absoluteString
        let running = try Dipper.Running(
            ["batch", "--json", "--cache-dir", folder.path], input: "get \(url)\n" + script, keepsInputOpen: true)
        await server.waitForRequests(1)
        kill(running.process.processIdentifier, SIGINT)
        let output = try await running.output()
        #expect(output.status == 130)
        #expect(output.calls.first?["error"] as? String == "cancelled")
        await server.stop()
    }

    @Test("an export that cannot be written is told, not a crash")
    func fullOutput() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let url = server.url("/bytes/9000/a").absoluteString
        _ = try await Dipper.run(["prefetch", url, "--cache-dir", folder.path + "/cache"])
        let process = Process()
        process.executableURL = Dipper.executable
        process.arguments = ["export", url, "-", "--cache-dir", folder.path + "/cache"]
        process.standardOutput = FileHandle(forWritingAtPath: "/dev/full")
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == 1)
        await server.stop()
    }

    @Test("two runs share a folder at the same time")
    func shared() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let urls = (0..<300).map { server.url("/bytes/3000/n\($0)").absoluteString }
        async let one = Dipper.run(["get"] + urls + ["--json", "--cache-dir", folder.path])
        async let two = Dipper.run(["prefetch"] + urls.reversed() + ["--json", "--cache-dir", folder.path])
        let outputs = try await [one, two]
        for output in outputs { #expect(output.status == 0, "\(output.errors)") }
        let verified = try await Dipper.run(["verify", "--json", "--cache-dir", folder.path])
        #expect(verified.calls[0]["entries"] as? Int == 300)
        #expect(verified.calls[0]["sound"] as? Bool == true)
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
            ["get", "--from", "/nowhere/at/all"],
        ] {
            let output = try await Dipper.run(arguments)
            #expect(output.status == 64, "\(arguments)")
            #expect(!output.errors.isEmpty)
        }
        for command in [
            "get", "batch", "prefetch", "stats", "list", "show", "export", "remove", "trim", "clear", "verify",
        ] {
            let output = try await Dipper.run([command, "--help"])
            #expect(output.status == 0)
            #expect(output.lines.contains { $0.hasPrefix("OVERVIEW:") })
        }
    }

    @Test("what cannot be fetched is told for each url, and the others go on")
    func badURLs() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let good = server.url("/bytes/10/a").absoluteString
        let output = try await Dipper.run(
            ["get", "nonsense", "ftp://host/x", good, "http://", "--json", "--cache-dir", folder.path])
        #expect(output.status == 1)
        #expect(output.calls.count == 4)
        #expect(output.calls.filter { $0["error"] == nil }.compactMap { $0["url"] as? String } == [good])
        #expect(output.summary["failed"] as? Int == 3)
        await server.stop()
    }

    @Test("the default folder follows XDG_CACHE_HOME")
    func defaultFolder() async throws {
        let folder = TemporaryFolder()
        let output = try await Dipper.run(["stats", "--json"], environment: ["XDG_CACHE_HOME": folder.path])
        #expect(output.calls[0]["folder"] as? String == folder.path + "/dipper")
    }

    @Test("a download that was cut goes on with a range, in the same run and in the next")
    func resume() async throws {
        let server = try await FaultServer.start()
        for retries in [3, 0] {
            let folder = TemporaryFolder()
            let path = "/bytes/300000/a\(retries)"
            let url = server.url("\(path)?etag=v&cut=100000&times=1").absoluteString
            let arguments = ["get", url, "--json", "--retries", "\(retries)", "--cache-dir", folder.path]
            var output = try await Dipper.run(arguments)
            if retries == 0 {
                #expect(output.status == 1)
                #expect((output.calls.first?["error"] as? String)?.hasPrefix("truncated body") == true)
                output = try await Dipper.run(arguments)
            }
            #expect(output.calls.first?["source"] as? String == "network")
            #expect(output.calls.first?["bytes"] as? Int == 300_000)
            #expect(output.calls.first?["attempts"] as? Int == (retries == 0 ? 1 : 2))
            let requests = server.requests(to: path)
            #expect(requests.map { $0.header("Range") } == [nil, "bytes=100000-"])
        }
        await server.stop()
    }

    @Test("what has become old is revalidated, and the answer says so")
    func revalidated() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let url = server.url("/bytes/5000/a?etag=v&cacheControl=max-age=0").absoluteString
        let sources = try await [
            Dipper.run(["get", url, "--json", "--cache-dir", folder.path]),
            Dipper.run(["get", url, "--json", "--cache-dir", folder.path]),
        ].map { $0.calls.first?["source"] as? String }
        #expect(sources == ["network", "revalidated"])
        #expect(server.requests.map(\.status) == [200, 304])
        await server.stop()
    }
}
