import Foundation

@testable import DipperData

/// A builder of routing states, with methods like the commands of `ip`.
final class Net {
    private var links: [RoutingState.Link] = []
    private var addresses: Set<RoutingState.Address> = []
    private var routes: Set<RoutingState.Route> = []

    /// Creates a state with only the loopback link.
    init() {
        links = [.init(1, "lo", [.up, .lowerUp, .loopback])]
        address("127.0.0.1/8", "lo")
    }

    convenience init(_ make: (Net) -> Net) {
        self.init()
        _ = make(self)
    }

    var state: RoutingState { RoutingState(links: links, addresses: addresses, routes: routes) }

    /// Returns whether all of the hosts can be reached.
    func reaches(_ hosts: String...) -> Bool { hosts.allSatisfy { state.canReach(HostTarget($0)) } }

    /// Whether host names can be reached through a default route or its equivalent.
    var wayOut: Bool {
        // If all links are dummies, a route into a directly connected network does not lead to names.
        let links = links.map {
            RoutingState.Link($0.index, $0.name, $0.flags, kind: $0.isLoopback ? nil : "dummy", master: $0.master)
        }
        return RoutingState(links: links, addresses: addresses, routes: routes).canReach(.name)
    }

    @discardableResult
    func link(
        _ name: String, up: Bool = true, carrier: Bool = true, dormant: Bool = false, kind: String? = nil,
        master: String? = nil
    ) -> Net {
        var flags: RoutingState.Link.Flags = []
        if up { flags.insert(.up) }
        if up && carrier { flags.insert(.lowerUp) }
        if dormant { flags.insert(.dormant) }
        links.append(.init(UInt32(links.count + 1), name, flags, kind: kind, master: master.map(index)))
        return self
    }

    @discardableResult
    func address(_ text: String, _ link: String, tentative: Bool = false) -> Net {
        let parts = text.split(separator: "/").map(String.init)
        addresses.insert(
            .init(IPAddress(parts[0])!, prefixLength: Int(parts[1])!, link: index(link), isTentative: tentative))
        return self
    }

    @discardableResult
    func route(
        _ prefix: String, _ link: String?, kind: RoutingState.Route.Kind = .unicast, table: UInt32 = 254,
        metric: UInt32 = 0, dead: Bool = false, source: String? = nil
    ) -> Net {
        let hops = link.map { [RoutingState.Route.NextHop(link: index($0), isDead: dead)] } ?? []
        return add(prefix, hops, kind, table, metric, source)
    }

    @discardableResult
    func multipath(_ prefix: String, _ links: [String]) -> Net {
        add(prefix, links.map { .init(link: index($0)) }, .unicast, 254, 0, nil)
    }

    /// Adds a link with carrier, an address, and the route of that address.
    @discardableResult
    func wired(_ name: String, _ address: String) -> Net {
        link(name)
        self.address(address, name)
        return route(address, name)
    }

    private func add(
        _ prefix: String, _ hops: [RoutingState.Route.NextHop], _ kind: RoutingState.Route.Kind, _ table: UInt32,
        _ metric: UInt32, _ source: String?
    ) -> Net {
        let parts = prefix.split(separator: "/").map(String.init)
        routes.insert(
            .init(
                IPPrefix(IPAddress(parts[0])!, length: Int(parts[1])!), kind: kind, nextHops: hops, table: table,
                metric: metric, source: source.flatMap { IPAddress($0) }))
        return self
    }

    private func index(_ name: String) -> UInt32 { links.first { $0.name == name }?.index ?? 99 }
}
