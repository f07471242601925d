extension CacheEvent {
    /// A set of topics of events. An event is built only if a sink wants one of its topics.
    public struct Topics: OptionSet, Sendable, Hashable {
        /// The bits of the set.
        public let rawValue: UInt16

        /// Creates a set from its bits.
        public init(rawValue: UInt16) {
            self.rawValue = rawValue
        }

        /// The begin and end of calls, and the jobs that calls join.
        public static let calls = Topics(rawValue: 1 << 0)
        /// The moves of jobs: queued, paused, promoted, demoted, parked, ended.
        public static let jobs = Topics(rawValue: 1 << 1)
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
        /// All topics.
        public static let all = Topics(rawValue: .max)
    }
}

extension CacheEvent.Kind {
    /// The topics of the event. A sink that wants one of them receives the event.
    public var topics: CacheEvent.Topics {
        switch self {
        case .callBegan, .callJoined, .callAnswered, .callFailed: .calls
        case .queued, .paused, .resumed, .queueChanged, .parked, .jobEnded: .jobs
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
