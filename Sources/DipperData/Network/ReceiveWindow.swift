import CCurl
import Foundation

/// The size of the receive buffer of a transfer in `slowQueue`.
///
/// After a transfer is paused, bytes keep arriving until the buffer is full. So the buffer's size decides how soon the
/// link is free for urgent work. The size begins near what a usual path holds, and grows only while growth makes the
/// transfer faster: where the window, not the link, is the limit. A value; the owner of the socket applies it.
struct ReceiveWindow: Sendable {
    /// The smallest size in bytes, as requested from the kernel, which adds about as many for its own bookkeeping.
    static let smallest = 128 << 10
    /// The largest size in bytes, as requested from the kernel.
    static let largest = 16 << 20

    private(set) var size: Int
    /// Whether the last growth is being tried.
    private var isProbing = false
    private var rateBefore = 0.0
    private var mark: (time: Double, bytes: Int)?
    /// The time before which no growth is tried.
    private var restsUntil = 0.0

    /// The size that has proved useful, without a growth that is only being tried.
    var proven: Int { isProbing ? size / 2 : size }

    init(_ size: Int = smallest) {
        self.size = size
    }

    /// Discards the running measurement, because the transfer was paused.
    mutating func interrupt() {
        mark = nil
    }

    /// Takes a measurement. Returns the new size if it changes.
    /// - Parameters:
    ///   - time: seconds since any fixed moment.
    ///   - bytes: the bytes received so far.
    ///   - roundTrip: the round trip of the path without a queue, in seconds.
    ///   - window: the number of bytes that the kernel lets the sender have in flight.
    mutating func measure(
        time: Double, bytes: Int, roundTrip: Double, window: @autoclosure () -> Int
    ) -> Int? {
        guard let start = mark else {
            mark = (time, bytes)
            return nil
        }
        let span = time - start.time
        // A growth takes effect only after the sender has filled the larger window.
        guard span >= max(roundTrip * (isProbing ? 4 : 2), 0.002) else { return nil }
        let rate = Double(bytes - start.bytes) / span
        mark = (time, bytes)
        if isProbing {
            isProbing = false
            guard rate < rateBefore * Self.worthwhile else { return grow(rate * roundTrip, rate, window()) }
            size /= 2
            restsUntil = time + Self.rest
            mark = nil
            return size
        }
        return time < restsUntil ? nil : grow(rate * roundTrip, rate, window())
    }

    private mutating func grow(_ underWay: Double, _ rate: Double, _ window: Int) -> Int? {
        guard size < Self.largest, underWay >= Double(window) * Self.full else { return nil }
        size *= 2
        rateBefore = rate
        isProbing = true
        mark = nil
        return size
    }

    /// The share of the window that must be in use for the window to count as the limit.
    private static let full = 0.9
    /// The factor in speed from which a larger window is kept.
    private static let worthwhile = 1.25
    /// The seconds without a new try after a growth that did not help.
    private static let rest = 5.0
}

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
