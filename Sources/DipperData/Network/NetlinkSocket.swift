import CMnl
import Foundation

/// A netlink socket for the kernel's routing (`rtnetlink(7)`). Needs no privilege.
// One thread at a time uses the handle of libmnl.
final class NetlinkSocket: @unchecked Sendable {
    /// The groups for changes of links, and of addresses and routes of both families.
    static let allChanges =
        UInt32(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE)

    /// The size of the receive buffer in bytes: the kernel's answers come in pieces of at most this size.
    private static let pieceSize = 32 << 10

    private let handle: OpaquePointer
    private let buffer: UnsafeMutableRawBufferPointer
    private var sequence: UInt32 = 0

    /// Opens a socket.
    /// - Parameter groups: the multicast groups to receive changes from, as in `netlink(7)`; 0 for none.
    init(groups: UInt32) throws(NetlinkError) {
        guard let handle = mnl_socket_open2(NETLINK_ROUTE, Int32(SOCK_CLOEXEC.rawValue)) else {
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

    /// Discards all received messages. Throws if no more messages will come.
    func drain() throws(NetlinkError) {
        while true {
            if recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT)) > 0 { continue }
            switch errno {
            case EAGAIN: return
            // With ENOBUFS some messages are lost, but the socket continues to work.
            case ENOBUFS, EINTR: continue
            default: throw NetlinkError("receive")
            }
        }
    }

    /// Asks the kernel for all links, addresses and routes.
    func dump() throws(NetlinkError) -> RoutingState {
        // If the routing changes during every attempt, the last dump is used: messages about the changes follow.
        var attempts = 3
        while true {
            var parser = NetlinkParser()
            try dump(RTM_GETLINK, ifinfomsg.self, into: &parser)
            try dump(RTM_GETADDR, ifaddrmsg.self, into: &parser)
            try dump(RTM_GETROUTE, rtmsg.self, into: &parser)
            attempts -= 1
            if !parser.isInterrupted || attempts == 0 { return parser.state }
        }
    }

    private func dump<Header>(
        _ type: Int, _ header: Header.Type, into parser: inout NetlinkParser
    ) throws(NetlinkError) {
        sequence += 1
        try ask(type, size: MemoryLayout<Header>.size)
        while true {
            let count = mnl_socket_recvfrom(handle, buffer.baseAddress, buffer.count)
            guard count > 0 else {
                if count < 0, errno == EINTR { continue }
                throw NetlinkError("receive")
            }
            switch parser.take(UnsafeRawBufferPointer(rebasing: buffer[..<count]), sequence: sequence) {
            case .more: continue
            case .done: return
            case .failed(let code): throw NetlinkError("dump", code: code)
            }
        }
    }

    private func ask(_ type: Int, size: Int) throws(NetlinkError) {
        guard let message = mnl_nlmsg_put_header(buffer.baseAddress) else { return }
        message.pointee.nlmsg_type = UInt16(type)
        message.pointee.nlmsg_flags = UInt16(NLM_F_REQUEST | NLM_F_DUMP)
        message.pointee.nlmsg_seq = sequence
        // A header of zeros selects every family.
        mnl_nlmsg_put_extra_header(message, size)
        guard mnl_socket_sendto(handle, message, Int(message.pointee.nlmsg_len)) >= 0 else {
            throw NetlinkError("send")
        }
    }
}
