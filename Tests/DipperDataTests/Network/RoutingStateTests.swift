import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("What routes say of hosts", .timeLimit(.minutes(5)))
struct RoutingStateTests {
    // MARK: Names of hosts

    @Test(
        "literals are read in every form",
        arguments: [
            ("10.0.0.1", "10.0.0.1", nil), ("[fd00::1]", "fd00::1", nil), ("fd00::1", "fd00::1", nil),
            ("FD00:0:0::1", "fd00::1", nil), ("[fe80::1%25eth0]", "fe80::1", "eth0"),
            ("fe80::1%eth0", "fe80::1", "eth0"),
            ("::ffff:10.0.0.1", "10.0.0.1", nil), ("0x0a000001", "10.0.0.1", nil), ("10.1", "10.0.0.1", nil),
        ])
    func literal(text: String, address: String, zone: String?) throws {
        #expect(HostTarget(text) == .addresses([try #require(IPAddress(address))], zone: zone))
    }

    @Test(
        "what is no literal is a name",
        arguments: ["example.org", "1.2.3.4.example", "300.1.1.1", "fd00::zz", "notlocalhost", "localhost.example", ""])
    func name(text: String) {
        #expect(HostTarget(text) == .name)
    }

    @Test(
        "prefixes hold what begins like them",
        arguments: [
            ("10.0.0.0", 8, "10.255.0.1", true), ("10.0.0.0", 8, "11.0.0.1", false), ("0.0.0.0", 0, "1.2.3.4", true),
            ("0.0.0.0", 0, "::1", false), ("128.0.0.0", 1, "200.0.0.1", true), ("128.0.0.0", 1, "100.0.0.1", false),
            ("10.0.0.5", 32, "10.0.0.5", true), ("10.0.0.5", 32, "10.0.0.4", false), ("fd00::", 64, "fd00::1:2", true),
            ("fd00::", 64, "fd00:0:0:1::", false), ("fd00::8000:0:0:0", 65, "fd00::8000:0:0:1", true),
            ("fd00::8000:0:0:0", 65, "fd00::1", false), ("fd00::5", 128, "fd00::5", true),
            ("fd00::5", 128, "fd00::4", false), ("2000::", 3, "3fff::1", true), ("2000::", 3, "4000::1", false),
        ])
    func prefix(address: String, length: Int, other: String, holds: Bool) throws {
        let prefix = IPPrefix(try #require(IPAddress(address)), length: length)
        #expect(prefix.contains(try #require(IPAddress(other))) == holds)
    }

    @Test("a file of hosts is read as its manual says")
    func hostsFile() {
        let file = HostsFile(
            """
            # comment
            127.0.0.1\tlocalhost me.test # more
            10.0.0.9  printer Printer.LAN
            fe80::1%eth0 router
            ::1 me.test
            nonsense broken
            10.0.0.8
            """)
        #expect(HostTarget("printer.lan.", hosts: file) == .addresses([IPAddress("10.0.0.9")!]))
        #expect(HostTarget("ME.test", hosts: file) == .addresses([IPAddress("127.0.0.1")!, IPAddress("::1")!]))
        #expect(HostTarget("router", hosts: file) == .addresses([IPAddress("fe80::1")!]))
        #expect(HostTarget("broken", hosts: file) == .name)
    }

    // MARK: Reachable whatever the routes are

    @Test(
        "this machine is always reachable",
        arguments: [
            "127.0.0.1", "127.8.9.1", "[::1]", "::1", "localhost", "LOCALHOST", "localhost.", "api.localhost",
            "0.0.0.0",
            "::", "me.test", "::ffff:127.0.0.1",
        ])
    func loopback(host: String) {
        let hosts = HostsFile("127.0.0.1 me.test\n::1 me.test")
        #expect(RoutingState().canReach(HostTarget(host, hosts: hosts)))
    }

    @Test("with no route nothing else is", arguments: ["10.0.0.1", "[fd00::1]", "fe80::1", "example.org"])
    func nothing(host: String) {
        #expect(!RoutingState().canReach(HostTarget(host)))
    }

    @Test("an address of this machine is reachable as long as its link is switched on")
    func ownAddress() {
        #expect(Net { $0.link("eth0", carrier: false).address("10.0.0.2/24", "eth0") }.reaches("10.0.0.2"))
        #expect(!Net { $0.link("eth0", up: false).address("10.0.0.2/24", "eth0") }.reaches("10.0.0.2"))
        #expect(Net { $0.route("10.7.0.0/16", "lo", kind: .local) }.reaches("10.7.1.1"))
    }

    // MARK: Literals

    @Test("a literal needs a route over a link that is up, with carrier, and an address of its family")
    func literalNeeds() {
        func net(_ make: (Net) -> Net) -> Net {
            Net(make).route("10.0.0.0/24", "eth0").route("fd00::/64", "eth0")
        }
        let whole = net { $0.link("eth0").address("10.0.0.2/24", "eth0").address("fd00::2/64", "eth0") }
        #expect(whole.reaches("10.0.0.1", "[fd00::1]", "::ffff:10.0.0.1"))
        #expect(!whole.reaches("10.0.1.1") && !whole.reaches("[fd00:0:0:1::1]"))
        let off = net { $0.link("eth0", up: false).address("10.0.0.2/24", "eth0").address("fd00::2/64", "eth0") }
        #expect(!off.reaches("10.0.0.1") && !off.reaches("[fd00::1]"))
        let pulled = net {
            $0.link("eth0", carrier: false).address("10.0.0.2/24", "eth0").address("fd00::2/64", "eth0")
        }
        #expect(!pulled.reaches("10.0.0.1") && !pulled.reaches("[fd00::1]"))
        let dormant = net { $0.link("eth0", dormant: true).address("10.0.0.2/24", "eth0") }
        #expect(!dormant.reaches("10.0.0.1"))
        let old = net { $0.link("eth0").address("10.0.0.2/24", "eth0").address("fe80::2/64", "eth0") }
        #expect(old.reaches("10.0.0.1") && !old.reaches("[fd00::1]"), "a link-local address is none for elsewhere")
        let new = net { $0.link("eth0").address("fd00::2/64", "eth0") }
        #expect(!new.reaches("10.0.0.1") && new.reaches("[fd00::1]"))
        let tentative = net { $0.link("eth0").address("fd00::2/64", "eth0", tentative: true) }
        #expect(!tentative.reaches("[fd00::1]"))
        let gone = net { $0.link("eth1").address("10.0.0.2/24", "eth1") }
        #expect(!gone.reaches("10.0.0.1"), "the route's link is not there")
    }

    @Test("an address on another link serves if the route names it")
    func preferredSource() {
        let net = Net {
            $0.link("eth0").link("eth1").address("10.9.0.1/32", "eth1").route("10.0.0.0/24", "eth0", source: "10.9.0.1")
        }
        #expect(net.reaches("10.0.0.1"))
        #expect(!Net { $0.link("eth0").route("10.0.0.0/24", "eth0", source: "10.9.0.1") }.reaches("10.0.0.1"))
    }

    @Test("the longest prefix decides, also where its link has lost its carrier")
    func longestPrefix() {
        let net = Net { $0.wired("eth0", "10.0.0.2/24").link("eth1", carrier: false).address("10.1.0.2/24", "eth1") }
        net.route("0.0.0.0/0", "eth0").route("10.1.0.0/24", "eth1", dead: true)
        #expect(!net.reaches("10.1.0.9") && net.reaches("10.2.0.9", "8.8.8.8"))
        net.wired("wlan0", "10.1.0.3/24")
        #expect(net.reaches("10.1.0.9"), "another link leads to the same network")
    }

    @Test("a route without a usable address leaves its packets to shorter prefixes")
    func noAddress() {
        let net = Net {
            $0.wired("eth0", "10.0.0.2/24").route("0.0.0.0/0", "eth0").link("tun0", kind: "tun")
                .route("10.5.0.0/16", "tun0")
        }
        #expect(net.reaches("10.5.0.1"))
    }

    @Test("a route that refuses says no to its prefix and to shorter ones")
    func refusing() {
        let net = Net { $0.wired("eth0", "10.0.0.2/24").route("0.0.0.0/0", "eth0") }
        net.route("10.5.0.0/16", nil, kind: .refusing)
        #expect(!net.reaches("10.5.0.1") && net.reaches("10.6.0.1"))
        net.route("10.5.5.0/24", "eth0")
        #expect(net.reaches("10.5.5.1") && !net.reaches("10.5.6.1"), "a longer prefix is before it")
        net.route("10.5.5.0/24", nil, kind: .refusing, table: 100)
        #expect(!net.reaches("10.5.5.1"), "an equal one in another table is not")
    }

    @Test("in one table the lower metric counts, and the kernel's last resort never refuses what a route takes")
    func metrics() {
        let behind = Net { $0.wired("eth0", "10.0.0.2/24") }
        behind.route("0.0.0.0/0", "eth0", metric: 100).route("0.0.0.0/0", nil, kind: .refusing, metric: 200)
        #expect(behind.reaches("8.8.8.8", "example.org"))
        let before = Net { $0.wired("eth0", "10.0.0.2/24") }
        before.route("0.0.0.0/0", "eth0", metric: 100).route("0.0.0.0/0", nil, kind: .refusing, metric: 50)
        #expect(!before.reaches("8.8.8.8") && !before.reaches("example.org"))
        let six = Net { $0.wired("eth0", "fd00::2/64").route("::/0", "eth0", table: 52, metric: 1024) }
        six.route("::/0", nil, kind: .refusing, metric: .max).route("::/0", nil, kind: .refusing, table: 0)
        #expect(six.reaches("[2001:db8::1]", "example.org"))
    }

    @Test("one way out of several is enough")
    func multipath() {
        func net(_ first: Bool, _ second: Bool) -> Net {
            Net {
                $0.link("eth0", carrier: first).address("10.0.0.2/24", "eth0")
                    .link("eth1", carrier: second).address("10.1.0.2/24", "eth1").multipath(
                        "0.0.0.0/0", ["eth0", "eth1"])
            }
        }
        #expect(net(true, true).reaches("8.8.8.8", "example.org"))
        #expect(net(true, false).reaches("8.8.8.8", "example.org"))
        #expect(net(false, true).reaches("8.8.8.8", "example.org"))
        #expect(!net(false, false).reaches("8.8.8.8") && !net(false, false).reaches("example.org"))
    }

    @Test("a route whose next hops are not told counts if any link could take it")
    func unknownHops() {
        #expect(Net { $0.wired("eth0", "10.0.0.2/24").route("10.7.0.0/16", nil) }.reaches("10.7.0.1"))
        #expect(!Net { $0.link("eth0").route("10.7.0.0/16", nil) }.reaches("10.7.0.1"))
    }

    @Test("tables of policy routing count")
    func policyRouting() {
        let net = Net {
            $0.link("wg0", kind: "wireguard").address("10.8.0.2/32", "wg0").route("0.0.0.0/0", "wg0", table: 51820)
        }
        #expect(net.reaches("8.8.8.8", "example.org"))
    }

    @Test("a neighbour by its link-local address needs the link of its zone")
    func linkLocal() {
        let net = Net { $0.link("eth0").address("fe80::2/64", "eth0").link("eth1").route("fe80::/64", "eth0") }
        #expect(net.reaches("fe80::1", "[fe80::1%25eth0]", "fe80::1%2"))
        #expect(!net.reaches("fe80::1%eth1") && !net.reaches("fe80::1%eth9"))
        let pulled = Net { $0.link("eth0", carrier: false).address("fe80::2/64", "eth0").route("fe80::/64", "eth0") }
        #expect(!pulled.reaches("fe80::1") && !pulled.reaches("fe80::1%eth0"))
        #expect(!Net { $0.link("eth0").address("fe80::2/64", "eth0", tentative: true) }.reaches("fe80::1%eth0"))
    }

    // MARK: Names

    @Test("a name needs a default route that can be used")
    func names() {
        #expect(Net { $0.wired("eth0", "10.0.0.2/24").route("0.0.0.0/0", "eth0") }.reaches("example.org"))
        #expect(Net { $0.wired("eth0", "fd00::2/64").route("::/0", "eth0") }.reaches("example.org"))
        let pulled = Net { $0.link("eth0", carrier: false).address("10.0.0.2/24", "eth0") }
        pulled.route("10.0.0.0/24", "eth0", dead: true).route("0.0.0.0/0", "eth0", dead: true)
        #expect(!pulled.reaches("example.org"))
        pulled.wired("wlan0", "10.3.0.2/24").route("0.0.0.0/0", "wlan0", metric: 600)
        #expect(pulled.reaches("example.org"), "another default route is there")
        let unready = Net {
            $0.link("eth0").address("fe80::2/64", "eth0").route("::/0", "eth0").route("fe80::/64", "eth0")
        }
        #expect(!unready.reaches("example.org"))
    }

    @Test("names in the file of hosts are their addresses")
    func namesOfHosts() {
        let net = Net { $0.wired("eth0", "10.0.0.2/24") }
        let hosts = HostsFile("10.0.0.7 near\n10.9.0.7 far\n10.9.0.7 both\n10.0.0.7 both")
        func reaches(_ name: String) -> Bool { net.state.canReach(HostTarget(name, hosts: hosts)) }
        #expect(reaches("near") && !reaches("far") && reaches("both"))
    }

    @Test("the halves that a VPN lays over the default route are one, together")
    func splitDefaults() {
        func with(_ prefixes: String...) -> Bool {
            let net = Net { $0.link("tun0").address("10.8.0.2/32", "tun0").address("fd08::2/128", "tun0") }
            for prefix in prefixes { net.route(prefix, "tun0") }
            return net.wayOut
        }
        #expect(with("0.0.0.0/1", "128.0.0.0/1"))
        #expect(!with("0.0.0.0/1"))
        #expect(with("::/1", "8000::/1"))
        #expect(!with("8000::/1"))
        #expect(with("2000::/3"))
    }

    @Test("a kill switch of a VPN holds back what the LAN could take")
    func killSwitch() {
        let net = Net { $0.wired("eth0", "10.0.0.2/24").route("0.0.0.0/0", "eth0", metric: 100) }
        net.route("0.0.0.0/1", nil, kind: .refusing).route("128.0.0.0/1", nil, kind: .refusing)
        #expect(!net.reaches("example.org") && !net.reaches("8.8.8.8") && net.reaches("10.0.0.1"))
    }

    @Test("without a default route a name is reachable over a real network alone")
    func localNetworks() {
        #expect(Net { $0.wired("eth0", "10.0.0.2/24") }.reaches("example.org"), "a kiosk on a LAN")
        #expect(
            Net { $0.link("eth0", kind: "veth").address("10.0.0.2/24", "eth0").route("10.0.0.0/24", "eth0") }
                .reaches("example.org"), "a container")
        #expect(Net { $0.wired("eth0", "fd00::2/64") }.reaches("example.org"))
        #expect(
            !Net { $0.link("d0", kind: "dummy").address("10.0.0.2/24", "d0").route("10.0.0.0/24", "d0") }
                .reaches("example.org"))
        let linkLocal = Net {
            $0.link("eth0").address("169.254.3.4/16", "eth0").address("fe80::2/64", "eth0").route(
                "169.254.0.0/16", "eth0"
            )
            .route("fe80::/64", "eth0").route("ff00::/8", "eth0")
        }
        #expect(!linkLocal.reaches("example.org") && linkLocal.reaches("169.254.9.9"))
        #expect(!Net { $0.route("127.0.0.0/8", "lo") }.reaches("example.org"))
    }

    @Test(
        "a bridge is a real network if something other than containers and virtual machines is behind it",
        arguments: [
            ([], false), ([Port("veth1", "veth")], false), ([Port("vnet0", "tun")], false),
            ([Port("veth1", "veth"), Port("eth0", nil)], true), ([Port("eth0", nil, isUp: false)], false),
            ([Port("bond0", "bond")], true),
        ])
    func bridges(ports: [Port], isReal: Bool) {
        let net = Net { $0.link("br0", kind: "bridge").address("172.17.0.1/16", "br0").route("172.17.0.0/16", "br0") }
        for port in ports { net.link(port.name, carrier: port.isUp, kind: port.kind, master: "br0") }
        #expect(net.reaches("example.org") == isReal)
        #expect(net.reaches("172.17.0.5"), "what is behind it is reachable by its address")
        net.route("0.0.0.0/0", "br0")
        #expect(net.reaches("example.org"), "a default route is believed")
    }

    @Test("two states are equal whatever the order they were told in")
    func equality() {
        let one = Net { $0.wired("eth0", "10.0.0.2/24").wired("eth1", "10.1.0.2/24") }.state
        let other = RoutingState(links: Array(one.links.values), addresses: one.addresses, routes: one.routes)
        #expect(one == other)
        #expect(one != Net { $0.wired("eth0", "10.0.0.2/24") }.state)
    }
}

struct Port: Sendable {
    var name: String
    var kind: String?
    var isUp: Bool

    init(_ name: String, _ kind: String?, isUp: Bool = true) {
        self.name = name
        self.kind = kind
        self.isUp = isUp
    }
}
