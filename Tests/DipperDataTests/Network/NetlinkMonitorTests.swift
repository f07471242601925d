import CMnl
import DipperTesting
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import DipperData

@Suite("The kernel's word on routes", .timeLimit(.minutes(5)))
struct NetlinkMonitorTests {
    static let isRefused = (try? NetlinkSocket(groups: NetlinkSocket.allChanges)) == nil

    static func logger(_ lines: Box<[String]>) -> Logger {
        .recording { event, metadata in
            lines.update { $0.append("\(event.level) \(metadata["category"] ?? "") \(event.message)") }
        }
    }

    static func quiet() -> Logger { logger(Box([])) }

    @Test(
        "what the kernel tells has the loopback link and its address",
        .enabled(if: !isRefused, "netlink is refused here"))
    func dump() throws {
        let state = try NetlinkSocket(groups: 0).dump()
        let loopback = try #require(state.links.values.first { $0.isLoopback })
        #expect(loopback.name == "lo")
        #expect(
            !loopback.isUp || state.addresses.contains { $0.ip == IPAddress("127.0.0.1") && $0.link == loopback.index })
        #expect(try NetlinkSocket(groups: 0).dump() == state, "told twice, it is the same")
    }

    @Test("where netlink is refused every host is reachable, and the log says so once")
    func refused() async {
        let lines = Box<[String]>([])
        let calls = Box(0)
        let monitor = NetlinkMonitor(logger: Self.logger(lines)) { _ throws(NetlinkError) in
            throw NetlinkError("socket", code: EACCES)
        }
        #expect(monitor.canReach("example.org") && monitor.canReach("10.99.99.99"))
        var observation: ChangeObservation? = monitor.observe { calls.update { $0 += 1 } }
        #expect(monitor.canReach("example.org"))
        let watch = monitor.watch
        await watch?.join()
        #expect(monitor.canReach("example.org"))
        withExtendedLifetime(observation) {}
        observation = nil
        #expect(monitor.watch == nil)
        #expect(
            lines.value == ["warning network the kernel tells nothing of the network: every host counts as reachable"])
        #expect(calls.value == 0)
    }

    @Test("where only the news are refused every host is reachable, too")
    func newsRefused() async {
        let monitor = NetlinkMonitor(logger: Self.quiet()) { groups throws(NetlinkError) in
            if groups != 0 { throw NetlinkError("bind", code: EPERM) }
            return try NetlinkSocket(groups: 0)
        }
        let observation = monitor.observe {}
        await monitor.watch?.join()
        #expect(monitor.canReach("fd99::1"))
        withExtendedLifetime(observation) {}
    }

    @Test(
        "one thread serves all observers, and ends with the last one, its sockets closed",
        .enabled(if: !isRefused, "netlink is refused here"))
    func lifetime() async {
        let open = Box<[WeakSocket]>([])
        let monitor = NetlinkMonitor(logger: Self.quiet()) { groups throws(NetlinkError) in
            let socket = try NetlinkSocket(groups: groups)
            open.update { $0.append(WeakSocket(socket)) }
            return socket
        }
        for _ in 0..<20 {
            var first: ChangeObservation? = monitor.observe {}
            var second: ChangeObservation? = monitor.observe {}
            let watch = monitor.watch
            #expect(watch != nil)
            withExtendedLifetime(first) {}
            first = nil
            #expect(monitor.watch === watch, "somebody still observes")
            withExtendedLifetime(second) {}
            second = nil
            #expect(monitor.watch == nil)
            await watch?.join()
        }
        #expect(!open.value.isEmpty && open.value.allSatisfy { $0.socket == nil })
    }

    struct WeakSocket: Sendable {
        weak let socket: NetlinkSocket?
        init(_ socket: NetlinkSocket) { self.socket = socket }
    }

    @Test("several monitors work at one time", .enabled(if: !isRefused, "netlink is refused here"))
    func several() async {
        let monitors = (0..<4).map { _ in NetlinkMonitor(logger: Self.quiet()) }
        let observations = monitors.map { $0.observe {} }
        #expect(monitors.allSatisfy { $0.canReach("::1") && !$0.canReach("fe80::1%nosuchlink") })
        #expect(Set(monitors.compactMap { $0.watch.map(ObjectIdentifier.init) }).count == 4)
        withExtendedLifetime(observations) {}
    }

    @Test("conditions are set by hand, and observers hear of a change", arguments: [true, false])
    func conditions(isManual: Bool) {
        let manual = ManualNetwork()
        let netlink = NetlinkMonitor(logger: Self.quiet())
        let monitor: any NetworkMonitor = isManual ? manual : netlink
        func set(_ conditions: NetworkConditions) {
            if isManual { manual.setConditions(conditions) } else { netlink.setConditions(conditions) }
        }
        let calls = Box(0)
        let observation = monitor.observe { calls.update { $0 += 1 } }
        #expect(monitor.conditions == NetworkConditions())
        #expect(AlwaysReachable().conditions == NetworkConditions(isConstrained: false, isExpensive: false))
        set(NetworkConditions(isConstrained: true))
        #expect(monitor.conditions.isConstrained && !monitor.conditions.isExpensive)
        set(NetworkConditions(isConstrained: true))
        #expect(calls.value == 1)
        set(NetworkConditions())
        #expect(calls.value == 2)
        withExtendedLifetime(observation) {}
    }

    @Test("the file of hosts is read again when it has changed")
    func hosts() throws {
        let folder = TemporaryFolder()
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let path = folder.url.path + "/hosts"
        let reader = HostsReader(path: path)
        #expect(reader.hosts == HostsFile())
        try "127.0.0.1 one".write(toFile: path, atomically: true, encoding: .utf8)
        #expect(reader.hosts.addresses.keys.sorted() == ["one"])
        try "127.0.0.1 two".write(toFile: path, atomically: true, encoding: .utf8)
        #expect(reader.hosts.addresses.keys.sorted() == ["two"])
        try FileManager.default.removeItem(atPath: path)
        #expect(reader.hosts == HostsFile())
    }

    // MARK: Messages

    /// A message as the kernel writes it, with attributes.
    static func message(_ type: Int, _ header: [UInt8], _ attributes: [(Int, [UInt8])], sequence: UInt32 = 1) -> [UInt8]
    {
        func bytes<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }
        func padded(_ bytes: [UInt8]) -> [UInt8] { bytes + [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4) }
        var payload = padded(header)
        for (type, value) in attributes {
            payload += padded(bytes(UInt16(4 + value.count)) + bytes(UInt16(type)) + value)
        }
        return bytes(UInt32(16 + payload.count)) + bytes(UInt16(type)) + bytes(UInt16(0)) + bytes(sequence)
            + bytes(UInt32(0)) + payload
    }

    static func parse(_ bytes: [UInt8]) -> (NetlinkParser.Progress, RoutingState) {
        var parser = NetlinkParser()
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 8)
        defer { copy.deallocate() }
        copy.copyBytes(from: bytes)
        let progress = parser.take(UnsafeRawBufferPointer(rebasing: copy[..<bytes.count]), sequence: 1)
        return (progress, parser.state)
    }

    static var sample: [UInt8] {
        func word(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }
        let link = [0, 0, 1, 0] + word(7) + word(0x1_0001) + word(0)
        let kind = [UInt8]([9, 0, 1, 0]) + Array("veth\0".utf8)
        let hop: [UInt8] = [16, 0, 0, 0] + word(7) + [8, 0, 5, 0, 10, 0, 0, 1]
        let deadHop: [UInt8] = [8, 0, 16, 0] + word(8)
        return message(
            Int(RTM_NEWLINK), link, [(3, Array("up0\0".utf8)), (10, word(3)), (18, kind)])
            + message(
                Int(RTM_NEWADDR), [2, 24, 0x80, 0] + word(7),
                [(1, [10, 0, 0, 9]), (2, [10, 0, 0, 2]), (8, word(0x40))])
            + message(
                Int(RTM_NEWROUTE), [2, 16, 0, 0, 0, 0, 0, 1] + word(0),
                [(1, [10, 5, 0, 0]), (15, word(1_000)), (6, word(20)), (9, hop + deadHop)])
            + message(Int(RTM_NEWROUTE), [10, 0, 0, 0, 254, 0, 0, 7] + word(0), [(4, word(1)), (6, word(.max))])
            + message(Int(RTM_NEWROUTE), [2, 8, 0, 0, 255, 0, 0, 1] + word(0), [(1, [10, 0, 0, 0]), (4, word(7))])
            + message(3, [0, 0, 0, 0], [])
    }

    @Test("messages are read field by field")
    func parsing() throws {
        let (progress, state) = Self.parse(Self.sample)
        #expect(progress == .done)
        #expect(state.links == [7: .init(7, "up0", [.up, .lowerUp], kind: "veth", master: 3)])
        #expect(state.addresses == [.init(IPAddress("10.0.0.2")!, prefixLength: 24, link: 7, isTentative: true)])
        #expect(
            state.routes == [
                .init(
                    IPPrefix(IPAddress("10.5.0.0")!, length: 16),
                    nextHops: [.init(link: 7, gateway: IPAddress("10.0.0.1")), .init(link: 8, isDead: true)],
                    table: 1_000, metric: 20),
                .init(.all(.v6), kind: .refusing, nextHops: [.init(link: 1)], metric: .max),
            ])
    }

    @Test("an error ends the answer, and answers to others are passed over")
    func errors() {
        #expect(Self.parse(Self.message(2, withUnsafeBytes(of: -EPERM) { Array($0) }, [])).0 == .failed(EPERM))
        #expect(Self.parse(Self.message(2, [], [])).0 == .failed(0))
        #expect(Self.parse(Self.message(3, [], [], sequence: 9)).0 == .more)
        #expect(Self.parse([]).0 == .more)
    }

    @Test("bytes that are cut or damaged are read without harm")
    func garbage() {
        var random = SystemRandomNumberGenerator()
        for end in 0..<Self.sample.count {
            let links = Self.parse(Array(Self.sample[..<end])).1.links.count
            #expect(links <= 1)
        }
        for _ in 0..<5_000 {
            var bytes = Self.sample
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                bytes[Int.random(in: bytes.indices, using: &random)] = .random(in: 0...255, using: &random)
            }
            #expect(Self.parse(bytes).1.routes.count <= 3)
        }
    }
}
