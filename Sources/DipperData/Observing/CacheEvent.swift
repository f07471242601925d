import Synchronization

/// An event in the work of a cache.
///
/// Calls, fetches, look-ups, attempts, decodes, processing steps and writes begin and end. All events of one piece of
/// work have the same identifier, and ``parent`` is the piece of work that it belongs to: a look-up, an attempt and a
/// write belong to a fetch; a decode, a step and the write of what they have made to the call that brought the bytes.
/// Many calls may wait for one fetch: ``Kind/callJoined(fetch:)`` links each of them to the fetch.
///
/// No text of an event holds a secret.
///
/// ```swift
/// for await event in cache.events {
///     if case .callFailed(let error) = event.kind { print(event.time, event.key, error) }
/// }
/// ```
public struct CacheEvent: Sendable, CustomStringConvertible {
    /// The time since the cache was created, on the cache's clock.
    public let time: Duration
    /// The key that the event concerns; empty for an event of the cache as a whole.
    public let key: CacheKey
    /// The identifier of the piece of work that the event belongs to; `nil` for an event of the cache as a whole.
    public let id: ID?
    /// The identifier of the larger piece of work that this one belongs to; `nil` if there is none.
    public let parent: ID?
    /// The kind of the event.
    public let kind: Kind

    /// Creates an event, for tests of sinks.
    public init(time: Duration, key: CacheKey, id: ID? = nil, parent: ID? = nil, kind: Kind) {
        self.time = time
        self.key = key
        self.id = id
        self.parent = parent
        self.kind = kind
    }

    /// The time, the kind, the identifiers, and the key without secrets.
    public var description: String {
        let number = id.map { " \($0)" } ?? ""
        let owner = parent.map { " of \($0)" } ?? ""
        return "\(time) \(kind)\(number)\(owner) \(key)"
    }

    /// The identifier of a piece of work, unique in the process and never reused.
    public struct ID: Sendable, Hashable, CustomStringConvertible {
        /// The number of the piece of work. Later work has higher numbers.
        public let number: UInt64

        private static let count = Atomic<UInt64>(0)

        /// Creates an identifier, for tests of sinks.
        public init(_ number: UInt64) {
            self.number = number
        }

        static func next() -> ID { ID(count.add(1, ordering: .relaxed).newValue) }

        /// The number, with a number sign before it.
        public var description: String { "#\(number)" }
    }

    /// The kind of an event.
    public enum Kind: Sendable, Hashable {
        // MARK: Calls

        /// A call was made in this queue.
        case callBegan(FetchQueue)
        /// A call joined this fetch. A call that turns to a smaller source joins a second fetch.
        case callJoined(fetch: ID)
        /// A call ended with an answer.
        case callAnswered(ResponseSource)
        /// A call ended with an error.
        case callFailed(DipperError)

        // MARK: Fetches

        /// A fetch began in this queue, before the first call joins it.
        case fetchBegan(FetchQueue)
        /// A fetch waits in this queue.
        case queued(FetchQueue)
        /// A running fetch is held back for urgent work.
        case paused
        /// A fetch that was held back continues.
        case resumed
        /// A fetch was promoted or demoted to this queue.
        case queueChanged(FetchQueue)
        /// A fetch waits for the network, for a back-off or for another process.
        case parked
        /// A fetch ended; no call waits for it any more.
        case fetchEnded

        // MARK: Look-ups

        /// A fetch in this queue asks the disk tier and the tiers below.
        case lookUpBegan(FetchQueue)
        /// A look-up ended with an entry of this source; with `nil` if there is none, or if no call waits any more.
        case lookUpEnded(ResponseSource?)

        // MARK: Attempts

        /// A fetch in this queue has its turn to transfer bytes.
        case attemptBegan(FetchQueue)
        /// A request of an attempt was sent over the network. An attempt may need several because of redirects.
        case requested
        /// The network has answered a request of an attempt, with a body of this size in bytes.
        case received(status: Int, bytes: Int, metrics: TransferMetrics)
        /// An attempt ended.
        case attemptEnded(AttemptEnd)

        // MARK: Objects

        /// The decoding of bytes began.
        case decodeBegan
        /// The decoding of bytes ended, with an error if it failed.
        case decodeEnded(DipperError?)
        /// A processing step with this identifier began.
        case stepBegan(String)
        /// A processing step ended, with an error if it failed.
        case stepEnded(DipperError?)

        // MARK: Tiers

        /// An entry with a body of this size, in bytes, waits to be written to disk.
        case writeBegan(bytes: Int)
        /// The write of an entry ended. The entry is not on disk if the write failed or the entry was removed.
        case writeEnded(isOnDisk: Bool)
        /// A tier removed entries by itself, or for a call that named no single entry. The event belongs to no key.
        case cleaned(Cleaning)

        // MARK: Conditions

        /// Some hosts may have become reachable or unreachable, or the network constrained.
        case networkChanged
        /// The memory pressure has this level now.
        case memoryPressure(MemoryPressure)

