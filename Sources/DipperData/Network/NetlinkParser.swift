import CMnl

/// Makes a ``RoutingState`` of the kernel's messages; see `rtnetlink(7)`. Takes any bytes.
struct NetlinkParser {
    /// What follows after some bytes.
    enum Progress: Equatable {
        case more
        case done
        /// A value of `errno`.
        case failed(Int32)
    }

    private var links: [RoutingState.Link] = []
    private var addresses: Set<RoutingState.Address> = []
    private var routes: Set<RoutingState.Route> = []
    /// Something changed while the kernel told of it: what was told may not fit together.
    private(set) var isInterrupted = false

    var state: RoutingState { RoutingState(links: links, addresses: addresses, routes: routes) }

    /// - Parameters:
    ///   - bytes: messages as received; their start must be aligned to 4 bytes.
    ///   - sequence: the number of the question; answers to others are passed over.
    mutating func take(_ bytes: UnsafeRawBufferPointer, sequence: UInt32) -> Progress {
        guard let start = bytes.baseAddress else { return .more }
        var left = Int32(clamping: bytes.count)
        var message = start.assumingMemoryBound(to: nlmsghdr.self)
        while mnl_nlmsg_ok(message, left) {
            let header = message.pointee
            // libmnl takes a length of 2 GB and more for a negative one, which is less than what is left.
            guard header.nlmsg_len <= UInt32(left) else { break }
            if header.nlmsg_seq == sequence {
                if Int32(header.nlmsg_flags) & NLM_F_DUMP_INTR != 0 { isInterrupted = true }
                let payload = UnsafeRawBufferPointer(
                    start: mnl_nlmsg_get_payload(message), count: mnl_nlmsg_get_payload_len(message))
                switch Int32(header.nlmsg_type) {
                case NLMSG_DONE: return .done
                case NLMSG_ERROR: return .failed(-(payload.structure(Int32.self) ?? 0))
                default: take(Int(header.nlmsg_type), payload)
                }
            }
            message = UnsafePointer(mnl_nlmsg_next(message, &left))
        }
        return .more
    }

    private mutating func take(_ type: Int, _ payload: UnsafeRawBufferPointer) {
        switch type {
        case Int(RTM_NEWLINK):
            if let link = Self.link(payload) { links.append(link) }
        case Int(RTM_NEWADDR):
            if let address = Self.address(payload) { addresses.insert(address) }
        case Int(RTM_NEWROUTE):
            if let route = Self.route(payload) { routes.insert(route) }
        default: break
        }
    }

    /// The attributes after a message's own header.
    static func attributes<Header>(
        _ payload: UnsafeRawBufferPointer, after header: Header.Type
    ) -> NetlinkAttributes {
        let size = (MemoryLayout<Header>.size + 3) & ~3
        return NetlinkAttributes(UnsafeRawBufferPointer(rebasing: payload.dropFirst(size)))
    }

    static func family(_ number: UInt8) -> IPAddress.Family? {
        switch Int32(number) {
        case AF_INET: .v4
        case AF_INET6: .v6
        default: nil
        }
    }
}
