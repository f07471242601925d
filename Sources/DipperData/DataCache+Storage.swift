import Foundation

/// Reading and changing what the cache holds, without the network.
extension DataCache {
    // MARK: Peeking

    /// The bytes if the cache has them: memory, then disk, on the caller's thread.
    public func data(for url: URL) -> Data? { data(for: CacheKey(url)) }
    /// The bytes of a request's key, if the cache has them.
    public func data(for request: DataRequest) -> Data? {
        request.headers.isEmpty
            ? data(for: request.cacheKey)
            : response(for: request).flatMap { (200...299).contains($0.status) ? $0.data : nil }
    }
    /// The bytes of a key, if the cache has them.
    public func data(for key: CacheKey) -> Data? {
        if let (data, info) = store.memory.part(of: key, { ($0.data, $0.info) }), info.isPlain { return data }
        guard let found = store.find(key, [:])?.value, (200...299).contains(found.info.status),
            found.info.isChosen(by: [:])
        else { return nil }
        return found.data
    }

    /// The bytes and what is known of them, if the cache has them, on the caller's thread.
    public func response(for url: URL) -> DataResponse? { response(for: CacheKey(url)) }
    /// The same by a request's key; of several variants the one that its fields choose.
    public func response(for request: DataRequest) -> DataResponse? {
        guard let found = store.find(request.cacheKey, request.headers),
            found.value.info.isChosen(by: request.headers)
        else { return nil }
        return DataResponse(found.value, source: found.source)
    }
    /// The same by key.
    public func response(for key: CacheKey) -> DataResponse? {
        store.peek(key).map { DataResponse($0.value, source: $0.source) }
    }

    /// Whether ``data(for:)-(URL)`` would find something. Reads no body and does not count as a use.
    public func hasData(for url: URL) -> Bool { hasData(for: CacheKey(url)) }
    /// The same by a request's key.
    public func hasData(for request: DataRequest) -> Bool { hasData(for: request.cacheKey) }
    /// The same by key.
    public func hasData(for key: CacheKey) -> Bool { store.contains(key) }

    /// Which tier would answer: `memory`, `disk`, or `nil` for none.
    public func cachedSource(for url: URL) -> ResponseSource? { cachedSource(for: CacheKey(url)) }
    /// The same by a request's key.
    public func cachedSource(for request: DataRequest) -> ResponseSource? {
        cachedSource(for: request.cacheKey)
    }
    /// The same by key.
    public func cachedSource(for key: CacheKey) -> ResponseSource? {
        if store.memory.contains(key) { return .memory }
        return store.disk?.contains(key) == true ? .disk : nil
    }

    // MARK: Adding and removing

    /// Stores bytes of the caller's own, in memory at once and on disk in the background.
    /// - Throws: ``DipperError/emptyKey``; ``DipperError/shutDown``.
    public func addData(_ data: Data, for url: URL) throws(DipperError) {
        try addData(data, for: DataRequest(url))
    }

    /// The same with a request, whose key, expirations and policy hold.
    public func addData(_ data: Data, for request: DataRequest) throws(DipperError) {
        try check(request.cacheKey)
        add(data, request.cacheKey, request)
    }

    /// Stores bytes of the caller's own under a key, with the cache's default options.
    public func addData(_ data: Data, for key: CacheKey) throws(DipperError) {
        try check(key)
        add(data, key, DataRequest(string: ""))
    }

    /// Stores bytes of the caller's own, and returns when they are on disk or the disk has failed.
    /// - Throws: ``DipperError/emptyKey``; ``DipperError/shutDown``.
    public func addDataAndWait(_ data: Data, for key: CacheKey) async throws(DipperError) {
        try await addAndWait(data, key, DataRequest(string: ""))
    }

