import CMnl
import Foundation

struct NetlinkError: Error, CustomStringConvertible {
    let operation: String
    let code: Int32

    init(_ operation: String, code: Int32 = errno) {
        self.operation = operation
        self.code = code
    }

    var description: String { "\(operation): \(String(cString: strerror(code)))" }
}

/// A socket that asks the kernel about links, addresses and routes (`rtnetlink(7)`), without privilege. It never waits:
/// the kernel answers within the system call that asks, and some sandboxes never answer.
// The owner of a socket of libmnl, used by one thread at a time.
final class Netlink: @unchecked Sendable {
    static let changes = [
        RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
        RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE,
    ].reduce(UInt32(0)) { $0 | 1 << ($1.rawValue - 1) }

    /// In bytes; no answer comes in larger pieces.
    private static let pieceSize = 32 << 10

    private let handle: OpaquePointer
    private let buffer: UnsafeMutableRawBufferPointer
    private var sequence: UInt32 = 0

    init(groups: UInt32 = 0) throws(NetlinkError) {
        guard let handle = mnl_socket_open2(NETLINK_ROUTE, Int32(SOCK_CLOEXEC.rawValue) | O_NONBLOCK) else {
            throw NetlinkError("socket")
        }
        guard mnl_socket_bind(handle, groups, MNL_SOCKET_AUTOPID) == 0 else {
            let error = NetlinkError("bind")
            mnl_socket_close(handle)
            throw error
        }
        self.handle = handle
        buffer = .allocate(byteCount: Self.pieceSize, alignment: 8)
    }

    deinit {
        mnl_socket_close(handle)
        buffer.deallocate()
    }

    var descriptor: Int32 { mnl_socket_get_fd(handle) }

