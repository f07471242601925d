import FaultServer
import TestSupport
import Testing

@Suite("Processes that share a folder fetch each URL once", .timeLimit(.minutes(3)))
struct SharedFetchTests {
    private let dipper: Dipper

    init() async throws { dipper = try await Dipper() }

    @Test("eight processes that get the same two hundred URLs make two hundred requests")
    func stampede() async throws {
        let urls = (0..<200).map { dipper.url("/bytes/20000/n\($0)?delay=5") }
        let running = try (0..<8).map { _ in try dipper.start(["get"] + urls + ["--json"]) }
        for process in running {
            let output = await process.output()
            #expect(output.status == 0 && output.calls.count == 200)
        }
        #expect((200...205).contains(dipper.server.requests.count), "\(dipper.server.requests.count)")
    }

    @Test("after the holder is killed another process fetches at once")
    func killed() async throws {
        let url = dipper.url("/bytes/100000/a?stall=50000&times=1")
        let holder = try dipper.start(["get", url])
        await dipper.server.waitForStalls(1)
        let target = try #require(URL(string: url))
        // Longer than the test may take: nobody fetches because the holder is slow.
        var configuration = DataCache.Configuration(directory: dipper.folder.url.appendingPathComponent("cache"))
        (configuration.leases.patience, configuration.leases.longestWait) = (.seconds(3_600), .seconds(3_600))
        let others = (0..<3).map { [configuration] _ in DataCache(configuration) }
        let waiting = others.map { $0.getData(target) }
        for cache in others { try await cache.waitForParked() }
        holder.send(SIGKILL)
        for task in waiting { #expect(try await task.value.count == 100_000) }
        #expect(dipper.server.requests.count == 2)
        for cache in others { await cache.shutdown() }
    }

    @Test("a stopped holder is waited for, then one more process fetches, and one only")
    func stopped() async throws {
        let url = dipper.url("/bytes/100000/a?stall=50000&times=1")
        let holder = try dipper.start(["get", url])
        await dipper.server.waitForStalls(1)
        holder.send(SIGSTOP)
        let others = try (0..<4).map { _ in try dipper.start(["get", url, "--json"]) }
        for process in others { #expect(await process.output().status == 0) }
        #expect(dipper.server.requests.count == 2)
        holder.end()
        let verified = try await dipper.run("verify", "--json")
        #expect(verified.status == 0 && verified.calls[0]["sound"] == true)
    }

    @Test("a URL that is not there is asked for once, and a server in distress once for each back-off")
    func failures() async throws {
        let (missing, busy) = (
            dipper.url("/nothing?delay=300"), dipper.url("/bytes/100/b?delay=100&status=503&times=2")
        )
        let running = try (0..<6).map { _ in try dipper.start(["get", missing, busy, "--json"]) }
        for process in running {
            let output = await process.output()
            #expect(output.status == 1 && output.summary["failed"] == 1)
        }
        #expect(dipper.server.requests(to: "/nothing").count == 1)
        #expect(dipper.server.requests(to: "/bytes/100/b").count == 3)
    }
}
