extension CacheEvent {
    /// A removal of entries by a tier itself, or by a call that named no single entry. If several processes share a
    /// folder, each reports the entries that it removed.
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
}
