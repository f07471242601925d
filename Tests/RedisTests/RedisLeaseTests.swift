import DipperRedis
import TestSupport
import Testing

@Suite(
    "Leases on Redis", .timeLimit(.minutes(2)),
    .enabled(if: RedisProcess.isInstalled, "redis-server is not installed (package redis-server)"))
struct RedisLeaseTests {
    private let a = url("a")
    /// The date of the server, which drops what has expired.
    private let date = ManualDate(Date())
    private let fresh: HTTPHeaders = ["Cache-Control": "max-age=500"]

    /// A machine of its own: a cache with a folder, a tier and leases of its own.
    private func machine(
        _ server: RedisProcess, _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) throws -> TestCache {
        let tier = try patient(server.url)
        return TestCache(folder: TemporaryFolder(), date: date) {
            $0.share(tier)
            change(&$0)
        }
    }

    /// Begins a fetch on one machine, and a call for it on the others, which wait.
    private func begin(
        _ holder: TestCache, _ others: [TestCache]
    ) async throws -> (transfer: ScriptedTransfer, own: DataTask, waiting: [DataTask]) {
        let own = holder.cache.getData(a)
        let transfer = try await holder.transport.nextTransfer()
        let waiting = others.map { $0.cache.getData(a) }
        for other in others { try await other.cache.waitForParked() }
        return (transfer, own, waiting)
    }

    private func transfers(_ machines: [TestCache]) -> Int {
        machines.reduce(0) { $0 + $1.transport.transfers.count }
    }

    @Test("one of three machines asks the server, and the others find in the tier what it has fetched")
    func once() async throws {
        let server = try await RedisProcess()
        let machines = try (0..<3).map { _ in try machine(server) }
        let (transfer, own, waiting) = try await begin(machines[0], Array(machines[1...]))
        #expect(machines[1].cache.queueSnapshot().fetches.first?.wait == .elsewhere)
        transfer.finish(with: Data("here".utf8), headers: fresh)
        #expect(try await own.response.source == .network)
        for task in waiting {
            let response = try await task.response
            #expect(response.source == .shared && response.data == Data("here".utf8))
        }
        #expect(transfers(machines) == 1)
        await machines[0].cache.shutdown()
        #expect(try server.keys.count == 1, "the record alone")
    }

