import CMnl
import Foundation

/// The decision whether a host can be reached: the kernel's, for an address.
extension Netlink {
    private enum Way {
        case open
        /// There is no route, or none over a link that is up.
        case none
        /// A route says that packets are to be refused.
        case refused
    }

    /// Returns whether packets to the host can leave this machine. A name that must be looked up counts as a host on
    /// the internet or, without a way to the internet, as a host in a network of this machine.
    func canReach(_ host: HostTarget) throws(NetlinkError) -> Bool {
        switch host {
        case .addresses(let addresses, let zone):
            for address in addresses where try canReach(address, zone: zone) { return true }
            return false
        case .name: return try canReachNames()
        }
    }

    private func canReach(_ address: IPAddress, zone: String?) throws(NetlinkError) -> Bool {
        // This machine is always reachable.
        if address.isLoopback || address.isUnspecified { return true }
        guard let zone else { return try way(to: address) == .open }
        let link = UInt32(zone) ?? if_nametoindex(zone)
        guard link != 0 else { return false }
        return try way(to: address, over: link) == .open
    }

    private func way(to address: IPAddress, over link: UInt32? = nil) throws(NetlinkError) -> Way {
        var header = rtmsg()
        header.rtm_family = UInt8(address.family == .v4 ? AF_INET : AF_INET6)
        header.rtm_dst_len = UInt8(address.family.width)
        var attributes = [(Int(RTA_DST.rawValue), address.bytes)]
        if let link { attributes.append((Int(RTA_OIF.rawValue), withUnsafeBytes(of: link) { Array($0) })) }
        var route: (type: UInt8, link: UInt32?, source: IPAddress?)?
        let error = try ask(RTM_GETROUTE, header, attributes) { payload in
            guard let header = payload.structure(rtmsg.self) else { return }
            var found: (type: UInt8, link: UInt32?, source: IPAddress?) = (header.rtm_type, nil, nil)
            for (type, value) in NetlinkAttributes(payload, after: rtmsg.self) {
                switch type {
                case Int(RTA_OIF.rawValue): found.link = value.structure(UInt32.self)
                case Int(RTA_PREFSRC.rawValue): found.source = IPAddress(value)
                default: break
                }
            }
            route = found
        }
        switch error {
        case 0: break
        case EHOSTUNREACH, EACCES, EINVAL: return .refused
        // A kernel without IPv6.
        case EOPNOTSUPP where address.family == .v6: return .none
        case EOPNOTSUPP, EPERM: throw NetlinkError("route", code: error)
        default: return .none
        }
        guard let route else { return .none }
        // This machine; or an address that no host has, for which the network is not to blame.
        if route.type != RTN_UNICAST { return .open }
        // Packets need an address of this machine, which to other machines is not one of the link alone.
        guard let link = route.link, let source = route.source,
            address.family == .v4 || address.isLinkLocal || !source.isLinkLocal
        else { return .none }
        return try isUp(link) ? .open : .none
    }

    private func isUp(_ index: UInt32) throws(NetlinkError) -> Bool {
        var header = ifinfomsg()
        header.ifi_index = Int32(bitPattern: index)
        var isUp = false
        let error = try ask(RTM_GETLINK, header) { payload in
            isUp = payload.structure(ifinfomsg.self).map { Self.isUp($0.ifi_flags) } ?? false
        }
        guard error == 0 || error == ENODEV else { throw NetlinkError("link", code: error) }
        return isUp
    }

    /// Whether a link is switched on, has a carrier, and may be used already, for example after 802.1X.
    private static func isUp(_ flags: UInt32) -> Bool {
        let needed = UInt32(IFF_UP.rawValue | IFF_LOWER_UP.rawValue)
        return flags & needed == needed && flags & UInt32(IFF_DORMANT.rawValue) == 0
    }

    // MARK: Names

    /// Addresses in the halves of both families' internet: those of name servers of the root zone. Some VPNs cover the
    /// default route with two halves. Nothing is sent to them.
    private static let internet = ["9.9.9.9", "198.41.0.4", "2001:503:ba3e::2:30"].compactMap { IPAddress($0) }

    private func canReachNames() throws(NetlinkError) -> Bool {
        var refused: Set<IPAddress.Family> = []
        for address in Self.internet {
            switch try way(to: address) {
            case .open: return true
            case .refused: refused.insert(address.family)
            case .none: break
            }
        }
        let links = try linksToOthers()
        var isFound = false
        let error = try ask(RTM_GETADDR, ifaddrmsg(), flags: NLM_F_DUMP) { payload in
            guard let header = payload.structure(ifaddrmsg.self), links.contains(header.ifa_index),
                header.ifa_scope < RT_SCOPE_LINK.rawValue
            else { return }
            let family = Int32(header.ifa_family) == AF_INET ? IPAddress.Family.v4 : .v6
            let isUsable = UInt32(header.ifa_flags) & UInt32(IFA_F_TENTATIVE | IFA_F_DADFAILED) == 0
            if isUsable, !refused.contains(family) { isFound = true }
        }
        guard error == 0 else { throw NetlinkError("addresses", code: error) }
        return isFound
    }

    /// Returns the links that are up and lead to other machines: not this one's loopback, and no bridge to which only
    /// its containers and virtual machines are connected.
    private func linksToOthers() throws(NetlinkError) -> Set<UInt32> {
        var bridges: Set<UInt32> = []
        var links: Set<UInt32> = []
        var ports: Set<UInt32> = []
        let error = try ask(RTM_GETLINK, ifinfomsg(), flags: NLM_F_DUMP) { payload in
            guard let header = payload.structure(ifinfomsg.self), Self.isUp(header.ifi_flags),
                header.ifi_flags & UInt32(IFF_LOOPBACK.rawValue) == 0
            else { return }
            var kind = ""
            var master: UInt32?
            for (type, value) in NetlinkAttributes(payload, after: ifinfomsg.self) {
                switch type {
                case Int(IFLA_MASTER): master = value.structure(UInt32.self)
                case Int(IFLA_LINKINFO):
                    kind = NetlinkAttributes(value).first { $0.type == Int(IFLA_INFO_KIND) }?.payload.text ?? ""
                default: break
                }
            }
            let index = UInt32(bitPattern: header.ifi_index)
            if kind == "bridge" { bridges.insert(index) } else if kind != "dummy" { links.insert(index) }
            if let master, !["veth", "tun", "macvtap"].contains(kind) { ports.insert(master) }
        }
        guard error == 0 else { throw NetlinkError("links", code: error) }
        return links.union(bridges.intersection(ports))
    }
}
