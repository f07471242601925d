extension CacheEvent {
    /// What a tier has removed by itself, or at a word that named no entry. Several processes that share a folder each
    /// tell of what they removed.
    public struct Cleaning: Sendable, Hashable {
        /// Where entries are kept.
        public enum Tier: String, Sendable, Hashable, CaseIterable {
            case memory, disk
        }

        /// Why entries went.
        public enum Reason: String, Sendable, Hashable, CaseIterable {
            /// Their time was over.
            case expired
            /// They were used longest ago, and a limit had to be kept, or the caller asked for less.
            case overLimit
            /// They were used longest ago, and memory got short.
            case memoryPressure
            /// They were older than ``DataCache/flush(olderThan:)`` leaves.
            case flushed
            /// All were to go.
            case cleared
        }

        /// Where they were kept.
        public let tier: Tier
        /// Why they went.
        public let reason: Reason
        /// How many, at least one.
        public let entries: Int
        /// How much they took there, in bytes.
        public let bytes: Int

        /// What was removed, for observers under test.
        public init(tier: Tier, reason: Reason, entries: Int, bytes: Int) {
            self.tier = tier
            self.reason = reason
            self.entries = entries
            self.bytes = bytes
        }
    }
}
