import Synchronization

extension CacheEvent {
    /// The identifier of a piece of work, unique in the process and never reused.
    public struct ID: Sendable, Hashable, CustomStringConvertible {
        /// The number of the piece of work. Later work has higher numbers.
        public let number: UInt64

        private static let count = Atomic<UInt64>(0)

        /// Creates an identifier, for tests of sinks.
        public init(_ number: UInt64) {
            self.number = number
        }

        /// Makes the identifier of a new piece of work.
        static func next() -> ID { ID(count.add(1, ordering: .relaxed).newValue) }

        /// The number, with a number sign before it.
        public var description: String { "#\(number)" }
    }
}
