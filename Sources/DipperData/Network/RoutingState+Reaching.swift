/// The decision whether a host can be reached.
extension RoutingState {
    /// Returns whether packets to the host can leave this machine. A name that must be looked up counts as a host on
    /// the internet or, without a route to the internet, as a host in a network of this machine.
    func canReach(_ host: HostTarget) -> Bool {
        switch host {
        case .addresses(let addresses, let zone): addresses.contains { canReach($0, zone: zone) }
        case .name: canReachNames
        }
    }

    private func canReach(_ address: IPAddress, zone: String?) -> Bool {
        if address.isLoopback || address.isUnspecified || isOwn(address) { return true }
        if address.family == .v6, address.isLinkLocal { return canReachNeighbours(zone: zone) }
        var rest = ranked.lazy.filter { $0.prefix.contains(address) }.makeIterator()
        var group: [Route] = []
        while true {
            let route = rest.next()
            if let route, group.last.map({ $0.prefix.length == route.prefix.length }) ?? true {
                group.append(route)
                continue
            }
            switch verdict(on: group) {
            case .usable: return true
            // The kernel uses a route that has lost its carrier, rather than one with a shorter prefix.
            case .refused, .down: return false
            case .none: break
            }
            guard let route else { return false }
            group = [route]
        }
    }

    private func isOwn(_ address: IPAddress) -> Bool {
        addresses.contains { $0.ip == address && links[$0.link]?.flags.contains(.up) ?? true }
    }

    private func canReachNeighbours(zone: String?) -> Bool {
        links.values.contains { link in
            guard link.isUp, !link.isLoopback else { return false }
            if let zone, zone != link.name, zone != String(link.index) { return false }
            return addresses.contains {
                $0.link == link.index && $0.ip.family == .v6 && $0.ip.isLinkLocal && !$0.isTentative
            }
        }
    }

    // MARK: Names

    private var canReachNames: Bool {
        let ways = [IPAddress.Family.v4, .v6].map { ($0, wayToInternet($0)) }
        if ways.contains(where: { $0.1 == .usable }) { return true }
        return ranked.contains { route in
            guard route.kind == .unicast, route.prefix.length > 0, !route.prefix.address.isLinkLocal,
                !route.prefix.address.isMulticast,
                !ways.contains(where: { $0 == (route.prefix.family, .refused) })
            else { return false }
            return usableLinks(of: route).contains(where: isRealNetwork)
        }
    }

    private func wayToInternet(_ family: IPAddress.Family) -> Verdict? {
        // Some VPNs cover the default route with two halves, so that it is still there when they end.
        let halves = Self.halves(family).map(verdict)
        if let first = halves.first, first == .usable || first == .refused, halves.allSatisfy({ $0 == first }) {
            return first
        }
        if family == .v6, let assigned = Self.assigned.map(verdict), assigned == .usable || assigned == .refused {
            return assigned
        }
        return verdict(on: .all(family))
    }

    private static func halves(_ family: IPAddress.Family) -> [IPPrefix] {
        (family == .v4 ? ["0.0.0.0", "128.0.0.0"] : ["::", "8000::"])
            .compactMap { IPAddress($0).map { IPPrefix($0, length: 1) } }
    }

    /// The prefix of all IPv6 addresses that have been assigned (RFC 4291, 2.4).
    private static let assigned = IPAddress("2000::").map { IPPrefix($0, length: 3) }

    /// Returns whether a link leads to other machines. A bridge of virtual machines and containers alone does not.
    private func isRealNetwork(_ link: Link) -> Bool {
        switch link.kind {
        case "dummy": false
        case "bridge":
            links.values.contains { port in
                port.master == link.index && port.isUp && !["veth", "tun", "macvtap"].contains(port.kind)
            }
        default: true
        }
    }

    // MARK: Routes

    private enum Verdict {
        case usable
        case refused
        /// The links have no carrier.
        case down
    }

    private func verdict(on prefix: IPPrefix) -> Verdict? {
        verdict(on: ranked.filter { $0.prefix == prefix })
    }

    /// Returns what routes with one prefix do with packets; `nil` if they leave packets to shorter prefixes.
    private func verdict(on group: [Route]) -> Verdict? {
        if group.contains(where: { $0.kind == .local }) { return .usable }
        let usable = group.filter { $0.kind == .unicast && !usableLinks(of: $0).isEmpty }
        let isRefused = group.contains { route in
            guard route.kind == .refusing, !route.isLastResort else { return false }
            return !usable.contains { $0.table == route.table && $0.metric < route.metric }
        }
        if isRefused { return .refused }
        if !usable.isEmpty { return .usable }
        return group.contains { $0.kind == .unicast && !hasCarrier($0) } ? .down : nil
    }

    private func hasCarrier(_ route: Route) -> Bool {
        route.nextHops.isEmpty || route.nextHops.contains { !$0.isDead && links[$0.link]?.isUp == true }
    }

    /// Returns the links over which packets of this route can leave with an address of this machine.
    private func usableLinks(of route: Route) -> [Link] {
        let candidates: [Link] =
            route.nextHops.isEmpty
            ? Array(links.values) : route.nextHops.lazy.filter { !$0.isDead }.compactMap { links[$0.link] }
        return candidates.filter { link in
            link.isUp && !link.isLoopback && hasSource(for: route, on: link)
        }
    }

    private func hasSource(for route: Route, on link: Link) -> Bool {
        addresses.contains { address in
            guard address.ip.family == route.prefix.family, !address.isTentative else { return false }
            if address.ip == route.source { return true }
            return address.link == link.index && (address.ip.family == .v4 || !address.ip.isLinkLocal)
        }
    }
}