    @Test("of a thousand calls on four machines each key is asked once, and each picture made once")
    func many() async throws {
        let server = try await RedisProcess()
        let machines = try (0..<4).map { _ in try machine(server) }
        let urls = (0..<250).map { url("many/\($0)") }
        for test in machines { for url in urls { test.transport.script(url, [.response(answer(url.path))]) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for test in machines {
                group.addTask {
                    let tasks = urls.shuffled().map { ($0, test.cache.getData($0)) }
                    for (url, task) in tasks {
                        let data = try await task.value
                        #expect(data == Data(url.path.utf8))
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(transfers(machines) == urls.count)
    }

    private func answer(_ text: String) -> TransferResponse {
        TransferResponse(headers: fresh, body: Data(text.utf8))
    }

    @Test("a picture is made on one machine", arguments: [true, false])
    func pictures(keepsOriginals: Bool) async throws {
        let server = try await RedisProcess()
        let inverting = Inverting()
        let machines = try (0..<3).map { _ in
            let tier = try patient(server.url)
            return TestImageCache(folder: TemporaryFolder(), date: date) {
                $0.data.share(tier)
                $0.options.keepsOriginal = keepsOriginals
            }
        }
        let picture = TransferResponse(headers: fresh, body: try Image.sample().encoded(as: .png))
        let urls = (0..<12).map { url("pictures/\($0).png") }
        for test in machines { for url in urls { test.transport.script(url, [.response(picture)]) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for test in machines {
                group.addTask {
                    let tasks = urls.shuffled().map {
                        test.cache.getImage(ImageRequest($0).processed(by: inverting))
                    }
                    for task in tasks { _ = try await task.value }
                }
            }
            try await group.waitForAll()
        }
        #expect(inverting.count.value == urls.count)
        #expect(machines.reduce(0) { $0 + $1.transport.transfers.count } == urls.count)
    }

    @Test("a failure is shared, also with a machine that looked before and asks after it")
    func failures() async throws {
        let server = try await RedisProcess()
        let record = EventRecord()
        let (holder, other) = (try machine(server), try machine(server))
        let late = try machine(server) {
            $0.fastQueue = QueueConfiguration(maxConcurrent: 1)
            $0.eventSinks.append(record)
        }
        let busy = late.cache.getData(url("b"))
        let slot = try await late.transport.nextTransfer()
        let lateTask = late.cache.getData(a)
        try await record.events.wait { [a] events in
            events.contains { $0.key == CacheKey(a) && $0.kind == .queued(.fast) }
        }
        let (transfer, own, waiting) = try await begin(holder, [other])
        transfer.finish(with: Data(), status: 404)
        #expect(await own.error?.status == 404)
        #expect(await waiting[0].error?.status == 404)
        slot.finish(with: Data(), headers: fresh)
        _ = try await busy.value
        #expect(await lateTask.error?.status == 404)
        #expect(other.transport.transfers.isEmpty && late.transport.transfers.count == 1)
        // A later call asks anew.
        let anew = try machine(server)
        anew.transport.script(a, [.response(answer("now"))])
        #expect(try await anew.cache.getData(a).value == Data("now".utf8))
    }

    @Test("when the holder gives up, another machine asks")
    func givenUp() async throws {
        let server = try await RedisProcess()
        let (holder, other) = (try machine(server), try machine(server))
        let (_, _, waiting) = try await begin(holder, [other])
        holder.cache.cancel(a)
        try await other.transport.nextTransfer().finish(with: Data("other".utf8), headers: fresh)
        #expect(try await waiting[0].value == Data("other".utf8))
    }

    @Test("an answer that the tier does not get is asked for by each, at the same time", arguments: [true, false])
    func unshared(isPrivate: Bool) async throws {
        let full = ["--maxmemory", "2mb", "--maxmemory-policy", "noeviction"]
        let server = try await RedisProcess(["--port", "0"] + (isPrivate ? [] : full))
        let machines = try (0..<3).map { _ in try machine(server) }
        let (transfer, own, waiting) = try await begin(machines[0], Array(machines[1...]))
        transfer.finish(
            with: bytes(4 << 20), headers: isPrivate ? HTTPHeaders(fresh.fields + [.init("Set-Cookie", "a=1")]) : fresh)
        _ = try await own.value
        let others = [try await machines[1].transport.nextTransfer(), try await machines[2].transport.nextTransfer()]
        for other in others { other.finish(with: Data("own".utf8)) }
        for task in waiting { #expect(try await task.value == Data("own".utf8)) }
    }

    @Test("an urgent call makes a prefetch of another machine hurry, until it is cancelled")
    func promotion() async throws {
        let server = try await RedisProcess()
        let (holder, other) = (try machine(server), try machine(server))
        _ = holder.cache.slowGetData(a)
        let transfer = try await holder.transport.nextTransfer()
        // Beside urgent work a prefetch is throttled.
        let urgent = holder.cache.getData(url("b"))
        let own = try await holder.transport.nextTransfer()
        try await transfer.wait { $0.isThrottled }
        let waiting = other.cache.getData(a)
        try await transfer.wait { !$0.isThrottled && $0.queue == .fast }
        other.cache.cancel(a)
        try await transfer.wait { $0.isThrottled }
        own.finish(with: Data(), headers: fresh)
        transfer.finish(with: Data(), headers: fresh)
        _ = await (waiting.result, try urgent.value)
    }

    @Test("calls that wait are answered although the messages of their server are cut off")
    func cutMessages() async throws {
        let server = try await RedisProcess()
        let machines = try (0..<3).map { _ in try machine(server) }
        let (transfer, _, waiting) = try await begin(machines[0], Array(machines[1...]))
        try server.ask("CLIENT", "KILL", "TYPE", "pubsub")
        transfer.finish(with: Data("here".utf8), headers: fresh)
        for task in waiting { #expect(try await task.response.source == .shared) }
        #expect(transfers(machines) == 1)
    }

    @Test(
        "when the server is killed or stopped each machine fetches for itself, and no call fails",
        arguments: [SIGKILL, SIGSTOP])
    func killed(signal: Int32) async throws {
        let server = try await RedisProcess()
        let machines = try (0..<3).map { _ in try machine(server) { $0.leases.patience = .seconds(4) } }
        let (transfer, own, waiting) = try await begin(machines[0], Array(machines[1...]))
        server.send(signal)
        for test in machines[1...] {
            try await test.transport.nextTransfer().finish(with: Data("own".utf8), headers: fresh)
        }
        for task in waiting { #expect(try await task.value == Data("own".utf8)) }
        transfer.finish(with: Data("here".utf8), headers: fresh)
        #expect(try await own.value == Data("here".utf8))
    }

    @Test("the rights that the guide names are enough for a tier and leases")
    func rights() async throws {
        let server = try await RedisProcess()
        let rights =
            "+get +set +del +ping +client|setname +eval +getrange +pttl +pexpire +publish +subscribe +unsubscribe"
        let words = "ACL SETUSER fleet on >secret ~dipper:* &dipper:* \(rights)".split(separator: " ").map(String.init)
        try runProgram("/usr/bin/redis-cli", ["-s", server.socket] + words)
        let machines = try (0..<2).map { _ in
            let tier = try patient("unix://fleet:secret@\(server.socket)")
            return TestCache(folder: TemporaryFolder(), date: date) { $0.share(tier) }
        }
        let (transfer, _, waiting) = try await begin(machines[0], [machines[1]])
        transfer.finish(with: Data("here".utf8), headers: fresh)
        #expect(try await waiting[0].response.source == .shared)
        try await machines[0].cache.removeData(for: a)
        await machines[0].cache.shutdown()
        #expect(try server.keys == [] && server.ask("ACL", "LOG") == "", "nothing was refused")
    }

    // MARK: The service alone

    /// A cache's part in a lease, in place of a cache that may be stopped.
    private final class Part: Sendable {
        let events = Box<[LeaseEvent]>([])
        let tier: RedisTier
        private let claim: any LeaseClaim

        init(_ leases: RedisLeases, _ tier: RedisTier, _ key: CacheKey) {
            self.tier = tier
            claim = leases.claim(key) { [events] event in events.update { $0.append(event) } }
        }

        convenience init(_ server: RedisProcess, _ key: CacheKey) throws {
            let tier = try patient(server.url)
            self.init(RedisLeases(tier), tier, key)
        }

        func run(_ body: @escaping @Sendable (any LeaseClaim) -> Void) { Loop.post { [claim] in body(claim) } }

        func take(_ place: LeasePlace = .first) async throws -> LeaseEvent {
            let count = events.value.count
            run { $0.take(place, since: Date()) }
            try await events.wait { $0.count > count }
            return events.value[count]
        }

        func stored(_ text: String, _ key: CacheKey) async throws -> String {
            try await tier.store(Data(text.utf8), named: key.digest, until: nil)
            return try await tier.record(named: key.digest).map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
    }

    private let taken = LeaseEvent.taken(.first, mayBeKept: false, lifetime: .seconds(3))

    @Test("a holder that goes on after its lease has ended does not replace what the next one stores")
    func fence() async throws {
        let server = try await RedisProcess()
        let key = CacheKey("key")
        let (one, two) = (try Part(server, key), try Part(server, key))
        #expect(try await one.take() == taken)
        #expect(try await two.take() == .refused(.first))
        #expect(try await two.take(.second) == .taken(.second, mayBeKept: false, lifetime: .seconds(3)))
        #expect(try await one.stored("one", key) == "one", "both places may store")
        try server.ask("DEL", "dipper:\(key.digest):\(LeasePlace.first.rawValue)")
        #expect(try await one.stored("late", key) == "one")
        one.run { $0.tell(.moving) }
        try await one.events.wait { $0.last == .lost }
        #expect(try await two.stored("two", key) == "two")
        two.run { $0.end(.kept) }
        #expect(try await one.stored("late", key) == "two", "also after the end of the other one")
        one.run { $0.end(.kept) }
        #expect(try await one.stored("later", key) == "later")
        #expect(try server.keys == ["dipper:\(key.digest)"])
        #expect(try await Part(server, key).take() == .taken(.first, mayBeKept: true, lifetime: .seconds(3)))
    }

    @Test("a holder whose lease has ended unnoticed replaces the record that it knows, and no newer one")
    func unnoticed() async throws {
        let server = try await RedisProcess()
        let key = CacheKey("key")
        let (one, two) = (try Part(server, key), try Part(server, key))
        let place = "dipper:\(key.digest):\(LeasePlace.first.rawValue)"
        let known = LeaseEvent.taken(.first, mayBeKept: true, lifetime: .seconds(3))
        #expect(try await two.stored("old", key) == "old")
        #expect(try await one.take() == known)
        try server.ask("DEL", place)
        #expect(try await one.stored("new", key) == "new")
        one.run { $0.end(.kept) }
        #expect(try await two.take() == known)
        try server.ask("DEL", place)
        #expect(try await one.stored("newer", key) == "newer")
        #expect(try await two.stored("late", key) == "newer")
        // One that is gone is in nobody's way.
        try server.ask("DEL", "dipper:\(key.digest)")
        #expect(try await two.stored("late", key) == "late")
        two.run { $0.end(.kept) }
    }

    @Test("who asks again for the place that it has, because an answer was lost, gets it once more")
    func again() async throws {
        let server = try await RedisProcess()
        let key = CacheKey("key")
        let (one, two) = (try Part(server, key), try Part(server, key))
        #expect(try await one.take() == taken)
        #expect(try await one.take() == taken)
        #expect(try await two.take() == .refused(.first))
    }

    @Test("those who wait hear the news, and the holder hears who waits")
    func news() async throws {
        let server = try await RedisProcess()
        let key = CacheKey("key")
        let (holder, other) = (try Part(server, key), try Part(server, key))
        #expect(try await holder.take() == taken)
        #expect(try await other.take() == .refused(.first))
        other.run { $0.watch(in: .slow) }
        try await holder.events.wait { $0.last == .awaited(in: .slow) }
        other.run { $0.watch(in: .fast) }
        try await holder.events.wait { $0.last == .awaited(in: .fast) }
        // It has subscribed by now, or asks what it has missed.
        holder.run { $0.end(.failed(.status(404))) }
        try await other.events.wait { $0.last == .told(.failed(.status(404)), by: .first) }
    }

    @Test("a lease that nobody renews ends by itself, and those who wait take over")
    func expired() async throws {
        let server = try await RedisProcess()
        let test = try machine(server) { $0.leases.patience = .seconds(4) }
        let dead = try Part(server, CacheKey(a))
        #expect(try await dead.take() == taken)
        let task = test.cache.getData(a)
        try await test.cache.waitForParked()
        let transfer = try await test.transport.nextTransfer(within: .seconds(60))
        #expect(
            try server.ask("EXISTS", "dipper:\(CacheKey(a).digest):\(LeasePlace.second.rawValue)") == "0",
            "not in the second place")
        transfer.finish(with: Data("here".utf8), headers: fresh)
        #expect(try await task.value == Data("here".utf8))
        withExtendedLifetime(dead) {}
    }
}

extension DataCache.Configuration {
    /// Leases are renewed on the system's clock.
    fileprivate mutating func share(_ tier: RedisTier) {
        clock = ContinuousClock()
        tierTimeLimit = .seconds(20)
        tiers = [tier]
        leases.services = [RedisLeases(tier)]
    }
}

private final class EventRecord: EventSink {
    let events = Box<[CacheEvent]>([])
    func receive(_ event: CacheEvent) { events.update { $0.append(event) } }
}
