import CMnl

extension NetlinkParser {
    static func link(_ payload: UnsafeRawBufferPointer) -> RoutingState.Link? {
        // Bridges report their ports in messages of their own family.
        guard let header = payload.structure(ifinfomsg.self), Int32(header.ifi_family) == AF_UNSPEC else { return nil }
        var name = ""
        var kind: String?
        var master: UInt32?
        for (type, value) in attributes(payload, after: ifinfomsg.self) {
            switch type {
            case Int(IFLA_IFNAME): name = value.text
            case Int(IFLA_MASTER): master = value.number
            case Int(IFLA_LINKINFO):
                kind = NetlinkAttributes(value).first { $0.type == Int(IFLA_INFO_KIND) }?.payload.text
            default: break
            }
        }
        return RoutingState.Link(
            UInt32(bitPattern: header.ifi_index), name, flags(header.ifi_flags), kind: kind, master: master)
    }

    private static func flags(_ bits: UInt32) -> RoutingState.Link.Flags {
        var flags: RoutingState.Link.Flags = []
        if bits & UInt32(IFF_UP.rawValue) != 0 { flags.insert(.up) }
        if bits & UInt32(IFF_LOOPBACK.rawValue) != 0 { flags.insert(.loopback) }
        if bits & UInt32(IFF_LOWER_UP.rawValue) != 0 { flags.insert(.lowerUp) }
        if bits & UInt32(IFF_DORMANT.rawValue) != 0 { flags.insert(.dormant) }
        return flags
    }

    static func address(_ payload: UnsafeRawBufferPointer) -> RoutingState.Address? {
        guard let header = payload.structure(ifaddrmsg.self), family(header.ifa_family) != nil else { return nil }
        var flags = UInt32(header.ifa_flags)
        var own: IPAddress?
        var prefix: IPAddress?
        for (type, value) in attributes(payload, after: ifaddrmsg.self) {
            switch type {
            // On a point-to-point link IFA_LOCAL is this machine's address and IFA_ADDRESS the peer's.
            case Int(IFA_LOCAL): own = IPAddress(value)
            case Int(IFA_ADDRESS): prefix = IPAddress(value)
            case Int(IFA_FLAGS): flags = value.number ?? flags
            default: break
            }
        }
        guard let ip = own ?? prefix, ip.family == family(header.ifa_family) else { return nil }
        let isOptimistic = flags & UInt32(IFA_F_OPTIMISTIC) != 0
        let isTentative = flags & UInt32(IFA_F_TENTATIVE) != 0 && !isOptimistic
        return RoutingState.Address(
            ip, prefixLength: Int(header.ifa_prefixlen), link: header.ifa_index, scope: header.ifa_scope,
            isTentative: isTentative || flags & UInt32(IFA_F_DADFAILED) != 0)
    }
}
