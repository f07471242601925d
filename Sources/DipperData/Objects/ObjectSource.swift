import Foundation

/// The interface of a data cache that an ``ObjectCache`` uses for bytes.
package protocol ObjectSource: AnyObject, Sendable {
    /// Starts a call for the bytes of a request.
    func fetch(_ request: DataRequest, _ queue: FetchQueue) -> DataTask
    /// Returns how a request may use an object made from an answer.
    func use(of info: EntryInfo, for request: DataRequest) -> StoredUse
    /// Returns whether an object made from an answer may be kept.
    func mayKeep(_ info: EntryInfo, for request: DataRequest) -> Bool
    /// Returns how long an object made from an answer is kept in memory.
    func memoryLifetime(of request: DataRequest, madeOf info: EntryInfo) -> Lifetime
    /// Creates the right to keep what is made from the bytes of a key. Removals of the bytes revoke it.
    func claim(_ key: CacheKey) -> Claim?
    /// Returns the bytes of a request without the network, on the caller's thread.
    func peek(_ key: CacheKey, for request: DataRequest) -> StoredData?
    /// The disk; `nil` if the data cache has none.
    var forms: (any FormStore)? { get }
    /// The hub that is told of decodes and steps.
    var events: EventHub { get }
}

/// The disk of a data cache, as the place of the stored forms of objects.
package protocol FormStore: AnyObject, Sendable {
    /// Creates a reservation that holds prefetches back until it is known whether an urgent call fetches.
    func reserve() -> FastReservation
    /// Returns whether a call waits until its entry is on disk.
    func waitsForDisk(_ request: DataRequest) -> Bool
    /// Finds out whether there is an entry, in the order of urgency.
    /// - Returns: the look-up; `nil` if it has been answered.
    func find(_ key: CacheKey, _ place: Workers.Place, _ answer: @escaping @Sendable (Bool) -> Void) -> Workers.Ticket?
    /// Reads an entry, in the order of urgency.
    /// - Returns: the look-up; `nil` if it has been answered.
    func read(
        _ key: CacheKey, _ place: Workers.Place, _ answer: @escaping @Sendable (StoredData?) -> Void
    ) -> Workers.Ticket?
    /// Returns whether there is an entry.
    func has(_ key: CacheKey) -> Bool
    /// Keeps the stored form of an object that was made from an answer.
    /// - Parameter whenWritten: called once, with whether it is on disk.
    func keep(
        _ form: Data, for key: CacheKey, madeOf info: EntryInfo, digest: UInt64, _ request: DataRequest,
        whenWritten: (@Sendable (_ isOnDisk: Bool) -> Void)?)
    /// Keeps an entry that the program adds.
    func add(_ data: Data, for request: DataRequest) throws(DipperError)
    func remove(_ key: CacheKey, from tiers: CacheTiers)
    /// Removes the stored forms of all objects that were made from an entry.
    func removeDerived(of key: CacheKey)
}
