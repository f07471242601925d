import Foundation
import Logging

/// The tiers that keep bytes: memory, and below it the disk, if there is one.
final class DataStore: Sendable {
    let memory: MemoryTier<StoredData>
    let disk: DiskTier?
    private let readers: WorkerPool?
    private let defaults: StoreDefaults
    let now: @Sendable () -> Date

    init(memory: MemoryTier<StoredData>, disk: DiskTier?, defaults: StoreDefaults, now: @escaping @Sendable () -> Date)
    {
        self.memory = memory
        self.disk = disk
        self.defaults = defaults
        self.now = now
        readers = disk.map { WorkerPool(name: JoinableThread.name($0.options.name, "read"), threads: 2) }
    }

    // MARK: Reading

    /// Memory, then disk, on the caller's thread. What the disk had goes to memory.
    func peek(_ key: CacheKey) -> (value: StoredData, source: DataResponse.Source)? {
        if let value = memory.value(for: key) { return (value, .memory) }
        return readThrough(key).map { ($0, .disk) }
    }

    /// What the disk has; it goes to memory.
    func readThrough(_ key: CacheKey) -> StoredData? {
        guard let disk else { return nil }
        let changes = memory.changes(of: key)
        guard let record = disk.entry(for: key) else { return nil }
        warm(record, unlessChangedSince: changes)
        return record.value
    }

    /// Memory, then disk, on a reader's thread.
    func lookUp(
        _ key: CacheKey,
        _ answer: @escaping @Sendable ((value: StoredData, source: DataResponse.Source)?) -> Void
    ) {
        guard let readers, readers.run({ answer(self.peek(key)) }) else {
            answer(memory.value(for: key).map { ($0, .memory) })
            return
        }
    }

    func contains(_ key: CacheKey) -> Bool {
        memory.contains(key) || disk?.contains(key) == true
    }

    private func warm(_ record: EntryRecord, unlessChangedSince changes: UInt64) {
        let lifetime = Lifetime(
            defaults.memoryExpiration ?? .seconds(.infinity), extendedBy: defaults.memoryAccessExtension, now: now())
        // Memory does not hold what the disk would no longer give.
        let expires = min(
            lifetime.expires, record.lifetime.expires(accessedAt: now().timeIntervalSince1970))
        memory.insert(
            record.value, for: record.key, cost: record.value.cost(for: record.key),
            lifetime: Lifetime(expires: expires, accessExtension: lifetime.accessExtension),
            unlessChangedSince: changes)
    }

    // MARK: Changing

    /// Keeps a value in memory, and on disk if asked. `whenWritten` is called when the disk is done with it, also
    /// if it failed or was not asked.
    func add(
        _ value: StoredData, for key: CacheKey, request: DataRequest, onDisk: Bool,
        whenWritten: (@Sendable () -> Void)? = nil
    ) {
        let now = now()
        let diskExpiration = request.diskExpiration ?? defaults.diskExpiration
        let memoryExpiration = request.memoryExpiration ?? defaults.memoryExpiration ?? diskExpiration
        memory.insert(
            value, for: key, cost: value.cost(for: key),
            lifetime: Lifetime(
                memoryExpiration, extendedBy: request.memoryAccessExtension ?? defaults.memoryAccessExtension,
                now: now))
        let lifetime = Lifetime(
            diskExpiration, extendedBy: request.diskAccessExtension ?? defaults.diskAccessExtension, now: now)
        guard onDisk, let disk else {
            whenWritten?()
            return
        }
        if lifetime.isExpired(at: now.timeIntervalSince1970) {
            disk.remove(key)
            whenWritten?()
        } else {
            disk.write(EntryRecord(key: key, value: value, lifetime: lifetime), whenDone: whenWritten)
        }
    }

    func remove(_ key: CacheKey) {
        disk?.remove(key)
        memory.remove(key)
    }

    func shutdown() async {
        await readers?.shutdown()
        await disk?.shutdown()
    }
}

/// What holds for entries whose request says nothing.
struct StoreDefaults: Sendable {
    /// `nil` for the same as on disk.
    var memoryExpiration: Expiration?
    var diskExpiration: Expiration
    var memoryAccessExtension: AccessExtension
    var diskAccessExtension: AccessExtension
}
