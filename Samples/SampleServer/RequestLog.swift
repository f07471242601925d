import Synchronization

/// A log of the requests to a server, in order of arrival.
public final class RequestLog: Sendable {
    /// A request in the log.
    public struct Entry: Sendable {
        /// Path and query as the client sent them.
        public let uri: String
        /// The time at which the server read the request's head.
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
    /// The number of requests so far.
    public var count: Int { state.withLock { $0.entries.count } }
    /// The largest number of requests for the same path and query.
    public var mostForOnePath: Int { state.withLock { $0.counts.values.max() ?? 0 } }
}
