import Synchronization

/// What a server has been asked for, in the order in which it was.
public final class RequestLog: Sendable {
    /// One request.
    public struct Entry: Sendable {
        /// Path and query, as they came.
        public let uri: String
        /// When its head was read.
        public let time: ContinuousClock.Instant
    }

    private struct State {
        var entries: [Entry] = []
        var counts: [String: Int] = [:]
    }

    private let state = Mutex(State())

    init() {}

    func add(_ uri: String) {
        let entry = Entry(uri: uri, time: .now)
        state.withLock { state in
            state.entries.append(entry)
            state.counts[uri, default: 0] += 1
        }
    }

    /// All requests so far.
    public var entries: [Entry] { state.withLock { $0.entries } }
    /// Their number.
    public var count: Int { state.withLock { $0.entries.count } }
    /// The most requests for one path with its query.
    public var mostForOnePath: Int { state.withLock { $0.counts.values.max() ?? 0 } }
}
