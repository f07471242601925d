import CCurl
import Foundation

/// The open sockets of a pool.
// libcurl's callbacks hold its address; the pool keeps it alive until libcurl has closed every socket.
@Loop
final class CurlSockets {
    private final class Socket {
        var wanted: UInt32 = 0
        var watched: UInt32 = 0
        var speaksHTTP1 = false
        var isLimited = false
        /// Known once a transfer has used the connection.
        var ports: Ports?
        /// When its link was first found down; `nil` while the link is up.
        var standsStillSince: ContinuousClock.Instant?
    }

    private var open: [Int32: Socket] = [:]

    nonisolated init() {}

    /// The events that the loop waits for on descriptors opened by libcurl itself.
    private var foreign: [Int32: UInt32] = [:]
    private static let patience = Duration.milliseconds(1_500)

    func add(_ socket: Int32) { open[socket] = Socket() }
    func remove(_ socket: Int32) { open[socket] = nil }

    /// An idle connection stays watched, which saves two system calls for each transfer.
    /// - Returns: the events that the loop has waited for; `nil` for no change.
    func wait(for events: UInt32, on socket: Int32) -> UInt32? {
        guard let state = open[socket] else {
            let old = foreign[socket] ?? 0
            foreign[socket] = events == 0 ? nil : events
            return old
        }
        state.wanted = events
        return events == 0 || events == state.watched ? nil : exchange(&state.watched, with: events)
    }

    /// Returns and forgets the events of a connection that libcurl does not use now: the server has closed it, or sends
    /// bytes that nobody reads. `nil` if libcurl uses it.
    func idleEvents(of socket: Int32) -> UInt32? {
        guard let state = open[socket], state.wanted == 0 else { return nil }
        return exchange(&state.watched, with: 0)
    }

    struct Ports: Sendable, Equatable {
        let local: Int32
        let peer: Int32
        let address: String
    }

    func socket(with ports: Ports) -> Int32? {
        for (socket, state) in open where state.ports == ports { return socket }
        let address = IPAddress(ports.address)?.unmapped
        for (socket, state) in open where state.ports == nil {
            guard let peer = Self.endpoint(of: socket, getpeername), peer.port == ports.peer, peer.address == address,
                Self.endpoint(of: socket, getsockname)?.port == ports.local
            else { continue }
            state.ports = ports
            return socket
        }
        return nil
    }

    /// Whether bytes have arrived without a request: over HTTP/1 a server sends nothing before the next request.
    func hasStrayInput(_ socket: Int32) -> Bool {
        open[socket]?.speaksHTTP1 == true && dipper_curl_has_input(socket) != 0
    }

    func note(_ socket: Int32, speaksHTTP1: Bool) { open[socket]?.speaksHTTP1 = speaksHTTP1 }

    /// The kernel no longer enlarges a fixed buffer.
    func limit(_ socket: Int32, to size: Int) {
        guard let state = open[socket] else { return }
        state.isLimited = true
        Self.set(socket, SOL_SOCKET, SO_RCVBUF, size)
        // A larger buffer alone does not raise the window that the connection began with.
        if size > ReceiveWindow.smallest { Self.set(socket, Int32(IPPROTO_TCP), TCP_WINDOW_CLAMP, size + size / 4) }
    }

    func unlimit(_ socket: Int32) {
        guard let state = open[socket], exchange(&state.isLimited, with: false) else { return }
        if Self.set(socket, SOL_SOCKET, DIPPER_SO_BUF_LOCK, 0) { return }
        // Before Linux 5.14 there is no SO_BUF_LOCK: the buffer gets the largest size that the kernel allows.
        Self.set(socket, SOL_SOCKET, SO_RCVBUF, ReceiveWindow.largest)
    }

    @discardableResult
    private nonisolated static func set(_ socket: Int32, _ level: Int32, _ option: Int32, _ number: Int) -> Bool {
        var number = Int32(clamping: number)
        return setsockopt(socket, level, option, &number, socklen_t(MemoryLayout<Int32>.size)) == 0
    }

    static func roundTrip(_ socket: Int32) -> Double? {
        info(socket).flatMap { $0.tcpi_rtt > 0 ? Double($0.tcpi_rtt) * 1e-6 : nil }
    }

    /// About how many bytes the sender may have in flight.
    static func window(_ socket: Int32) -> Int? { info(socket).map { Int($0.tcpi_rcv_ssthresh) } }

    private nonisolated static func info(_ socket: Int32) -> tcp_info? {
        var info = tcp_info()
        var length = socklen_t(MemoryLayout<tcp_info>.size)
        return getsockopt(socket, Int32(IPPROTO_TCP), TCP_INFO, &info, &length) == 0 ? info : nil
    }

    static func isLoopback(_ socket: Int32) -> Bool { endpoint(of: socket, getsockname)?.address.isLoopback ?? false }