        // MARK: Listening

        /// A listener of ``DataCache/events`` was too slow and missed this number of events; it alone is told.
        case missed(Int)

        static func callEnded(_ result: Result<ResponseSource, DipperError>) -> Kind {
            switch result {
            case .success(let source): .callAnswered(source)
            case .failure(let error): .callFailed(error)
            }
        }

        /// The topics of the event. A sink that wants one of them receives the event.
        public var topics: CacheEvent.Topics {
            switch self {
            case .callBegan, .callJoined, .callAnswered, .callFailed: .calls
            case .fetchBegan, .queued, .paused, .resumed, .queueChanged, .parked, .fetchEnded: .fetches
            case .lookUpBegan, .lookUpEnded: .lookUps
            case .attemptEnded(.failed): [.attempts, .failures]
            case .attemptBegan, .attemptEnded: .attempts
            case .requested, .received: .requests
            case .decodeEnded(.some), .stepEnded(.some): [.objects, .failures]
            case .decodeBegan, .decodeEnded, .stepBegan, .stepEnded: .objects
            case .writeBegan, .writeEnded: .writes
            case .cleaned(let cleaning) where cleaning.reason == .memoryPressure: [.removals, .conditions]
            case .cleaned: .removals
            case .networkChanged, .memoryPressure: .conditions
            case .missed: .all
            }
        }
    }

    /// The way in which an attempt ended.
    public enum AttemptEnd: Sendable, Hashable {
        /// The attempt brought an answer, or found that another call had brought it meanwhile.
        case answered(ResponseSource)
        /// The attempt failed. With `willRetry` the fetch tries again.
        case failed(DipperError, willRetry: Bool)
        /// No call waits for the attempt any more, or the fetch has to wait for its turn again.
        case stopped
    }

    /// A removal of entries by a tier itself, or by a call that named no single entry. Each process reports its own.
    ///
    /// ```swift
    /// for await event in cache.events(about: .removals) {
    ///     if case .cleaned(let cleaning) = event.kind { print(cleaning.tier, cleaning.reason, cleaning.bytes) }
    /// }
    /// ```
    public struct Cleaning: Sendable, Hashable {
        /// The tier that entries are kept in.
        public enum TierName: String, Sendable, Hashable, CaseIterable {
            case memory, disk
        }

        /// The reason for a removal.
        public enum Reason: String, Sendable, Hashable, CaseIterable {
            /// The entries had expired.
            case expired
            /// The entries were those used longest ago, and a limit was exceeded or the caller asked for less.
            case overLimit
            /// The entries were those used longest ago, and memory got short.
            case memoryPressure
            /// The entries were older than a call of ``DataCache/flush(olderThan:)`` leaves.
            case flushed
            /// All entries were removed.
            case cleared
        }

        /// The tier that kept the entries.
        public let tier: TierName
        /// The reason for the removal.
        public let reason: Reason
        /// The number of entries, at least one.
        public let entries: Int
        /// The size of the entries in the tier, in bytes.
        public let bytes: Int

        /// Creates a removal, for tests of sinks.
        public init(tier: TierName, reason: Reason, entries: Int, bytes: Int) {
            self.tier = tier
            self.reason = reason
            self.entries = entries
            self.bytes = bytes
        }
    }

    /// A set of topics of events. An event is built only if a sink wants one of its topics.
    public struct Topics: OptionSet, Sendable, Hashable {
        /// The bits of the set.
        public let rawValue: UInt16

        /// Creates a set from its bits.
        public init(rawValue: UInt16) {
            self.rawValue = rawValue
        }

        /// The begin and end of calls, and the fetches that calls join.
        public static let calls = Topics(rawValue: 1 << 0)
        /// The begin and end of fetches, and their moves: queued, paused, promoted, demoted, parked.
        public static let fetches = Topics(rawValue: 1 << 1)
        /// The begin and end of look-ups on disk and in the tiers below.
        public static let lookUps = Topics(rawValue: 1 << 2)
        /// The begin and end of attempts.
        public static let attempts = Topics(rawValue: 1 << 3)
        /// The requests sent over the network and their answers.
        public static let requests = Topics(rawValue: 1 << 4)
        /// The begin and end of decodes and processing steps.
        public static let objects = Topics(rawValue: 1 << 5)
        /// The begin and end of writes to disk.
        public static let writes = Topics(rawValue: 1 << 6)
        /// The removals of entries by the tiers.
        public static let removals = Topics(rawValue: 1 << 7)
        /// The changes of the network and of the memory pressure, and removals for memory pressure.
        public static let conditions = Topics(rawValue: 1 << 8)
        /// The failures of attempts and decodes.
        public static let failures = Topics(rawValue: 1 << 9)
        /// The calls for objects, and the work that calls cause and join, for a ``CallTracer`` alone.
        static let traces = Topics(rawValue: 1 << 10)
        /// All topics.
        public static let all = Topics(rawValue: .max)
    }
}
