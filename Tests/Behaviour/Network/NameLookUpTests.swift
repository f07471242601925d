import TestSupport
import Testing

@Suite(
    "Names of hosts, with a name server of the test's own", .serialized,
    .enabled(if: Namespaces.missing == nil, Comment(rawValue: Namespaces.missing ?? "")), .timeLimit(.minutes(2)))
struct NameLookUpTests {
    private let net: Namespaces

    init() async throws { net = try await Namespaces.serving() }

    private func waitForQuestion(_ name: String, _ names: LineTool) async throws {
        while let line = await names.nextLine() { if line.hasPrefix(name + " ") { return } }
        throw Unavailable(what: "the name server ended")
    }

    @Test("a call that is cancelled while its host is looked up ends at once, and holds up no other")
    func cancelled() async throws {
        let names = try await net.nameServer(["other.test=10.70.0.1"])
        let tool = try net.dipper()
        tool.write("get http://hanging.test/x\nget http://hanging.test/y\n")
        try await waitForQuestion("hanging.test", names)
        tool.write("cancel http://hanging.test/x\n")
        let cancelled = try #require(await tool.nextLine())
        #expect(cancelled.contains("hanging.test/x") && cancelled.contains("cancelled"), "\(cancelled)")
        for host in ["10.70.0.1", "other.test"] {
            tool.write("get \(net.url(host, "/bytes/5000/a"))\n")
            let line = try #require(await tool.nextLine())
            #expect(line.contains(host) && line.contains("\"status\":200"), "\(line)")
        }
        // If it still waits after the others, they did not wait for the resolver.
        tool.write("cancel http://hanging.test/y\n")
        let last = try #require(await tool.nextLine())
        #expect(last.contains("hanging.test/y") && last.contains("cancelled"), "\(last)")
    }

    @Test(
        "a look-up that hangs ends with the time for connections, and the end of a cache does not wait for it", .inCheck
    )
    func ends() async throws {
        let names = try await net.nameServer([])
        let tool = try net.dipper()
        let probe = try net.probe()
        var start = ContinuousClock.now
        tool.write("get http://hanging.test/x\n")
        #expect(await tool.nextLine()?.contains("timed out") == true)
        // The resolver itself would wait for a minute.
        #expect(ContinuousClock.now - start < .seconds(40))
        probe.send("get http://hanging2.test/x")
        try await waitForQuestion("hanging2.test", names)
        start = .now
        probe.send("quit")
        #expect(try await probe.wait("end").error != nil)
        #expect(await probe.nextLine() == nil)
        // The time for connections would end it after 15 seconds.
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test("all addresses of a name are tried; a name that does not exist is a failure that may pass", .inCheck)
    func addresses() async throws {
        _ = try await net.nameServer(["both.test=::1,10.70.0.1"])
        let probe = try net.probe()
        #expect(try await probe.get(net.url("both.test", "/bytes/1000/a")).error == nil)
        probe.send("get http://unknown.test/")
        let failure = try await probe.wait("fail")
        #expect(failure.error == "host not found" && failure.fatal == false)
    }

    @Test("a kept connection and a known address need no look-up", .inCheck)
    func known() async throws {
        let names = try await net.nameServer(["kept.test=10.70.0.1", "closed.test=10.70.0.1", "last.test=10.70.0.1"])
        let probe = try net.probe()
        func get(_ host: String, _ path: String) async throws {
            #expect(try await probe.get(net.url(host, path)).error == nil)
        }
        for number in 0..<3 {
            try await get("kept.test", "/bytes/1000/\(number)")
            try await get("closed.test", "/bytes/1000/\(number)?close=1")
        }
        try await get("last.test", "/bytes/1000/last")
        var asked: [String] = []
        while let line = await names.nextLine() {
            if line.hasSuffix(" 1") { asked.append(line) }
            if line == "last.test 1" { break }
        }
        #expect(asked == ["kept.test 1", "closed.test 1", "last.test 1"])
    }

    @Test("a prefetch that is held back during its look-up does not begin before it may", .inCheck)
    func heldBack() async throws {
        let names = try await net.nameServer(["hanging.test=10.70.0.1"])
        let probe = try net.probe()
        let (slow, urgent) = (
            net.url("hanging.test", "/bytes/1000/slow"), net.url("10.70.0.1", "/bytes/1000/urgent?delay=2000")
        )
        probe.send("slow \(slow)")
        try await waitForQuestion("hanging.test", names)
        probe.send("get \(urgent)")
        // By the end of another call the prefetch is held back.
        #expect(try await probe.get(net.url("10.70.0.1", "/bytes/1000/other?delay=100")).error == nil)
        names.write("answer\n")
        for url in [urgent, slow] { #expect(try await probe.wait("end", url).error == nil) }
        let served = try net.served().sorted { $0.startMS < $1.startMS }
        #expect(served.last?.path == "/bytes/1000/slow" && served.count == 3)
        let end = try #require(served.first { $0.path == "/bytes/1000/urgent" }?.endMS)
        #expect(served[2].startMS >= end, "it was sent while it was held back")
    }
}
