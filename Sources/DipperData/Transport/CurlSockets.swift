import CCurl
import Foundation

/// The sockets of a pool. Used on the pool's thread alone.
// libcurl's callbacks reach it by address; the pool keeps it until libcurl has closed every socket.
final class CurlSockets: @unchecked Sendable {
    private var open = Set<Int32>()
    /// Those whose receive buffer has been fixed.
    private var limited = Set<Int32>()

    func add(_ socket: Int32) { open.insert(socket) }

    func remove(_ socket: Int32) {
        open.remove(socket)
        limited.remove(socket)
    }

    /// Fixes the receive buffer, so that the kernel does not make it larger by itself.
    func limit(_ socket: Int32, to size: Int) {
        var size = Int32(clamping: size)
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        limited.insert(socket)
    }

    /// Leaves the receive buffer to the kernel again.
    func unlimit(_ socket: Int32) {
        guard limited.remove(socket) != nil else { return }
        var nothing: Int32 = 0
        let length = socklen_t(MemoryLayout<Int32>.size)
        if setsockopt(socket, SOL_SOCKET, DIPPER_SO_BUF_LOCK, &nothing, length) == 0 { return }
        // An older kernel: as much as it gives.
        var size = Int32(ReceiveWindow.largest)
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, length)
    }

    /// The round trip that the kernel has measured, in seconds; `nil` before it has.
    static func roundTrip(_ socket: Int32) -> Double? {
        var info = tcp_info()
        var length = socklen_t(MemoryLayout<tcp_info>.size)
        guard getsockopt(socket, Int32(IPPROTO_TCP), TCP_INFO, &info, &length) == 0, info.tcpi_rtt > 0 else {
            return nil
        }
        return Double(info.tcpi_rtt) * 1e-6
    }

    static func isLoopback(_ socket: Int32) -> Bool { localAddress(socket)?.isLoopback ?? false }

    /// Breaks connections whose own address the machine has no more: nothing will arrive on them.
    func dropOrphans() {
        let addresses = Self.ownAddresses()
        for socket in open {
            guard let address = Self.localAddress(socket), !address.isLoopback,
                !address.isUnspecified, !addresses.contains(address)
            else { continue }
            Glibc.shutdown(socket, Int32(SHUT_RDWR))
        }
    }

    private static func localAddress(_ socket: Int32) -> IPAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(socket, $0, &length) == 0 ? IPAddress($0) : nil
            }
        }
    }

    private static func ownAddresses() -> Set<IPAddress> {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return [] }
        defer { freeifaddrs(first) }
        var addresses = Set<IPAddress>()
        var next = first
        while let entry = next {
            if let address = entry.pointee.ifa_addr.flatMap({ IPAddress($0) }) { addresses.insert(address) }
            next = entry.pointee.ifa_next
        }
        return addresses
    }
}
