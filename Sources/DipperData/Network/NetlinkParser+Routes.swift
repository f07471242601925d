import CMnl

extension NetlinkParser {
    static func route(_ payload: UnsafeRawBufferPointer) -> RoutingState.Route? {
        guard let header = payload.structure(rtmsg.self), let family = family(header.rtm_family),
            header.rtm_flags & UInt32(RTM_F_CLONED) == 0, let kind = kind(header.rtm_type)
        else { return nil }
        var destination = IPAddress.zero(family)
        var table = UInt32(header.rtm_table)
        var metric: UInt32 = 0
        var source: IPAddress?
        var gateway: IPAddress?
        var link: UInt32?
        var hops: [RoutingState.Route.NextHop] = []
        for (type, value) in attributes(payload, after: rtmsg.self) {
            switch type {
            case Int(RTA_DST.rawValue): destination = IPAddress(value) ?? destination
            case Int(RTA_TABLE.rawValue): table = value.number ?? table
            case Int(RTA_PRIORITY.rawValue): metric = value.number ?? metric
            case Int(RTA_PREFSRC.rawValue): source = IPAddress(value)
            case Int(RTA_OIF.rawValue): link = value.number
            case Int(RTA_GATEWAY.rawValue): gateway = IPAddress(value)
            case Int(RTA_VIA.rawValue): gateway = via(value)
            case Int(RTA_MULTIPATH.rawValue): hops += nextHops(value)
            default: break
            }
        }
        // Only local routes say which addresses belong to this machine, so other routes of the local table are ignored.
        guard destination.family == family, kind == .local || table != UInt32(RT_TABLE_LOCAL.rawValue) else {
            return nil
        }
        if let link {
            hops.append(.init(link: link, gateway: gateway, isDead: isDead(header.rtm_flags)))
        }
        return RoutingState.Route(
            IPPrefix(destination, length: Int(header.rtm_dst_len)), kind: kind, nextHops: hops, table: table,
            metric: metric, source: source)
    }

    private static func kind(_ type: UInt8) -> RoutingState.Route.Kind? {
        switch Int(type) {
        case Int(RTN_UNICAST): .unicast
        case Int(RTN_LOCAL): .local
        case Int(RTN_UNREACHABLE), Int(RTN_BLACKHOLE), Int(RTN_PROHIBIT): .refusing
        default: nil
        }
    }

    private static func isDead(_ flags: UInt32) -> Bool {
        flags & UInt32(RTNH_F_DEAD | RTNH_F_LINKDOWN) != 0
    }

    /// Returns a gateway of the other address family.
    private static func via(_ value: UnsafeRawBufferPointer) -> IPAddress? {
        IPAddress(value.dropFirst(MemoryLayout<UInt16>.size))
    }

    private static func nextHops(_ value: UnsafeRawBufferPointer) -> [RoutingState.Route.NextHop] {
        var hops: [RoutingState.Route.NextHop] = []
        var rest = value
        let size = MemoryLayout<rtnexthop>.size
        while let header = rest.structure(rtnexthop.self) {
            let length = Int(header.rtnh_len)
            guard length >= size, length <= rest.count else { break }
            var gateway: IPAddress?
            for (type, value) in NetlinkAttributes(UnsafeRawBufferPointer(rebasing: rest[size..<length])) {
                if type == Int(RTA_GATEWAY.rawValue) { gateway = IPAddress(value) }
                if type == Int(RTA_VIA.rawValue) { gateway = via(value) }
            }
            hops.append(
                .init(
                    link: UInt32(bitPattern: header.rtnh_ifindex), gateway: gateway,
                    isDead: isDead(UInt32(header.rtnh_flags))))
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst((length + 3) & ~3))
        }
        return hops
    }
}
