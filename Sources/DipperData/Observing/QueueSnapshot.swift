/// The fetches of a cache at one moment, with the reasons for which they wait; see ``DataCache/queueSnapshot(limit:)``.
public struct QueueSnapshot: Sendable, Hashable {
    /// The time since the cache was created, on the cache's clock, as in ``CacheEvent/time``.
    public internal(set) var time = Duration.zero
    /// The fetches: those that run, then those that wait in the order in which they will start, then parked ones.
    /// Urgent ones come first.
    public internal(set) var fetches: [FetchSnapshot] = []
    /// The numbers of all fetches, also of those that ``fetches`` leaves out because of its limit.
    public internal(set) var counts = QueueCounts()
    /// The bytes of bodies that all fetches together hold in memory; see ``DataCache/Configuration/inFlightLimit``.
    public internal(set) var bytesInFlight = 0
}

/// A fetch at one moment.
public struct FetchSnapshot: Sendable, Hashable, CustomStringConvertible {
    /// The identifier of the fetch in the events of its cache.
    public let id: CacheEvent.ID
    /// The key that is fetched.
    public let key: CacheKey
    /// The queue that the fetch is in.
    public let queue: FetchQueue
    /// The number that orders the fetch inside its queue.
    public let priority: Priority
    /// The state of the fetch: waiting, transferring, paused or parked.
    public let state: TaskState
    /// The reason for which no bytes are being transferred; `nil` if they are.
    public let wait: Wait?
    /// The number of calls that wait for the fetch.
    public let callers: Int
    /// The number of attempts that have begun.
    public let attempts: Int
    /// The progress of the transfer; `nil` before its first byte.
    public let progress: TaskProgress?
    /// The failure of the latest attempt; `nil` if none has failed.
    public let failure: DipperError?

    /// The key without secrets, the queue, and the reason for a wait.
    public var description: String { "\(key) in \(queue.rawValue)Queue: \(wait.map { "\($0)" } ?? "transferring")" }

    /// The reason for which a fetch waits.
    public enum Wait: Sendable, Hashable, CustomStringConvertible {
        /// The disk and the tiers below are being asked for the entry.
        case lookUp
        /// Other fetches of the queue start first, or the fetch starts at once.
        case turn
        /// All slots of the queue are taken: this number of them.
        case slots(Int)
        /// The host has as many running fetches as it may have: this number of them.
        case host(Int)
        /// This number of urgent fetches wait or run.
        case urgentWork(Int)
        /// The program has suspended the queue (``QueueConfiguration/isSuspended``).
        case suspended
        /// The decoders have as many pictures as they can hold.
        case decoding
        /// The disk has more to write than it may hold back.
        case storage
        /// The bodies of fetches have all the memory that they may have (``DataCache/Configuration/inFlightLimit``).
        case memory
        /// A source has its turn, and a connection or a provider has not been asked yet.
        case request
        /// The host cannot be reached, or may not be used in the network's conditions, since this time.
        case network(since: Duration)
        /// The next attempt begins after this time.
        case backOff(Duration)
        /// The server has asked for a pause of this length, and the next attempt begins after the time `left`.
        case retryAfter(Duration, left: Duration)
        /// Another cache or process, which shares what it keeps, fetches the key; see ``DataCache/Configuration/leases``.
        case elsewhere
        /// A retry rule of the program is being asked.
        case retryRule

        /// The reason as a sentence's end, such as `waits for 3 urgent fetches`.
        public var description: String {
            switch self {
            case .lookUp: "looks in the cache"
            case .turn: "waits for its turn"
            case .slots(let count): "waits for a slot: \(Self.count(count, "fetch")) \(count == 1 ? "runs" : "run")"
            case .host(let count):
                "waits for its host: \(Self.count(count, "fetch")) of it \(count == 1 ? "runs" : "run")"
            case .urgentWork(let count):
                count > 0 ? "waits for \(Self.count(count, "urgent fetch"))" : "waits for urgent calls"
            case .suspended: "the queue is suspended"
            case .decoding: "waits for pictures to be decoded"
            case .storage: "waits for the disk to write"
            case .memory: "waits for memory that other bodies hold"
            case .request: "is about to ask its source"
            case .network(let time): "offline for \(Self.text(time))"
            case .backOff(let left): "back-off, \(Self.text(left)) left"
            case .retryAfter(let asked, let left):
                "the server says Retry-After \(Self.text(asked)), \(Self.text(left)) left"
            case .elsewhere: "another process fetches it"
            case .retryRule: "asks the program whether to retry"
            }
        }

        private static func count(_ count: Int, _ name: String) -> String {
            "\(count) \(name)\(count == 1 ? "" : "es")"
        }

        private static func text(_ time: Duration) -> String {
            "\(max(0, Int((time / .seconds(1)).rounded(.up)))) s"
        }
    }
}
