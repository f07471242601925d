import CCurl
import Foundation

/// The receive window of one slow transfer: small enough to free the link soon, large enough to fill it.
struct SlowFlow {
    private let socket: Int32
    private let host: String
    // The pool outlives the flows of its transfers.
    private unowned let pool: CurlPool
    private var window: ReceiveWindow
    private var roundTrip: Double?

    init(_ socket: Int32, to host: String, pool: CurlPool) {
        self.socket = socket
        self.host = host
        self.pool = pool
        let path = pool.paths[host]
        window = ReceiveWindow(path?.window ?? ReceiveWindow.smallest)
        // The shortest round trip seen is that of a path without a queue.
        roundTrip = [path?.roundTrip, CurlSockets.roundTrip(socket)].compactMap { $0 }.min()
        pool.sockets.limit(socket, to: window.size)
        remember()
    }

    mutating func interrupt() { window.interrupt() }

    mutating func measure(_ handle: UnsafeMutableRawPointer) {
        guard let roundTrip else { return }
        var received: curl_off_t = 0
        _ = dipper_curl_get_off(handle, CURLINFO_SIZE_DOWNLOAD_T, &received)
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let seconds = Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
        let before = window.proven
        defer { if window.proven != before { remember() } }
        guard
            let size = window.measure(
                time: seconds, bytes: Int(received), roundTrip: roundTrip, window: CurlSockets.window(socket) ?? .max)
        else { return }
        pool.sockets.limit(socket, to: size)
    }

    private func remember() {
        if pool.paths.count > 1_000 { pool.paths = [:] }
        pool.paths[host] = .init(window: window.proven, roundTrip: roundTrip)
    }
}

/// The properties of the path to a host that a pool has measured.
struct NetworkPath: Sendable {
    /// The size of the receive buffer that proved useful, in bytes.
    var window: Int
    /// The round trip without a queue, in seconds; `nil` if it has not been measured.
    var roundTrip: Double?
}
