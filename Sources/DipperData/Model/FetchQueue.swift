/// The queue of a call, which says how soon its result is needed. The cases are in the order of urgency.
public enum FetchQueue: String, Sendable, Hashable, CaseIterable {
    /// `fastQueue`, for calls whose result someone waits for: fetches run at once, many at a time.
    case fast
    /// `slowQueue`, for prefetches: by default one at a time, and only while no fetch waits or runs in ``fast``.
    case slow
}

/// The limits and the order of one queue. They can be changed while the cache is running.
///
/// ```swift
/// cache.fastQueue.order = .lifo           // the row that came into view last is fetched first
/// cache.fastQueue.maxConcurrent = 4
/// ```
public struct QueueConfiguration: Sendable, Hashable {
    /// The order of fetches of equal priority.
    public enum Order: Sendable, Hashable {
        /// The fetch that has waited longest starts first (first in, first out).
        case fifo
        /// The fetch that was asked for last starts first (last in, first out), as fits a list that is being scrolled.
        case lifo
    }

    /// The largest number of fetches that run at a time; at least 1. Lowering it stops no running fetch. Local sources
    /// do not count; see ``DataProvider/isLocal``. Another number than that of ``fast`` takes away the limit per host
    /// that belongs to it.
    public var maxConcurrent: Int {
        didSet {
            let usual = Self.fast
            let isOther = oldValue == usual.maxConcurrent && maxConcurrent != oldValue
            if isOther, maxPerHost == usual.maxPerHost { maxPerHost = nil }
        }
    }
    /// The largest number of running fetches for one host; `nil` for no limit per host.
    public var maxPerHost: Int?
    /// The order in which fetches of equal priority start: ``Order/fifo``, the default, or ``Order/lifo``.
    public var order: Order
    /// Whether the queue is suspended: no fetch starts. Running fetches go on, and the tiers still answer calls.
    public var isSuspended: Bool
    /// The longest time that work in `fastQueue` may hold `slowQueue` up before one slow fetch runs beside the urgent
    /// ones; `nil`, the default, for no limit. Without effect on `fastQueue`.
    public var maxPause: Duration?
    /// Whether fetches of the queue may use a network that is constrained or expensive (see ``NetworkConditions``); `true`
    /// by default. If not, they wait for another one; see ``DataRequest/allowsConstrainedNetwork``.
    public var allowsConstrainedNetwork = true
    /// Whether no more fetches run than keep the link busy, up to ``maxConcurrent``; `false` by default. See
    /// ``fillsLink(upTo:)``.
    public var fillsLink = false

    /// Creates a configuration.
    public init(
        maxConcurrent: Int, maxPerHost: Int? = nil, order: Order = .fifo, isSuspended: Bool = false,
        maxPause: Duration? = nil
    ) {
        self.maxConcurrent = maxConcurrent
        self.maxPerHost = maxPerHost
        self.order = order
        self.isSuspended = isSuspended
        self.maxPause = maxPause
    }

    /// The default of `fastQueue`: ten fetches at a time, of which eight for one host, so that no host takes all slots.
    public static let fast = QueueConfiguration(maxConcurrent: 10, maxPerHost: 8)
    /// The default of `slowQueue`: one fetch at a time.
    public static let slow = QueueConfiguration(maxConcurrent: 1)

    /// A configuration for `slowQueue` that keeps an idle link busy with small files.
    ///
    /// One fetch at a time leaves the link idle while it waits for each answer. With this configuration the queue learns
    /// from its latest fetches how long an answer takes to begin and how long a body takes to arrive, and runs as few
    /// fetches as use nine tenths of the link: one on a slow link with large files, several on a fast link with a long
    /// delay. All of them are throttled as soon as urgent work reaches the network.
    ///
    /// ```swift
    /// configuration.slowQueue = .fillsLink(upTo: 6)
    /// ```
    /// - Parameter most: the largest number of fetches that run at a time; at least 1.
    public static func fillsLink(upTo most: Int) -> QueueConfiguration {
        var configuration = QueueConfiguration(maxConcurrent: most)
        configuration.fillsLink = true
        return configuration
    }
}

/// The numbers of fetches in the queues, by what the fetches are doing. All are zero when the cache is idle.
public struct QueueCounts: Sendable, Hashable {
    /// The number of urgent fetches that are looked up on disk or wait for a slot.
    public var fastWaiting = 0
    /// The number of urgent fetches that hold a slot.
    public var fastRunning = 0
    /// The number of prefetches that wait for a slot, or that were urgent and are still looked up on disk.
    public var slowWaiting = 0
    /// The number of prefetches that hold a slot, paused ones included.
    public var slowRunning = 0
    /// The number of fetches that wait for the network, a back-off or the answer of a retry rule.
    public var parked = 0

    /// Creates counts.
    public init(
        fastWaiting: Int = 0, fastRunning: Int = 0, slowWaiting: Int = 0, slowRunning: Int = 0, parked: Int = 0
    ) {
        self.fastWaiting = fastWaiting
        self.fastRunning = fastRunning
        self.slowWaiting = slowWaiting
        self.slowRunning = slowRunning
        self.parked = parked
    }
}

/// The progress of a transfer.
public struct TaskProgress: Sendable, Hashable {
    /// Bytes of the body received so far.
    public let received: Int
    /// The length of the body in bytes; `nil` if the server has not announced it.
    public let expected: Int?

    /// Creates the progress of a transfer.
    public init(received: Int, expected: Int?) {
        self.received = received
        self.expected = expected
    }

    /// The received part of the body, from 0 to 1; zero as long as the length is not known.
    public var fraction: Double {
        guard let expected, expected > 0 else { return 0 }
        return min(1, Double(received) / Double(expected))
    }
}

/// The state of a task, for bytes, a picture or a typed value.
public enum TaskState: Sendable, Hashable {
    /// The task is in its queue, or the cache is looking for its entry on disk.
    case waiting
    /// The bytes are arriving.
    case transferring
    /// The transfer is held back for more urgent work.
    case paused
    /// The task waits for the network, for a back-off or for the fetch of another process.
    case parked
    /// The bytes are there, and a picture or value is being made of them, or waits for that.
    case decoding
    /// The task has ended with a result.
    case finished
    /// The task has ended with an error.
    case failed(DipperError)

    init<Response>(after outcome: Result<Response, DipperError>) {
        self =
            switch outcome {
            case .success: .finished
            case .failure(let error): .failed(error)
            }
    }
}
