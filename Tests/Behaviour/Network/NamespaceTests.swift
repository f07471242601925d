import FaultServer
import Logging
import TestSupport
import Testing

@Suite(
    "Networks that go and come", .serialized,
    .enabled(if: Namespaces.missing == nil, Comment(rawValue: Namespaces.missing ?? "")), .timeLimit(.minutes(2)))
struct NamespaceTests {
    private let net: Namespaces

    init() async throws { net = try await Namespaces.serving() }

    private static func checksum(_ path: String, size: Int) -> String {
        FaultServer.checksum(of: FaultServer.body(of: path, size: size))
    }

    struct Outage: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var host = "10.70.0.1"
        var isFar = false
        var before = ""
        var down: String
        var up: String

        static let all = [
            Outage(testDescription: "a link, IPv4", down: "link set up0 down", up: "link set up0 up"),
            Outage(
                testDescription: "the default route", host: "203.0.113.1", before: "route add default via 10.70.0.1",
                down: "route del default", up: "route add default via 10.70.0.1"),
            Outage(
                testDescription: "a link, IPv6", host: "fd70::1", down: "link set up0 down",
                up: "link set up0 up\naddr add fd70::2/64 dev up0 nodad"),
            Outage(
                testDescription: "an address", down: "addr del 10.70.0.2/24 dev up0",
                up: "addr add 10.70.0.2/24 dev up0"),
            Outage(testDescription: "the cable", isFar: true, down: "link set s0 down", up: "link set s0 up"),
        ]
    }

    @Test(
        "an urgent get waits for the network and goes on as soon as it is back",
        arguments: Outage.all.prefix(Checks.areOn ? Outage.all.count : 2))
    func outage(outage: Outage) async throws {
        if !outage.before.isEmpty { try net.ip(net.near, outage.before) }
        let side = outage.isFar ? net.far : net.near
        let probe = try net.probe()
        let url = net.url(outage.host, "/bytes/30000/a")
        try await probe.waitUntil(outage.host, isReachable: true)
        try net.ip(side, outage.down)
        try await probe.waitUntil(outage.host, isReachable: false)
        probe.send("get \(url)")
        #expect(try await probe.wait("fail", url).fatal == false)
        #expect(try await !probe.reaches(outage.host))
        try net.ip(side, outage.up)
        let back = ContinuousClock.now
        try await probe.wait("retry", url)
        let end = try await probe.wait("end", url)
        // Nothing else would wake it; a busy machine is slow.
        #expect(ContinuousClock.now - back < .seconds(20))
        #expect(end.error == nil && end.source == "network" && end.attempts == 1)
        #expect(end.checksum == Self.checksum("/bytes/30000/a", size: 30_000))
        #expect(try net.served().count == 1, "while there is no network nothing is asked")
    }

    @Test("a body that the network interrupts is whole in the end", .inCheck, arguments: [true, false])
    func midBody(isLong: Bool) async throws {
        let probe = try net.probe(["--low-speed-time", "2"])
        let url = net.url("10.70.0.1", "/bytes/400000/d?drip=4000,10")
        probe.send("get \(url)")
        try await probe.wait("progress", url)
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        if isLong { #expect(try await probe.wait("fail", url).fatal == false) }
        try net.ip(net.near, "link set up0 up")
        if isLong { try await probe.wait("retry", url) }
        let end = try await probe.wait("end", url)
        #expect(end.error == nil && end.checksum == Self.checksum("/bytes/400000/d", size: 400_000))
    }

    @Test("a default route that moves to another link is followed", .inCheck)
    func movedRoute() async throws {
        let net = try await Namespaces.serving(cables: 2)
        try net.ip(net.near, "route add default via 10.70.0.1")
        let probe = try net.probe(["--low-speed-time", "2"])
        let url = net.url("203.0.113.1", "/bytes/400000/e?drip=4000,10")
        probe.send("get \(url)")
        try await probe.wait("progress", url)
        try net.ip(net.near, "link set up0 down\nroute replace default via 10.71.0.1")
        try await probe.wait("network")
        try await probe.waitUntil("203.0.113.1", isReachable: true)
        #expect(try await probe.reaches("example.org"))
        let other = net.url("203.0.113.1", "/bytes/1000/other")
        #expect(try await probe.get(other).error == nil, "what is new goes the new way at once")
        let end = try await probe.wait("end", url)
        #expect(end.error == nil && end.checksum == Self.checksum("/bytes/400000/e", size: 400_000))
    }

    @Test("a hosts file that is a pipe holds nothing up, and the last of a hundred thousand names counts", .inCheck)
    func hosts() async throws {
        try net.setHosts(nil)
        let probe = try net.probe()
        #expect(try await probe.reaches("10.70.0.1"))
        #expect(try await !probe.reaches("198.51.100.1"))

        let long = try Namespaces()
        // A network without a way out, so that names which are not in the file cannot be reached.
        try long.ip(long.near, "addr del fd70::2/64 dev up0\nroute add unreachable default")
        let blocked = (0..<100_000).map { "0.0.0.0 ad\($0).test\n" }.joined()
        try long.setHosts(
            blocked + "# 10.70.0.1 far.test\n198.51.100.1\tother.test Far.test # far\n10.70.0.9 near.test")
        let other = try long.probe()
        try await other.waitUntil("far.test", isReachable: false)
        for host in ["near.test", "NEAR.test.", "ad99999.test"] { #expect(try await other.reaches(host), "\(host)") }
        #expect(try await !other.reaches("else.test"))
    }

    @Test("literals of both families are reached and told apart; a name needs a way out", .inCheck)
    func families() async throws {
        // A bridge of containers, which is no way out.
        try net.ip(
            net.near,
            """
            link add br0 type bridge
            link add c0 type veth peer name c1
            link set c0 master br0
            link set c0 up
            link set c1 up
            link set br0 up
            addr add 172.17.0.1/16 dev br0
            """)
        let probe = try net.probe()
        try await probe.waitUntil("172.17.0.5", isReachable: true)
        for host in ["10.70.0.1", "fd70::1"] {
            let end = try await probe.get(net.url(host, "/bytes/1000/f"))
            #expect(end.checksum == Self.checksum("/bytes/1000/f", size: 1_000))
        }
        let near = ["10.70.0.1", "[fd70::1]", "10.70.0.2", "fd70::2", "fe80::1%up0", "localhost", "127.0.0.1", "[::1]"]
        for host in near { #expect(try await probe.reaches(host), "\(host)") }
        for host in ["10.71.0.1", "[fd71::1]", "fe80::1%up1", "203.0.113.1"] {
            #expect(try await !probe.reaches(host), "\(host)")
        }
        try net.ip(net.near, "addr del fd70::2/64 dev up0")
        try await probe.waitUntil("fd70::1", isReachable: false)
        #expect(try await probe.reaches("10.70.0.1"))
        try net.ip(net.near, "route add unreachable 10.70.0.0/30")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        #expect(try await probe.reaches("10.70.0.9"))
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("example.org", isReachable: false)
        for host in ["localhost", "127.0.0.1", "[::1]", "172.17.0.5"] {
            #expect(try await probe.reaches(host), "\(host)")
        }
    }

    @Test("a table that refuses all packets concerns only those that a rule sends there")
    func rules() async throws {
        let probe = try net.probe()
        try net.ip(
            net.near, "route add default via 10.70.0.1\nroute add unreachable default metric 4278198272 table 70")
        try await probe.waitUntil("203.0.113.1", isReachable: true)
        #expect(try await probe.reaches("example.org"))
        try net.ip(net.near, "rule add to 203.0.113.0/24 table 70")
        try await probe.waitUntil("203.0.113.1", isReachable: false)
        #expect(try await probe.reaches("198.51.100.1"))
    }

    @Test("a route that takes the place of another is a change, also if it was there before")
    func replacedRoutes() async throws {
        let probe = try net.probe()
        for _ in 0..<2 {
            try net.ip(net.near, "route replace default via 10.70.0.1\nroute replace ::/0 via fd70::1")
            for host in ["203.0.113.1", "2001:db8::1"] { try await probe.waitUntil(host, isReachable: true) }
            try net.ip(net.near, "route replace unreachable default\nroute replace unreachable ::/0 metric 1024")
            for host in ["203.0.113.1", "2001:db8::1"] { try await probe.waitUntil(host, isReachable: false) }
        }
    }

    @Test("what the kernel only repeats is no change")
    func repeated() async throws {
        let probe = try net.probe()
        func set(_ verb: String, _ address: String, lifetime: Int) throws {
            let times = "valid_lft \(lifetime) preferred_lft \(lifetime)"
            try net.ip(net.near, "addr \(verb) \(address)/32 dev up0 \(times)")
        }
        try await probe.waitUntil("10.70.0.1", isReachable: true)
        try set("add", "10.90.0.1", lifetime: 900)
        try await probe.wait("network")
        // The first repetition may come with what else the link says.
        for lifetime in 901...903 { try set("change", "10.90.0.1", lifetime: lifetime) }
        try await Task.sleep(for: .seconds(2))
        // Reads what the probe has printed so far.
        #expect(try await probe.reaches("10.90.0.1"))
        let told = probe.count("network")
        for lifetime in 904...906 {
            try set("change", "10.90.0.1", lifetime: lifetime)
            try await Task.sleep(for: .milliseconds(150))
        }
        #expect(try await probe.reaches("10.90.0.1"))
        let before = probe.events.count
        try set("add", "10.90.0.2", lifetime: 900)
        try await probe.wait("network", after: before)
        #expect(probe.count("network") == told + 1)
    }

    /// The larger burst exceeds the kernel's buffer for a listener that reads late: the kernel drops messages.
    @Test("the end of a burst of changes is not missed", .inCheck, arguments: [200, 3_000])
    func burst(size: Int) async throws {
        let probe = try net.probe()
        try await probe.waitUntil("10.70.0.1", isReachable: true)
        func address(_ number: Int) -> String { "10.90.\(number / 250).\(number % 250 + 1)" }
        let start = ContinuousClock.now
        try net.ip(net.near, (0..<size).map { "addr add \(address($0))/32 dev up0" }.joined(separator: "\n"))
        let duration = ContinuousClock.now - start
        try await probe.waitUntil(address(size - 1), isReachable: true)
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        let told = probe.count("network")
        #expect(told <= 4 + Int(duration / .milliseconds(100)), "told \(told) times")
    }

    // MARK: The link

    /// Only that much still comes after a pause as the sender may have under way. The kernel's own limit would let the
    /// sender fill the link's queue of 1 MB, and as much again in the receiver's memory.
    @Test(
        "a prefetch that is held back frees the link at once; also a fetch that became a prefetch",
        arguments: Checks.areOn ? [false, true] : [false])
    func freeLink(isDemoted: Bool) async throws {
        let link = try await net.shapedLink()
        let probe = try net.probe()
        let slow = net.url("10.211.0.2", "/bytes/60000000/slow" + (isDemoted ? "?delay=1000" : ""))
        probe.send("\(isDemoted ? "get" : "slow") \(slow)")
        if isDemoted { probe.send("demote \(slow)") }
        // More than a second of the link's rate.
        while try await probe.wait("progress", slow, after: probe.events.count).bytes ?? 0 < 3_000_000 {}
        let urgent = net.url("10.211.0.2", "/bytes/30000/urgent?delay=1500")
        let known = probe.events.count
        probe.send("get \(urgent)")
        try await probe.wait("pause", slow, after: known)
        let before = try await carried(by: link)
        #expect(try await probe.wait("end", urgent).error == nil)
        let bytes = try await carried(by: link)
        // In this time the link carries 4 MB.
        #expect(before > 3_000_000 && bytes < 700_000, "\(before) bytes came, then \(bytes)")
    }

    /// Returns the bytes that the link has carried to the client since the last call.
    private func carried(by link: LineTool) async throws -> Int {
        link.write("\n")
        let counts = await link.nextLine()?.split(separator: " ") ?? []
        return try #require(counts.count > 1 ? Int(counts[1]) : nil, "\(counts)")
    }
}

@Suite("The monitor of the network", .timeLimit(.minutes(2)))
struct NetworkMonitorTests {
    @Test("where the kernel tells nothing every host is reachable, and the log says so once")
    func refused() async {
        // A process of its own, which can open no more files and thus no sockets.
        await #expect(processExitsWith: .success) {
            let lines = Box<[String]>([])
            let monitor = NetlinkMonitor(logger: .recording(lines: { line in lines.update { $0.append(line) } }))
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            var none = limit
            none.rlim_cur = 0
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
            let isReachable = ["example.org", "10.99.99.99", "fd99::1"].allSatisfy { monitor.canReach($0) }
            let observation = monitor.observe {}
            let isStillReachable = monitor.canReach("example.org")
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            #expect(isReachable && isStillReachable)
            #expect(
                lines.value.count == 1 && lines.value[0].contains("every host counts as reachable"), "\(lines.value)")
            withExtendedLifetime(observation) {}
        }
    }

    @Test("conditions are set by hand, and observers hear of a change once")
    func conditions() {
        let monitor = NetlinkMonitor()
        let calls = Box(0)
        let observation = monitor.observe { calls.update { $0 += 1 } }
        #expect(monitor.conditions == NetworkConditions())
        #expect(AlwaysReachable().conditions == NetworkConditions(isConstrained: false, isExpensive: false))
        for _ in 0..<2 { monitor.setConditions(NetworkConditions(isConstrained: true)) }
        #expect(monitor.conditions.isConstrained && !monitor.conditions.isExpensive)
        #expect(calls.value == 1)
        monitor.setConditions(NetworkConditions())
        #expect(calls.value == 2)
        withExtendedLifetime(observation) {}
    }
}
