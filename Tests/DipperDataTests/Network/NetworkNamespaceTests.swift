import FaultServer
import Foundation
import NetworkProbe
import TestSupport
import Testing

@testable import DipperData

@Suite(
    "Networks that go and come", .serialized,
    .enabled(if: Namespaces.missing == nil, Comment(rawValue: Namespaces.missing ?? "")), .timeLimit(.minutes(2)))
struct NetworkNamespaceTests {
    /// A way for a network to go and to come back.
    struct Outage: Sendable, CustomStringConvertible {
        var description: String
        var host: String
        var isFar = false
        var before = ""
        var down: String
        var up: String

        static let all = [
            Outage(
                description: "a link is switched off, IPv4", host: "10.70.0.1", down: "link set up0 down",
                up: "link set up0 up"),
            Outage(
                description: "a link is switched off, IPv6", host: "fd70::1", down: "link set up0 down",
                up: "link set up0 up\naddr add fd70::2/64 dev up0 nodad"),
            Outage(
                description: "the default route goes", host: "203.0.113.1",
                before: "route add default via 10.70.0.1", down: "route del default",
                up: "route add default via 10.70.0.1"),
            Outage(
                description: "a network card goes with its address", host: "10.70.0.1",
                down: "addr del 10.70.0.2/24 dev up0", up: "addr add 10.70.0.2/24 dev up0"),
            Outage(
                description: "the cable is pulled", host: "10.70.0.1", isFar: true, down: "link set s0 down",
                up: "link set s0 up"),
        ]
    }

    /// A body of the server, as the probe tells of it.
    static func checksum(_ path: String, size: Int) -> String {
        ProbeChecksum.of(FaultServer.body(of: path, size: size))
    }