    /// Stores bytes of the caller's own under a request's key, with its expirations, policy and
    /// ``DataRequest/durability``, and returns when they are on disk.
    ///
    /// A durable entry has been flushed to the device when this method returns. If the disk fails to store an entry
    /// that is not durable, the entry stays in memory and the method does not throw.
    ///
    /// ```swift
    /// try await cache.addDataAndWait(draft, for: DataRequest(url).with(\.durability, .durable))
    /// ```
    /// - Throws: ``DipperError/emptyKey``; ``DipperError/shutDown``; ``DipperError/notWritten`` if a durable entry is
    ///   not on disk.
    public func addDataAndWait(_ data: Data, for request: DataRequest) async throws(DipperError) {
        try await addAndWait(data, request.cacheKey, request)
    }

    private func addAndWait(_ data: Data, _ key: CacheKey, _ request: DataRequest) async throws(DipperError) {
        try check(key)
        let isOnDisk = await withCheckedContinuation { continuation in
            add(data, key, request) { continuation.resume(returning: $0) }
        }
        if !isOnDisk, request.durability == .durable { throw .notWritten }
    }

    private func check(_ key: CacheKey) throws(DipperError) {
        guard !key.isEmpty else { throw .emptyKey }
        guard !isShutDown.load(ordering: .acquiring) else { throw .shutDown }
    }

    private func add(
        _ data: Data, _ key: CacheKey, _ request: DataRequest, whenWritten: (@Sendable (Bool) -> Void)? = nil
    ) {
        let info = EntryInfo(url: request.address, stored: store.now().timeIntervalSince1970)
        let call = Call(request, key: key, defaults: defaults)
        store.add(
            StoredData(data: data, info: info), for: key, call,
            // To add by hand is to want it kept.
            onDisk: call.cachePolicy != .memoryOnly, request.durability, whenWritten: whenWritten)
    }

    /// Removes the entry from both tiers or from one of them. A fetch in progress still answers its callers, and is not
    /// kept in these tiers.
    public func removeData(for url: URL, from tiers: CacheTiers = .all) { removeData(for: CacheKey(url), from: tiers) }
    /// The same by a request's key.
    public func removeData(for request: DataRequest, from tiers: CacheTiers = .all) {
        removeData(for: request.cacheKey, from: tiers)
    }
    /// The same by key.
    public func removeData(for key: CacheKey, from tiers: CacheTiers = .all) { store.remove(key, from: tiers) }

    /// Removes from both tiers, or from one of them, what was made from the entry and is kept under keys that begin with its
    /// own; see ``CacheKey/isDerived(of:)``. At once for readers; the disk follows in the background. The entry itself stays.
    package func removeDerived(of key: CacheKey, from tiers: CacheTiers = .all) {
        store.removeDerived(of: key, from: tiers)
    }

    /// Removes what a request that changes things on the server makes out of date (RFC 9111, section 4.4): the entry of
    /// its URL, and those of `Location` and `Content-Location` if they are of the same origin. For programs that send
    /// such requests themselves; only after an answer that is no error.
    /// - Parameters:
    ///   - url: what was changed, such as by POST, PUT, PATCH or DELETE.
    ///   - headers: the fields of the answer.
    public func invalidate(_ url: URL, after headers: HTTPHeaders = [:]) {
        removeData(for: url)
        for name in ["Location", "Content-Location"] {
            guard let other = headers[name].flatMap({ URL(string: $0, relativeTo: url)?.absoluteURL }),
                Redirect.isSameOrigin(url, other)
            else { continue }
            removeData(for: other)
        }
    }

    // MARK: Keeping small

    /// Removes expired entries, and entries stored longer ago than this. Readers no longer see them when this method
    /// returns; the files are deleted in the background.
    public func flush(olderThan age: Duration) {
        let limit = store.now().timeIntervalSince1970 - age.timeInterval
        store.flush(storedBefore: limit)
    }

    /// Removes entries that have expired. They count as not there in any case; this makes room. Returns at once; the disk
    /// follows in the background.
    public func removeExpired() {
        store.memory.removeExpired()
        store.disk?.removeExpiredLater()
    }

