import Foundation

/// The interface of a data cache for caches of what is made from its bytes. It does not keep the data cache alive.
package final class DataCacheSource: ObjectSource, FormStore {
    private weak let cache: DataCache?
    private let store: DataStore
    private let engine: Engine
    private let defaults: Call.Defaults
    /// Whether an object is out of date as soon as other bytes have taken the place of its own in memory.
    private let watchesBytes: Bool

    package init(_ cache: DataCache, watchesBytes: Bool = false) {
        self.cache = cache
        store = cache.store
        engine = cache.engine
        defaults = cache.defaults
        self.watchesBytes = watchesBytes
    }

    private func call(_ request: DataRequest, _ key: CacheKey? = nil) -> Call {
        Call(request, key: key ?? request.cacheKey, defaults: defaults)
    }

    // MARK: Bytes

    package func fetch(_ request: DataRequest, _ queue: FetchQueue) -> DataTask {
        if let cache { return queue == .fast ? cache.getData(request) : cache.slowGetData(request) }
        let task = DataTask(call(request), queue: queue)
        _ = task.end(.failure(.shutDown))
        return task
    }

    package func use(of info: EntryInfo, for request: DataRequest) -> StoredUse {
        if watchesBytes, isReplaced(info, request.cacheKey) { return .revalidate }
        return cache?.use(of: info, for: request) ?? .revalidate
    }

    /// Returns whether memory has newer bytes than those of an answer.
    private func isReplaced(_ info: EntryInfo, _ key: CacheKey) -> Bool {
        store.memory.part(of: key) { $0.info }.map { $0.stored > info.stored } ?? false
    }

    package func mayKeep(_ info: EntryInfo, for request: DataRequest) -> Bool { store.mayKeep(info, call(request)) }

    /// The request or the cache decides (``DataRequest/memoryExpiration``), even if the bytes expire earlier on disk.
    /// If neither has an expiration, the object is kept as long as the bytes.
    package func memoryLifetime(of request: DataRequest, madeOf info: EntryInfo) -> Lifetime {
        store.memoryLifetime(call(request), stored: info.storedDate)
    }

    package func claim(_ key: CacheKey) -> Claim? { store.history.claim(key) }

    package func peek(_ key: CacheKey, for request: DataRequest) -> StoredData? {
        cache?.peekEntry(key, for: request)?.value
    }

    package var forms: (any FormStore)? { store.disk == nil ? nil : self }
    package var events: EventHub { engine.events }

    // MARK: Stored forms

    package func reserve() -> FastReservation { FastReservation(engine) }

    package func waitsForDisk(_ request: DataRequest) -> Bool {
        request.waitsForDiskWrite && call(request).keepsOnDisk
    }

    package func find(
        _ key: CacheKey, _ place: Workers.Place, _ answer: @escaping @Sendable (Bool) -> Void
    ) -> Workers.Ticket? {
        store.hasEntry(key, place, answer)
    }

    package func read(
        _ key: CacheKey, _ place: Workers.Place, _ answer: @escaping @Sendable (StoredData?) -> Void
    ) -> Workers.Ticket? {
        store.read(key, place, answer)
    }

    package func has(_ key: CacheKey) -> Bool { cache?.hasData(for: key) ?? false }

    package func keep(
        _ form: Data, for key: CacheKey, madeOf info: EntryInfo, digest: UInt64, _ request: DataRequest,
        whenWritten: (@Sendable (_ isOnDisk: Bool) -> Void)?
    ) {
        let own: Set = ["content-type", "content-length", EntryInfo.digestField.lowercased()]
        var headers = Storing.fields(of: info.headers).removing(own.contains)
        headers.append(EntryInfo.digestField, String(digest, radix: 16))
        store.add(
            StoredData(data: form, info: info.with(headers, family: info.family)), for: key, call(request, key),
            onDisk: !request.isForThisProcess, request.durability, stored: info.storedDate, whenWritten: whenWritten)
    }

    package func add(_ data: Data, for request: DataRequest) throws(DipperError) {
        guard let cache else { throw .shutDown }
        try cache.addData(data, for: request)
    }

    package func remove(_ key: CacheKey, from tiers: CacheTiers) { cache?.removeData(for: key, from: tiers) }

    package func removeDerived(of key: CacheKey) { cache?.removeDerived(of: key) }
}
