import TestSupport
import Testing

@Suite("What grows with the calls, the origins and the changes of the network", .timeLimit(.minutes(2)))
struct SharedResourceTests {
    private struct CountingNetwork: NetworkMonitor {
        let base: ManualNetwork
        let questions = Box(0)

        func canReach(_ host: String) -> Bool {
            questions.increment()
            return base.canReach(host)
        }

        func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation { base.observe(onChange) }
    }

    @Test("A change of the network asks once about a host, however many calls wait for it, and wakes them in order")
    func parkedCalls() async throws {
        let network = CountingNetwork(base: ManualNetwork(isUp: false))
        let test = TestCache {
            $0.networkMonitor = network
            $0.fastQueue = QueueConfiguration(maxConcurrent: 1)
        }
        let tasks = (0..<200).map { test.cache.getData(url("\($0)")) }
        for task in tasks { try await task.waitForFailures() }
        let before = network.questions.value
        network.base.setReachable(false, host: "elsewhere.test")
        #expect(test.cache.queueCounts.parked == 200)
        #expect(network.questions.value - before < 5)
        for number in 0..<200 { test.transport.script(url("\(number)"), [.text("here")]) }
        network.base.isUp = true
        await test.whileClockRuns { await test.cache.idle() }
        #expect(test.transport.transfers.map(\.request.url) == (0..<200).map { url("\($0)") })
    }

    @Test("A transfer whose host is out of reach is looked at once, however often the network changes")
    func watchedTransfer() async throws {
        let network = CountingNetwork(base: ManualNetwork())
        let test = TestCache { $0.networkMonitor = network }
        let (task, transfer) = try await test.begin(url("a"))
        network.base.isUp = false
        for number in 0..<20 { network.base.setReachable(false, host: "\(number).test") }
        #expect(test.cache.queueCounts.fastRunning == 1)
        transfer.send(progress: 1, of: 4)
        let before = network.questions.value
        try await test.clock.wake(after: .seconds(2))
        try await test.clock.waitForSleepers(1)
        #expect(test.cache.queueCounts.fastRunning == 1)
        #expect(network.questions.value - before < 5)
        transfer.finish(with: Data("here".utf8))
        #expect(await task.error == nil)
    }

    @Test("The answer about the TLS of an origin holds for an hour, for the thousand origins used last")
    func origins() async throws {
        let asked = Box<[String]>([])
        let test = TestCache {
            $0.answerTLSChallenge = { origin in
                asked.update { $0.append(origin.host() ?? "") }
                return nil
            }
        }
        func begin(_ host: String) throws -> DataTask {
            let url = try #require(URL(string: "https://\(host).test/"))
            test.transport.script(url, [.text("here")])
            return test.cache.getRemoteData(url)
        }
        func fetch(_ host: String) async throws { #expect(try await begin(host).value == Data("here".utf8)) }
        for host in ["first", "second", "first"] { try await fetch(host) }
        let others = try (0..<999).map { try begin("\($0)") }
        for task in others { #expect(await task.error == nil) }
        try await fetch("first")
        #expect(asked.value.count == 1_001)
        try await fetch("second")
        #expect(asked.value.suffix(1) == ["second.test"] && asked.value.count == 1_002)
        test.clock.advance(by: .seconds(3_600))
        try await fetch("first")
        #expect(asked.value.suffix(1) == ["first.test"] && asked.value.count == 1_003)
    }

    @Test("Without descriptors a cache fails its calls for now; the same cache works once there are some")
    func descriptors() async {
        await #expect(processExitsWith: .success) {
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = 200
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let folder = TemporaryFolder()
            var files: [Int32] = []
            while case let file = dup(0), file >= 0 { files.append(file) }
            let cache = DataCache()
            let images = ImageCache(.init(directory: folder.url))
            let early = [await cache.getData(url("a")).error, await images.getImage(url("a")).error]
            #expect(cache.queueCounts == QueueCounts())
            for file in files { close(file) }
            #expect(early.allSatisfy { $0?.mayPass == true }, "\(early)")
            let text = try #require(URL(string: "data:,here"))
            #expect(try await cache.getData(text).value == Data("here".utf8))
            #expect(await images.getImage(text).error == .unsupportedFormat)
            // A cache that never got a thread ends as well.
            files = []
            while case let file = dup(0), file >= 0 { files.append(file) }
            await DataCache().shutdown()
            for file in files { close(file) }
            await cache.shutdown()
            await images.shutdown()
        }
    }

    @Test("Without threads a cache fails its calls for now; the same cache works once there are some")
    func threads() async {
        await #expect(processExitsWith: .success) {
            let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
            let size = try #require(pages.first.flatMap { rlim_t($0) }) * rlim_t(sysconf(Int32(_SC_PAGESIZE)))
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            let usual = limit.rlim_cur
            // Less than the stack of a thread.
            limit.rlim_cur = size + 5 << 20
            setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            let test = TestImageCache()
            let early = await test.cache.getImage(url("a")).error
            limit.rlim_cur = usual
            setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            #expect(early?.mayPass == true, "\(String(describing: early))")
            test.transport.script(url("a"), [.text("no picture")])
            #expect(await test.cache.getImage(url("a")).error == .unsupportedFormat)
            await test.cache.shutdown()
        }
    }
}
