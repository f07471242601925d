/// A listener to the changes of a store.
final class StoreListener: Sendable {
    /// Called with the key of each entry that takes the place of an earlier one, outside of locks.
    let replaced: @Sendable (CacheKey) -> Void

    init(_ replaced: @escaping @Sendable (CacheKey) -> Void) {
        self.replaced = replaced
    }
}

/// The options of entries whose request has none of its own.
struct StoreDefaults: Sendable {
    /// `nil` if entries expire in memory as on disk.
    var memoryExpiration: Expiration?
    /// `nil` if the freshness policy decides.
    var diskExpiration: Expiration?
    var memoryAccessExtension: AccessExtension
    var diskAccessExtension: AccessExtension
}
