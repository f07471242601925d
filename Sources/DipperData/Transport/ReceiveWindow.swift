/// How large a receive buffer a transfer of `slowQueue` has.
///
/// What the kernel may take in goes on arriving after a transfer has been paused, so the buffer decides how soon the
/// link is free for urgent work. It begins near what a usual path holds, and grows only while that makes the transfer
/// faster: where the window and not the link is the limit. A value; whoever owns the socket carries it out.
struct ReceiveWindow: Sendable {
    /// Bytes asked of the kernel, which takes about as many for its own purposes on top.
    static let smallest = 128 << 10
    static let largest = 16 << 20

    private(set) var size: Int
    /// The transfer was faster with each growth so far.
    private var isProbing = false
    private var rateBefore = 0.0
    private var mark: (time: Double, bytes: Int)?
    /// No growth is tried before this time.
    private var restsUntil = 0.0

    /// The size that has proved itself: not one that is only being tried.
    var proven: Int { isProbing ? size / 2 : size }

    init(_ size: Int = smallest) {
        self.size = size
    }

    /// The transfer stood still: what was measured so far says nothing.
    mutating func interrupt() {
        mark = nil
    }

    /// Takes a measurement; the new size, if it is to change.
    /// - Parameters:
    ///   - time: seconds from any fixed moment.
    ///   - bytes: received so far.
    ///   - roundTrip: of the path without a queue, in seconds.
    ///   - window: what the kernel lets the sender have under way, in bytes.
    mutating func measure(
        time: Double, bytes: Int, roundTrip: Double, window: @autoclosure () -> Int
    ) -> Int? {
        guard let start = mark else {
            mark = (time, bytes)
            return nil
        }
        let span = time - start.time
        // What a change brings shows when the sender has grown into it.
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

    /// The share of the window that must be in use for the window to be the limit.
    private static let full = 0.9
    /// The gain for which a larger window is kept.
    private static let worthwhile = 1.25
    private static let rest = 5.0
}