    /// Removes the least recently used entries until no more than this is left on disk, in bytes. Returns at once.
    public func trim(toDiskSize size: Int) { store.disk?.trim(toSize: size) }

    /// Removes the least recently used entries until memory holds no more than this, in bytes. The limit stays.
    public func trimMemory(to size: Int) { store.memory.trim(toCost: max(0, size)) }

    /// Removes all entries. Readers no longer see them when this method returns; the files are deleted in the
    /// background. Fetches in progress still answer their callers, and are not kept.
    public func clear() { store.clear() }

    /// Removes everything from memory; the disk keeps what it has.
    public func clearMemory() { store.memory.removeAll() }

    /// Returns when the disk has carried out all that was asked of it before.
    public func synchronize() async { await store.disk?.synchronize() }

    /// Returns when the disk has carried out all that was asked of it before, and its files and its index have been
    /// compared if that is due, as after a power cut.
    package func reconcile() async { await store.disk?.reconcile() }

    /// Why nothing can be kept on disk; `nil` if all is well, or if the cache has no folder.
    package var storeProblem: StoreProblem? { store.disk?.opened.problem }

    // MARK: Sizes

    /// Bytes in memory, with what surrounds the data.
    public var memorySize: Int { store.memory.totalCost }
    /// Entries in memory.
    public var memoryCount: Int { store.memory.entryCount }

    /// Bytes on disk, those still to be written not included. Asks the index, not the files.
    public var diskSize: Int { store.disk?.totals.bytes ?? 0 }
    /// Entries on disk, those still to be written not included.
    public var diskCount: Int { store.disk?.totals.entries ?? 0 }

    /// How short memory is, as ``Configuration/memoryPressure`` tells.
    public var memoryPressure: MemoryPressure { pressure.level }

    /// Changes the memory tier's limits; what is too much goes at once. While memory is short half of them hold, or none;
    /// afterwards all.
    public func setMemoryLimit(_ bytes: Int, count: Int? = nil) {
        store.memory.setLimits(.init(cost: bytes, count: count))
    }

    /// Changes the disk tier's limit, in bytes; `nil` for none.
    public func setDiskLimit(_ bytes: Int?) { store.disk?.sizeLimit = bytes }

    // MARK: The disk tier's entries

    /// Calls back with every entry on disk, in no meaningful order, on the caller's thread.
    public func forEachEntry(_ body: (CachedEntry) -> Void) { store.disk?.forEachEntry(body) }

    /// Calls back with every entry on disk. False if that cannot be all of them: the index cannot be read, or had to be
    /// made anew.
    package func listEntries(_ body: (CachedEntry) -> Void) -> Bool { store.disk?.forEachEntry(body) ?? true }

    /// Returns when the index of the disk tier is open, unless another process holds it for very long.
    package func indexOpened() async { await store.disk?.indexOpened() }

    /// What the index knows of an entry on disk.
    public func entry(for key: CacheKey) -> CachedEntry? { store.disk?.details(of: key) }

    /// Returns the file of an entry, or `nil` for small entries, which have no file, and for compressed ones.
    ///
    /// The file begins with the entry's bytes and ends with a short trailer of the cache, which picture and document
    /// viewers ignore. Its name ends with an extension if ``FileNaming/sha256(extension:)`` adds one.
    ///
    /// The trailer contains the key, the URL and the answer's header fields; it does not contain values of request
    /// header fields, passwords or cookies. Only the user can read the file. To share the bytes, write
    /// ``data(for:)-(CacheKey)`` to a file of your own.
    public func file(for key: CacheKey) -> URL? { store.disk?.file(for: key) }

    /// Reads every entry, removes what is damaged, and puts the index right.
    public func verify() async -> StoreReport { await store.disk?.verify() ?? StoreReport() }
}
