import CCurl
import Foundation

/// The sockets of a pool. Used on the pool's thread alone.
// libcurl's callbacks reach it by address; the pool keeps it until libcurl has closed every socket.
final class CurlSockets: @unchecked Sendable {
    private struct Socket {
        /// As soon as the connection is known by them.
        var ports: Ports?
        /// The last answer was in HTTP/1.
        var speaksHTTP1 = false
        /// The receive buffer has been fixed.
        var isLimited = false
        /// Since when its link has been down, as far as was looked.
        var standsStillSince: ContinuousClock.Instant?
    }

    private var open: [Int32: Socket] = [:]
    private var byPorts: [Ports: Int32] = [:]
    /// Open ones that are not known by their ports yet: those being connected.
    private var nameless: Set<Int32> = []
    /// Counts the sockets that are gone through to find a connection, for tests.
    var steps: StepCounter?
    private static let patience = Duration.milliseconds(1_500)

    func add(_ socket: Int32) {
        remove(socket)
        open[socket] = Socket()
        nameless.insert(socket)
    }

    func remove(_ socket: Int32) {
        guard let old = open.removeValue(forKey: socket) else { return }
        nameless.remove(socket)
        if let ports = old.ports, byPorts[ports] == socket { byPorts[ports] = nil }
    }

    /// Tells a connection from others of the machine.
    struct Ports: Hashable {
        let local: Int32
        let peer: Int32
        /// The peer's, as text.
        let address: String
    }

    /// The open socket of a connection.
    func socket(with ports: Ports) -> Int32? {
        if let known = byPorts[ports] { return known }
        let address = IPAddress(ports.address)?.unmapped
        let socket = nameless.first { socket in
            steps?.add(1)
            return Self.port(socket, getsockname) == ports.local && Self.port(socket, getpeername) == ports.peer
                && Self.withName(of: socket, getpeername) { IPAddress($0) } == address
        }
        if let socket {
            byPorts[ports] = socket
            open[socket]?.ports = ports
            nameless.remove(socket)
        }
        return socket
    }

    /// The last answer on a kept connection was in HTTP/1: nothing comes before the next is asked for.
    func speaksHTTP1(_ socket: Int32) -> Bool { open[socket]?.speaksHTTP1 ?? false }

    func note(_ socket: Int32, speaksHTTP1: Bool) { open[socket]?.speaksHTTP1 = speaksHTTP1 }

    /// Something has arrived and has not been read.
    static func hasInput(_ socket: Int32) -> Bool {
        dipper_curl_has_input(socket) != 0
    }

    /// Fixes the receive buffer, so that the kernel does not make it larger by itself.
    func limit(_ socket: Int32, to size: Int) {
        guard open[socket] != nil else { return }
        var size = Int32(clamping: size)
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        // A buffer that grows under a connection does not raise the limit that the connection began with.
        if size > ReceiveWindow.smallest {
            size += size / 4
            setsockopt(socket, Int32(IPPROTO_TCP), TCP_WINDOW_CLAMP, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        open[socket]?.isLimited = true
    }

    /// Leaves the receive buffer to the kernel again.
    func unlimit(_ socket: Int32) {
        guard open[socket]?.isLimited == true else { return }
        open[socket]?.isLimited = false
        var nothing: Int32 = 0
        let length = socklen_t(MemoryLayout<Int32>.size)
        if setsockopt(socket, SOL_SOCKET, DIPPER_SO_BUF_LOCK, &nothing, length) == 0 { return }
        // An older kernel: as much as it gives.
        var size = Int32(ReceiveWindow.largest)
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, length)
    }

    /// The round trip that the kernel has measured, in seconds; `nil` before it has.
    static func roundTrip(_ socket: Int32) -> Double? {
        info(socket).flatMap { $0.tcpi_rtt > 0 ? Double($0.tcpi_rtt) * 1e-6 : nil }
    }

    /// About how many bytes the kernel lets the sender have under way.
    static func window(_ socket: Int32) -> Int? { info(socket).map { Int($0.tcpi_rcv_ssthresh) } }

    private static func info(_ socket: Int32) -> tcp_info? {
        var info = tcp_info()
        var length = socklen_t(MemoryLayout<tcp_info>.size)
        return getsockopt(socket, Int32(IPPROTO_TCP), TCP_INFO, &info, &length) == 0 ? info : nil
    }

    static func isLoopback(_ socket: Int32) -> Bool { localAddress(socket)?.isLoopback ?? false }

    /// Breaks connections on which nothing will arrive: those whose own address the machine has no more, and those whose
    /// link has been down for a while. Returns when to look again, if there are others whose link is down.
    func dropOrphans() -> ContinuousClock.Instant? {
        guard let (addresses, working) = Self.ownAddresses() else { return nil }
        var first: ContinuousClock.Instant?
        for (socket, state) in open {
            guard let address = Self.localAddress(socket), !address.isLoopback, !address.isUnspecified,
                !working.contains(address)
            else {
                open[socket]?.standsStillSince = nil
                continue
            }
            let since = state.standsStillSince ?? .now
            let isOrphan = !addresses.contains(address) || .now - since >= Self.patience
            if isOrphan { Glibc.shutdown(socket, Int32(SHUT_RDWR)) }
            open[socket]?.standsStillSince = isOrphan ? nil : since
            if !isOrphan { first = min(first ?? since, since) }
        }
        return first.map { $0 + Self.patience }
    }

    private typealias Name = (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32

    private static func localAddress(_ socket: Int32) -> IPAddress? {
        withName(of: socket, getsockname) { IPAddress($0) }
    }

    private static func port(_ socket: Int32, _ name: Name) -> Int32? {
        withName(of: socket, name) { address in
            // At the same place in the addresses of both families.
            address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                Int32(in_port_t(bigEndian: $0.pointee.sin_port))
            }
        }
    }

    private static func withName<Result>(
        of socket: Int32, _ name: Name, _ body: (UnsafePointer<sockaddr>) -> Result?
    ) -> Result? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                name(socket, $0, &length) == 0 ? body($0) : nil
            }
        }
    }

    /// IFF_UP and IFF_RUNNING of <net/if.h>, which are an enumeration in some headers and macros in others.
    private static let running: UInt32 = 0x1 | 0x40

    /// The machine's addresses, and those of links that are up.
    private static func ownAddresses() -> (all: Set<IPAddress>, working: Set<IPAddress>)? {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return nil }
        defer { freeifaddrs(first) }
        var (all, working) = (Set<IPAddress>(), Set<IPAddress>())
        var next = first
        while let entry = next {
            if let address = entry.pointee.ifa_addr.flatMap({ IPAddress($0) }) {
                all.insert(address)
                if entry.pointee.ifa_flags & Self.running == Self.running { working.insert(address) }
            }
            next = entry.pointee.ifa_next
        }
        return (all, working)
    }
}
