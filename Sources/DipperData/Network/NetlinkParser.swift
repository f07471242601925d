import CMnl

/// A parser that makes a ``RoutingState`` from the kernel's messages; see `rtnetlink(7)`. Accepts any bytes.
struct NetlinkParser {
    /// The state of a dump after some bytes.
    enum Progress: Equatable {
        case more
        case done
        /// A value of `errno`.
        case failed(Int32)
    }

    private var links: [RoutingState.Link] = []
    private var addresses: Set<RoutingState.Address> = []
    private var routes: Set<RoutingState.Route> = []
    /// Whether something changed during the dump, so that the messages may not fit together.
    private(set) var isInterrupted = false

    var state: RoutingState { RoutingState(links: links, addresses: addresses, routes: routes) }

    /// Takes received messages.
    /// - Parameters:
    ///   - bytes: the messages as received; their start must be aligned to 4 bytes.
    ///   - sequence: the number of the request; answers to other requests are ignored.
    mutating func take(_ bytes: UnsafeRawBufferPointer, sequence: UInt32) -> Progress {
        guard let start = bytes.baseAddress else { return .more }
        var left = Int32(clamping: bytes.count)
        var message = start.assumingMemoryBound(to: nlmsghdr.self)
        while mnl_nlmsg_ok(message, left) {
            let header = message.pointee
            // libmnl reads a length of 2 GB or more as a negative number, which is less than what is left.
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

    /// Returns the attributes after a message's own header.
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