    @Test("an urgent get waits for the network and goes on as soon as it is back", arguments: Outage.all)
    func outage(outage: Outage) async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.serve()
        if !outage.before.isEmpty { try net.ip(net.near, outage.before) }
        let side = outage.isFar ? net.far : net.near
        // The kernel takes three seconds to find that nobody answers at the end of a cable.
        let rounds = outage.isFar ? 3 : 7
        var delays: [Double] = []
        for round in 0..<rounds {
            // A connection kept from the round before would hide what a new one meets.
            let probe = try net.probe()
            let url = net.url(outage.host, "/bytes/30000/\(round)")
            try await probe.waitUntil(outage.host, isReachable: true)
            try net.ip(side, outage.down)
            try await probe.waitUntil(outage.host, isReachable: false)
            probe.send("get \(url)")
            #expect(try await probe.wait("fail", url).fatal == false)
            #expect(try await !probe.reaches(outage.host))
            let start = Namespaces.now
            let back = try net.ip(side, outage.up)
            let retry = try await probe.wait("retry", url)
            delays.append(retry.ms - start)
            let end = try await probe.wait("end", url)
            #expect(end.error == nil && end.source == "network" && end.attempts == 1)
            #expect(end.checksum == Self.checksum("/bytes/30000/\(round)", size: 30_000))
            // Nothing else would wake it; a busy machine is slow.
            #expect(retry.ms - back < 10_000)
            probe.stop()
        }
        delays.sort()
        print(
            "\(outage): the retry comes \(Int(delays[rounds / 2])) ms after ip starts (median; most \(Int(delays[rounds - 1])))"
        )
        #expect(try net.served().count == rounds, "while there is no network nothing is asked")
    }

    @Test("another host is served meanwhile, and slowQueue is not held up")
    func otherHosts() async throws {
        let net = try Namespaces(cables: 2)
        defer { net.close() }
        try net.serve()
        let probe = try net.probe()
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        let (parked, urgent, slow) = (
            net.url("10.70.0.1", "/bytes/1000/a"), net.url("10.71.0.1", "/bytes/1000/b"),
            net.url("fd71::1", "/bytes/1000/c")
        )
        probe.send("get \(parked)")
        try await probe.wait("fail", parked)
        probe.send("slow \(slow)")
        #expect(try await probe.wait("end", slow).source == "network")
        probe.send("get \(urgent)")
        #expect(try await probe.wait("end", urgent).source == "network")
        #expect(!probe.events.contains { $0.url == parked && ($0.event == "end" || $0.event == "retry") })
        try net.ip(net.near, "link set up0 up")
        #expect(try await probe.wait("end", parked).error == nil)
    }

    @Test("a thousand jobs wake one after the other, each asked for once")
    func herd() async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.serve()
        let probe = try net.probe()
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        probe.send("many 1000 \(net.url("10.70.0.1", "/bytes/100/"))")
        var position = 0
        var failed = 0
        while failed < 1_000 {
            try await probe.wait("fail", after: position)
            failed = probe.count("fail")
            position = probe.events.count
        }
        try net.ip(net.near, "link set up0 up")
        _ = try await probe.ask("wait", "idle")
        let ends = probe.events.filter { $0.event == "end" }
        #expect(ends.count == 1_000 && ends.allSatisfy { $0.error == nil && $0.attempts == 1 })
        let served = try net.served().sorted { $0.startMS < $1.startMS }
        #expect(served.count == 1_000 && Set(served.map(\.path)).count == 1_000)
        // Of a herd, most would come within the first tenth of a second.
        // On a busy machine some come late and close together.
        let spans = zip(served, served.dropFirst(250)).map { $1.startMS - $0.startMS }.sorted()
        let burst = spans[spans.count / 2]
        print("1,000 jobs wake within \(Int((served.last?.startMS ?? 0) - (served.first?.startMS ?? 0))) ms")
        #expect(burst > 300, "250 requests take \(burst) ms (median)")
    }

    @Test("a body that the network interrupts is whole in the end", arguments: [true, false])
    func midBody(isLong: Bool) async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.serve()
        let probe = try net.probe(["--low-speed-time", "2"])
        let path = "/bytes/400000/d"
        let url = net.url("10.70.0.1", path + "?drip=4000,10")
        probe.send("get \(url)")
        try await probe.wait("progress", url)
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        if isLong { #expect(try await probe.wait("fail", url).fatal == false) }
        try net.ip(net.near, "link set up0 up")
        if isLong { try await probe.wait("retry", url) }
        let end = try await probe.wait("end", url)
        #expect(end.error == nil && end.bytes == 400_000)
        #expect(end.checksum == Self.checksum(path, size: 400_000))
    }

    @Test("a default route that moves to another link is followed")
    func movedRoute() async throws {
        let net = try Namespaces(cables: 2)
        defer { net.close() }
        try net.serve()
        try net.ip(net.near, "route add default via 10.70.0.1")
        let probe = try net.probe(["--low-speed-time", "2"])
        let path = "/bytes/400000/e"
        let url = net.url("203.0.113.1", path + "?drip=4000,10")
        probe.send("get \(url)")
        try await probe.wait("progress", url)
        let moved = try net.ip(net.near, "link set up0 down\nroute replace default via 10.71.0.1")
        try await probe.wait("network")
        try await probe.waitUntil("203.0.113.1", isReachable: true)
        #expect(try await probe.reaches("example.org"))
        let other = net.url("203.0.113.1", "/bytes/1000/other")
        probe.send("get \(other)")
        #expect(try await probe.wait("end", other).error == nil, "what is new goes the new way at once")
        let end = try await probe.wait("end", url)
        print("after the default route moved: \(Int(end.ms - moved)) ms to the end, \(end.attempts ?? 0) attempts")
        #expect(end.error == nil && end.bytes == 400_000)
        #expect(end.checksum == Self.checksum(path, size: 400_000))
    }

    @Test("literals of both families are reached and told apart")
    func families() async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.serve()
        let probe = try net.probe()
        for host in ["10.70.0.1", "fd70::1"] {
            let url = net.url(host, "/bytes/1000/f")
            probe.send("get \(url)")
            #expect(try await probe.wait("end", url).checksum == Self.checksum("/bytes/1000/f", size: 1_000))
        }
        for host in ["10.70.0.1", "[fd70::1]", "10.70.0.2", "fd70::2", "fe80::1%up0", "localhost", "example.org"] {
            #expect(try await probe.reaches(host), "\(host)")
        }
        for host in ["10.71.0.1", "[fd71::1]", "fe80::1%up1", "203.0.113.1"] {
            #expect(try await !probe.reaches(host), "\(host)")
        }
        try net.ip(net.near, "addr del fd70::2/64 dev up0")
        try await probe.waitUntil("fd70::1", isReachable: false)
        #expect(try await probe.reaches("10.70.0.1"))
        try net.ip(net.near, "route add unreachable 10.70.0.0/30")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        #expect(try await probe.reaches("10.70.0.9"))
    }

    @Test("several monitors hear of a change, in one process and in several")
    func severalMonitors() async throws {
        let net = try Namespaces()
        defer { net.close() }
        let probes = [try net.probe(["--monitors", "3"]), try net.probe()]
        for probe in probes { try await probe.waitUntil("10.70.0.1", isReachable: true) }
        try net.ip(net.near, "link set up0 down")
        for probe in probes {
            try await probe.wait("network")
            try await probe.waitUntil("10.70.0.1", isReachable: false)
            while try await probe.ask("notifications", "notifications").counts?.contains(0) != false {}
        }
    }

    /// The larger burst exceeds the kernel's buffer for a listener that does not read at once, so the kernel drops some
    /// messages.
    @Test("a burst of changes is told a few times, and its end is not missed", arguments: [200, 3_000])
    func burst(size: Int) async throws {
        let net = try Namespaces()
        defer { net.close() }
        let probe = try net.probe()
        try await probe.waitUntil("10.70.0.1", isReachable: true)
        func address(_ number: Int) -> String { "10.90.\(number / 250).\(number % 250 + 1)" }
        let start = try net.ip(net.near, "link show")
        let end = try net.ip(
            net.near, (0..<size).map { "addr add \(address($0))/32 dev up0" }.joined(separator: "\n"))
        try await probe.waitUntil(address(size - 1), isReachable: true)
        // The news of a later change comes after all those before it.
        let before = probe.count("network")
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("10.70.0.1", isReachable: false)
        while probe.count("network") <= before { _ = try await probe.ask("notifications", "notifications") }
        let told = probe.count("network")
        print("\(size) addresses in \(Int(end - start)) ms: told \(told - 1) times")
        // One look may find both changes.
        #expect(told >= 1 && told <= 4 + Int((end - start) / 100))
    }

    @Test("bridges of containers do not make names reachable while the link out is down")
    func bridges() async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.ip(
            net.near,
            """
            route add default via 10.70.0.1
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
        #expect(try await probe.reaches("example.org"))
        try net.ip(net.near, "link set up0 down")
        try await probe.waitUntil("example.org", isReachable: false)
        #expect(try await probe.reaches("172.17.0.5"), "the bridge itself is up")
        try net.ip(net.near, "link set up0 up\nroute add default via 10.70.0.1")
        try await probe.waitUntil("example.org", isReachable: true)
    }

    @Test("the command line waits for the network, and finishes when it is back")
    func commandLine() async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.serve()
        try net.ip(net.near, "link set up0 down")
        let url = net.url("10.70.0.1", "/bytes/5000/a")
        let folder = TemporaryFolder()
        // What is asked for here refuses at once, after the other has begun to wait.
        let tool = try net.tool("dipper", ["batch", "--json", "--retries", "1", "--cache-dir", folder.url.path])
        tool.write("get \(url)\nget http://127.0.0.1:9/\n")
        #expect(await tool.nextLine()?.contains("connection failed") == true)
        try net.ip(net.near, "link set up0 up")
        let end = try #require(await tool.nextLine())
        for part in ["\"source\":\"network\"", "\"status\":200", "\"bytes\":5000", "\"attempts\":1"] {
            #expect(end.contains(part), "\(part): \(end)")
        }
        tool.end()
    }

    @Test("a prefetch has a small receive buffer, which a promotion gives back to the kernel")
    func receiveBuffer() async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.serve()
        let probe = try net.probe()
        let url = net.url("10.70.0.1", "/bytes/60000000/a?stall=50000000&times=1")
        probe.send("slow \(url)")
        let small = 2 * ReceiveWindow.smallest
        #expect(try net.waitForReceiveBuffer { $0 == small } == small)
        probe.send("get \(url)")
        // The buffer grows with what arrives.
        #expect(try net.waitForReceiveBuffer { $0 != small } != small)
        probe.stop()
    }

    @Test("a fetch that is demoted before its answer gets a small receive buffer when the answer begins")
    func demotedBeforeAnswer() async throws {
        let net = try Namespaces()
        defer { net.close() }
        try net.serve()
        let probe = try net.probe()
        let url = net.url("10.70.0.1", "/bytes/60000000/a?stall=50000000&times=1&delay=1000")
        probe.send("get \(url)")
        _ = try net.waitForReceiveBuffer { _ in true }
        probe.send("demote \(url)")
        let small = 2 * ReceiveWindow.smallest
        #expect(try net.waitForReceiveBuffer { $0 == small } == small)
        probe.stop()
    }
}
