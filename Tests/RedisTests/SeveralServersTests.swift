import DipperRedis
import TestSupport
import Testing

@Suite(
    "A tier on several servers", .timeLimit(.minutes(2)),
    .enabled(if: RedisProcess.isInstalled, "redis-server is not installed (package redis-server)"))
struct SeveralServersTests {
    private func start(_ count: Int) async throws -> [RedisProcess] {
        var servers: [RedisProcess] = []
        for _ in 0..<count { servers.append(try await RedisProcess()) }
        return servers
    }

    private func tier(_ servers: [RedisProcess]) throws -> RedisTier {
        var options = RedisTier.Options()
        options.timeLimit = .seconds(20)
        return try RedisTier(servers.map(\.url), options)
    }

    private func fill(_ tier: RedisTier, _ numbers: Range<Int>) async throws {
        for number in numbers { try await tier.store(Data("\(number)".utf8), named: name(number), until: nil) }
    }

    private func found(_ tier: RedisTier, _ numbers: Range<Int>) async throws -> Int {
        var count = 0
        for number in numbers where try await tier.record(named: name(number)) == Data("\(number)".utf8) { count += 1 }
        return count
    }

    @Test("each record is on one server, a third of them on each of three, and all machines agree on which")
    func placing() async throws {
        let servers = try await start(3)
        try await fill(tier(servers), 0..<300)
        let counts = try servers.map { try $0.keys.count }
        #expect(counts.reduce(0, +) == 300 && counts.allSatisfy { (60...140).contains($0) })
        #expect(try await found(tier([servers[2], servers[0], servers[1]]), 0..<300) == 300)
    }

    @Test("without one of the servers the records of the others stay where they are, and its own go to the next")
    func oneDead() async throws {
        let servers = try await start(3)
        let tier = try tier(servers)
        try await fill(tier, 0..<300)
        let lost = try servers[1].keys.count
        servers[1].kill()
        // The loss is news for the first look-ups alone.
        for number in 0..<300 { _ = await tier.error(of: name(number)) }
        #expect(try await found(tier, 0..<300) == 300 - lost)
        try await fill(tier, 0..<300)
        #expect(try await found(tier, 0..<300) == 300)
        try await servers[1].start()
        await tier.reconnected()
        #expect(try await found(tier, 0..<300) == 300 - lost, "its records are looked for there again")
    }

    @Test("a record that is removed while one of its servers is away is not there when the server is back")
    func removedMeanwhile() async throws {
        let servers = try await start(2)
        let tier = try tier(servers)
        try await fill(tier, 0..<40)
        let kept = try servers.map { try $0.keys.count }
        #expect(kept.allSatisfy { $0 > 0 })
        // Stopped, and not killed: its records stay.
        servers[0].send(SIGSTOP)
        for number in 0..<40 { try await tier.removeRecord(named: name(number)) }
        #expect(try servers[1].keys == [])
        servers[0].send(SIGCONT)
        await tier.reconnected()
        #expect(try await found(tier, 0..<40) == 0)
        #expect(try servers[0].keys == [])
    }
}