    /// - Returns: whether messages were lost after those taken.
    func drain(_ take: (Int, UnsafeRawBufferPointer) -> Void) throws(NetlinkError) -> Bool {
        var isLossy = false
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            if count > 0 {
                for (header, payload) in messages(count) { take(Int(header.nlmsg_type), payload) }
                continue
            }
            switch errno {
            case EAGAIN: return isLossy
            case EINTR: continue
            // The socket continues to work, and may have messages from before.
            case ENOBUFS, ENOMEM: isLossy = true
            default: throw NetlinkError("receive")
            }
        }
    }

    /// - Parameter take: called with the payload of each message, valid only during the call.
    /// - Returns: 0, or the kernel's `errno`.
    func ask<Header: BitwiseCopyable>(
        _ type: Int, _ header: Header, flags: Int32 = 0, _ attributes: [(type: Int, value: [UInt8])] = [],
        take: (UnsafeRawBufferPointer) -> Void
    ) throws(NetlinkError) -> Int32 {
        sequence &+= 1
        guard let message = mnl_nlmsg_put_header(buffer.baseAddress) else { return EINVAL }
        message.pointee.nlmsg_type = UInt16(type)
        message.pointee.nlmsg_flags = UInt16(NLM_F_REQUEST | flags)
        message.pointee.nlmsg_seq = sequence
        mnl_nlmsg_put_extra_header(message, MemoryLayout<Header>.size)?.storeBytes(of: header, as: Header.self)
        for (type, value) in attributes { mnl_attr_put(message, UInt16(type), value.count, value) }
        guard mnl_socket_sendto(handle, message, Int(message.pointee.nlmsg_len)) >= 0 else {
            throw NetlinkError("send")
        }
        while true {
            let count = mnl_socket_recvfrom(handle, buffer.baseAddress, buffer.count)
            guard count > 0 else {
                if count < 0, errno == EINTR { continue }
                throw NetlinkError("receive")
            }
            for (header, payload) in messages(count) where header.nlmsg_seq == sequence {
                switch Int32(header.nlmsg_type) {
                // The end of a dump may be an error as well.
                case NLMSG_DONE, NLMSG_ERROR: return 0 &- (payload.structure(Int32.self) ?? 0)
                default: take(payload)
                }
                if flags != NLM_F_DUMP { return 0 }
            }
        }
    }

    private func messages(_ count: Int) -> [(header: nlmsghdr, payload: UnsafeRawBufferPointer)] {
        var messages: [(header: nlmsghdr, payload: UnsafeRawBufferPointer)] = []
        var left = Int32(clamping: count)
        var next = UnsafeRawBufferPointer(buffer).baseAddress?.assumingMemoryBound(to: nlmsghdr.self)
        // libmnl reads a length of 2 GB or more as negative.
        while let message = next, mnl_nlmsg_ok(message, left), message.pointee.nlmsg_len <= UInt32(left) {
            let payload = UnsafeRawBufferPointer(
                start: mnl_nlmsg_get_payload(message), count: mnl_nlmsg_get_payload_len(message))
            messages.append((message.pointee, payload))
            next = UnsafePointer(mnl_nlmsg_next(message, &left))
        }
        return messages
    }

    private enum RouteState {
        case open
        /// No route, or none over a link that is up.
        case none
        case refused
    }

    /// Returns whether packets to the host can leave this machine.
    /// - Parameter host: its addresses and link; `nil` for a name that must be looked up, which counts as on the
    ///   internet or, without a way there, in a network of this machine.
    func canReach(_ host: (addresses: [IPAddress], zone: String?)?) throws(NetlinkError) -> Bool {
        guard let (addresses, zone) = host else { return try canReachNames() }
        for address in addresses where try canReach(address, zone: zone) { return true }
        return false
    }

    private func canReach(_ address: IPAddress, zone: String?) throws(NetlinkError) -> Bool {
        if address.isLoopback || address.isUnspecified { return true }
        let link = zone.map { UInt32($0) ?? if_nametoindex($0) }
        if link == 0 { return false }
        return try route(to: address, over: link) == .open
    }

    private func route(to address: IPAddress, over wanted: UInt32? = nil) throws(NetlinkError) -> RouteState {
        var header = rtmsg()
        header.rtm_family = UInt8(address.family == .v4 ? AF_INET : AF_INET6)
        header.rtm_dst_len = UInt8(address.family.width)
        var attributes = [(Int(RTA_DST.rawValue), address.bytes)]
        if let wanted { attributes.append((Int(RTA_OIF.rawValue), withUnsafeBytes(of: wanted) { Array($0) })) }
        var type: UInt8?
        var link: UInt32?
        var source: IPAddress?
        let error = try ask(RTM_GETROUTE, header, attributes) { payload in
            type = payload.structure(rtmsg.self)?.rtm_type
            for (attribute, value) in NetlinkAttributes(payload, after: rtmsg.self) {
                switch attribute {
                case Int(RTA_OIF.rawValue): link = value.structure(UInt32.self)
                case Int(RTA_PREFSRC.rawValue): source = IPAddress(value)
                default: break
                }
            }
        }
        switch error {
        case 0: break
        case EHOSTUNREACH, EACCES, EINVAL: return .refused
        case EOPNOTSUPP where address.family == .v6: return .none
        case EOPNOTSUPP, EPERM: throw NetlinkError("route", code: error)
        default: return .none
        }
        guard let type else { return .none }
        // This machine; or an address of no host, for which the network is not to blame.
        if type != RTN_UNICAST { return .open }
        // Others cannot answer to an address that is valid on the link alone.
        guard let link, let source, address.family == .v4 || address.isLinkLocal || !source.isLinkLocal else {
            return .none
        }
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

    /// Switched on, with a carrier, and not dormant, as before 802.1X.
    private static func isUp(_ flags: UInt32) -> Bool {
        let needed = UInt32(IFF_UP.rawValue | IFF_LOWER_UP.rawValue)
        return flags & needed == needed && flags & UInt32(IFF_DORMANT.rawValue) == 0
    }

    /// Addresses of public name servers: one in each half of IPv4, because some VPNs cover the default route with two
    /// halves, and one of IPv6. Nothing is sent to them.
    private static let internet = ["9.9.9.9", "198.41.0.4", "2001:503:ba3e::2:30"].compactMap { IPAddress($0) }

    private func canReachNames() throws(NetlinkError) -> Bool {
        var refused: Set<IPAddress.Family> = []
        for address in Self.internet {
            switch try route(to: address) {
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

    /// Links that are up and lead to other machines: not the loopback, and no bridge with only containers and virtual
    /// machines of this one.
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

/// The complete attributes of a message, or of another attribute.
struct NetlinkAttributes: Sequence, IteratorProtocol {
    private var position: UnsafeRawPointer?
    private let end: UnsafeRawPointer?

    init(_ bytes: UnsafeRawBufferPointer) {
        position = bytes.baseAddress
        end = bytes.baseAddress.map { $0 + bytes.count }
    }

    init<Header>(_ payload: UnsafeRawBufferPointer, after header: Header.Type) {
        let size = (MemoryLayout<Header>.size + 3) & ~3
        self.init(UnsafeRawBufferPointer(rebasing: payload.dropFirst(size)))
    }

    mutating func next() -> (type: Int, payload: UnsafeRawBufferPointer)? {
        // The last attribute may lack its padding.
        guard let position, let end, position < end else { return nil }
        let attribute = position.assumingMemoryBound(to: nlattr.self)
        guard mnl_attr_ok(attribute, Int32(clamping: end - position)) else { return nil }
        self.position = UnsafeRawPointer(mnl_attr_next(attribute))
        let payload = UnsafeRawBufferPointer(
            start: mnl_attr_get_payload(attribute), count: Int(mnl_attr_get_payload_len(attribute)))
        return (Int(mnl_attr_get_type(attribute)), payload)
    }
}

extension UnsafeRawBufferPointer {
    func structure<Value: BitwiseCopyable>(_ type: Value.Type) -> Value? {
        count >= MemoryLayout<Value>.size ? loadUnaligned(as: type) : nil
    }

    var text: String { String(decoding: prefix { $0 != 0 }, as: UTF8.self) }
}