    /// Shuts down connections whose local address the machine has lost, or whose link has been down for ``patience``.
    /// - Returns: when to check again; `nil` if no other link is down.
    func dropOrphans() -> ContinuousClock.Instant? {
        guard let (addresses, working) = Self.ownAddresses() else { return nil }
        var first: ContinuousClock.Instant?
        for (socket, state) in open {
            guard let address = Self.endpoint(of: socket, getsockname)?.address,
                !address.isLoopback, !address.isUnspecified, !working.contains(address)
            else {
                state.standsStillSince = nil
                continue
            }
            let since = state.standsStillSince ?? .now
            let isOrphan = !addresses.contains(address) || .now - since >= Self.patience
            if isOrphan { Glibc.shutdown(socket, Int32(SHUT_RDWR)) }
            state.standsStillSince = isOrphan ? nil : since
            if !isOrphan { first = min(first ?? since, since) }
        }
        return first.map { $0 + Self.patience }
    }

    private typealias Name = (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32

    private nonisolated static func endpoint(of socket: Int32, _ name: Name) -> (address: IPAddress, port: Int32)? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { found -> (address: IPAddress, port: Int32)? in
                guard name(socket, found, &length) == 0, let address = IPAddress(found) else { return nil }
                // The port is at the same place in both families.
                let port = found.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee.sin_port }
                return (address, Int32(in_port_t(bigEndian: port)))
            }
        }
    }

    /// IFF_UP and IFF_RUNNING of <net/if.h>, enumerators in some headers and macros in others.
    private nonisolated static let running: UInt32 = 0x1 | 0x40

    private nonisolated static func ownAddresses() -> (all: Set<IPAddress>, working: Set<IPAddress>)? {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0, let list = first else { return nil }
        defer { freeifaddrs(list) }
        var (all, working) = (Set<IPAddress>(), Set<IPAddress>())
        for entry in sequence(first: list, next: { $0.pointee.ifa_next }) {
            guard let address = entry.pointee.ifa_addr.flatMap({ IPAddress($0) }) else { continue }
            all.insert(address)
            if entry.pointee.ifa_flags & Self.running == Self.running { working.insert(address) }
        }
        return (all, working)
    }
}

/// The receive buffer of a transfer in `slowQueue`.
///
/// After a transfer is paused, bytes arrive until the buffer is full, so its size decides how soon the link is free. It
/// begins near what a usual path holds, and grows only while that makes the transfer faster.
@Loop
struct ReceiveWindow {
    struct Path {
        var size: Int
        /// In seconds, of the path without a queue; `nil` if not measured.
        var roundTrip: Double?
    }

    /// In bytes, as requested; the kernel adds about as many for itself.
    static let smallest = 128 << 10
    static let largest = 16 << 20
    private static let mostPaths = 1_000
    /// The used share of the window from which the window counts as the limit.
    private static let full = 0.9
    private static let worthwhile = 1.25
    /// The time without a try after a growth that did not help.
    private static let rest = Duration.seconds(5)

    private let socket: Int32
    private let host: String
    // The pool outlives its transfers.
    private unowned let pool: CurlPool
    private let roundTrip: Double?
    private var size: Int
    private var isProbing = false
    private var rateBefore = 0.0
    private var mark: (time: ContinuousClock.Instant, bytes: Int)?
    private var restsUntil = ContinuousClock.now

    init(_ socket: Int32, to host: String, pool: CurlPool) {
        self.socket = socket
        self.host = host
        self.pool = pool
        let path = pool.paths[host]
        size = path?.size ?? Self.smallest
        // The shortest one seen has no queue.
        roundTrip = [path?.roundTrip, CurlSockets.roundTrip(socket)].compactMap { $0 }.min()
        pool.sockets.limit(socket, to: size)
        remember()
    }

    mutating func interrupt() { mark = nil }

    mutating func measure(_ handle: UnsafeMutableRawPointer) {
        guard let roundTrip else { return }
        let time = ContinuousClock.now
        let bytes = Int(dipper_curl_off(handle, CURLINFO_SIZE_DOWNLOAD_T))
        guard let start = mark else {
            mark = (time, bytes)
            return
        }
        let span = (time - start.time).timeInterval
        // A growth takes effect after the sender has filled the larger window.
        guard span >= max(roundTrip * (isProbing ? 4 : 2), 0.002) else { return }
        let rate = Double(bytes - start.bytes) / span
        mark = (time, bytes)
        if exchange(&isProbing, with: false) {
            guard rate >= rateBefore * Self.worthwhile else {
                restsUntil = time + Self.rest
                return change(to: size / 2)
            }
            remember()
        }
        guard time >= restsUntil, size < Self.largest else { return }
        let window = CurlSockets.window(socket) ?? .max
        if rate * roundTrip >= Double(window) * Self.full {
            rateBefore = rate
            isProbing = true
            change(to: size * 2)
        }
    }

    private mutating func change(to size: Int) {
        self.size = size
        mark = nil
        pool.sockets.limit(socket, to: size)
    }

    private func remember() {
        if pool.paths.count > Self.mostPaths { pool.paths = [:] }
        pool.paths[host] = Path(size: size, roundTrip: roundTrip)
    }
}
