import Foundation

extension DataCache {
    // MARK: Reading

    /// Returns the bytes of a URL, its text or a request if memory has them. Cheap enough for the thread that draws: the
    /// cache does not look at the disk.
    @_disfavoredOverload
    public func dataInMemory(for source: some DataRequestConvertible) -> Data? {
        find(complete(source.dataRequest), in: .memory)?.success
    }
    /// Returns the bytes of a key if memory has them; see ``dataInMemory(for:)-(DataRequestConvertible)``.
    public func dataInMemory(for key: CacheKey) -> Data? { plain(key) ?? success(of: key, in: .memory) }

    /// Returns the bytes of a URL, its text or a request, from all tiers or from some of them; `nil` if they do not have
    /// them. See ``readData(for:)-(URL)``.
    ///
    /// The cache uses neither the network nor its ``Configuration/tiers``. It reads the disk on a background thread, and
    /// bytes read from ``CacheTiers/disk`` alone do not enter memory.
    ///
    /// ```swift
    /// let old = await cache.data(for: url)            // however old they are
    /// ```
    @_disfavoredOverload
    public func data(for source: some DataRequestConvertible, in tiers: CacheTiers = .all) async -> Data? {
        let request = complete(source.dataRequest)
        if tiers.contains(.memory), let found = find(request, in: .memory) { return found.success }
        return await read { $0.find(request, in: tiers) }?.success
    }
    /// Returns the bytes of a key, from all tiers or from some of them; see ``data(for:in:)-(DataRequestConvertible,_)``.
    public func data(for key: CacheKey, in tiers: CacheTiers = .all) async -> Data? {
        if tiers.contains(.memory), let data = dataInMemory(for: key) { return data }
        return await read { $0.success(of: key, in: tiers) }
    }

    /// Returns the bytes of a URL if memory or disk has them. Blocks the calling thread while it reads the disk.
    ///
    /// Bytes that are out of date are returned as well, but not the body of an answer that is not a success. On a thread
    /// that draws, use ``dataInMemory(for:)-(DataRequestConvertible)``; in async code ``data(for:in:)-(DataRequestConvertible,_)``.
    public func readData(for url: URL) -> Data? {
        completesRequests ? readData(for: DataRequest(url)) : readData(for: CacheKey(url))
    }
    /// Returns the bytes of the variant that a request's header fields choose. Blocks the calling thread while it reads
    /// the disk; see ``readData(for:)-(URL)``.
    @_disfavoredOverload
    public func readData(for source: some DataRequestConvertible) -> Data? {
        let request = complete(source.dataRequest)
        return request.headers.isEmpty && !request.decidesMemoryLifetime && request.diskAccessExtension == nil
            ? readData(for: request.cacheKey) : find(request)?.success
    }
    /// Returns the bytes of a key if memory or disk has them. Blocks the calling thread while it reads the disk; see
    /// ``readData(for:)-(URL)``.
    public func readData(for key: CacheKey) -> Data? { plain(key) ?? success(of: key, in: .all) }

    @inline(__always)
    private func plain(_ key: CacheKey) -> Data? {
        borrowed(store.memory) { $0.part(of: key) { $0.isPlain ? $0.data : nil } ?? nil }
    }

    private func success(of key: CacheKey, in tiers: CacheTiers) -> Data? {
        guard let found = store.find(key, [:], in: tiers)?.value, (200...299).contains(found.info.status),
            found.info.isChosen(by: [:])
        else { return nil }
        return found.data
    }

    /// Returns the bytes of a URL, its text or a request with their metadata if memory or disk has them, whatever the
    /// status of the answer. Blocks the calling thread while it reads the disk.
    @_disfavoredOverload
    public func readResponse(for source: some DataRequestConvertible) -> DataResponse? {
        find(complete(source.dataRequest))
    }

    private func find(_ request: DataRequest, in tiers: CacheTiers = .all) -> DataResponse? {
        let call = Call(request, key: request.cacheKey, defaults: defaults)
        guard let found = store.find(call.key, request.headers, for: call, in: tiers),
            found.value.info.isChosen(by: request.headers)
        else { return nil }
        return DataResponse(found.value, source: found.source)
    }
    /// Returns the bytes of a key with their metadata if memory or disk has them. Blocks the calling thread while it
    /// reads the disk.
    public func readResponse(for key: CacheKey) -> DataResponse? {
        store.peek(key).map { DataResponse($0.value, source: $0.source) }
    }

    /// Returns whether all tiers or some of them have bytes that ``readData(for:)-(URL)`` would return. Reads no body and
    /// does not count as a use.
    ///
    /// The cache looks into the index on disk on the calling thread, unless memory has the entry or `tiers` is `.memory`.
    @_disfavoredOverload
    public func hasData(for source: some DataRequestConvertible, in tiers: CacheTiers = .all) -> Bool {
        tier(of: complete(source.dataRequest), in: tiers) != nil
    }
    /// Returns whether memory or disk has bytes for a key, as ``readData(for:)-(CacheKey)`` would return them.
    public func hasData(for key: CacheKey, in tiers: CacheTiers = .all) -> Bool {
        store.tier(of: key, [:], in: tiers) != nil
    }

    /// Returns where the bytes of a URL, its text or a request are: `memory`, `disk`, or `nil` for nowhere. Looks into the
    /// index on disk on the calling thread, unless memory has the entry.
    @_disfavoredOverload
    public func cachedSource(for source: some DataRequestConvertible) -> ResponseSource? {
        tier(of: complete(source.dataRequest), in: .all)
    }
    /// Returns where the bytes of a key are; see ``cachedSource(for:)-(DataRequestConvertible)``.
    public func cachedSource(for key: CacheKey) -> ResponseSource? { store.tier(of: key, [:], in: .all) }

    private func tier(of request: DataRequest, in tiers: CacheTiers) -> ResponseSource? {
        store.tier(of: request.cacheKey, request.headers, in: tiers)
    }

    // MARK: Adding and removing

    /// Stores bytes of the caller's own for a URL, or under a request's key, with the request's expirations, policy and
    /// ``DataRequest/durability``, in memory at once and on disk in the background.
    /// - Throws: ``DipperError/emptyKey``; ``DipperError/shutDown``.
    @_disfavoredOverload
    public func addData(_ data: Data, for source: some DataRequestConvertible) throws(DipperError) {
        let request = complete(source.dataRequest)
        try add(data, request.cacheKey, forCompleted: request)
    }

    /// Stores bytes of the caller's own under a key, with the cache's default options, in memory at once and on disk in
    /// the background.
    /// - Throws: ``DipperError/emptyKey``; ``DipperError/shutDown``.
    public func addData(_ data: Data, for key: CacheKey) throws(DipperError) {
        try check(key)
        add(data, key, DataRequest(string: ""))
    }

    /// Stores bytes of the caller's own under a key, and returns when they are on disk or the disk has failed.
    /// - Throws: ``DipperError/emptyKey``; ``DipperError/shutDown``.
    public func addDataAndWait(_ data: Data, for key: CacheKey) async throws {
        try await addAndWait(data, key, DataRequest(string: ""))
    }

    /// Stores bytes of the caller's own for a URL, or under a request's key, with the request's expirations, policy and
    /// ``DataRequest/durability``, and returns when they are on disk.
    ///
    /// If the disk fails to store an entry that is not durable, the entry stays in memory and the method does not
    /// throw.
    ///
    /// ```swift
    /// let draft = Data("Dear Ms Lovelace".utf8)
    /// try await cache.addDataAndWait(draft, for: DataRequest(url).with(\.durability, .durable))
    /// ```
    /// - Throws: ``DipperError/emptyKey``; ``DipperError/shutDown``; ``DipperError/notWritten`` if a durable entry is
    ///   not on disk.
    @_disfavoredOverload
    public func addDataAndWait(_ data: Data, for source: some DataRequestConvertible) async throws {
        let request = complete(source.dataRequest)
        try await addAndWait(data, request.cacheKey, request)
    }

    private func addAndWait(_ data: Data, _ key: CacheKey, _ request: DataRequest) async throws {
        try check(key)
        let isOnDisk = await withCheckedContinuation { continuation in
            add(data, key, request) { continuation.resume(returning: $0) }
        }
        if !isOnDisk, request.durability == .durable { throw DipperError.notWritten }
    }

    func check(_ key: CacheKey) throws(DipperError) {
        guard !key.isEmpty else { throw .emptyKey }
        guard !engine.isShutDown.load(ordering: .acquiring) else { throw .shutDown }
    }

    func add(
        _ data: Data, _ key: CacheKey, _ request: DataRequest, whenWritten: (@Sendable (Bool) -> Void)? = nil
    ) {
        let info = infoOfAdded(request, asked: request.address(of: key))
        let call = Call(request, key: key, defaults: defaults)
        // Pictures and values that are being made of the earlier bytes are not kept.
        let claim = store.history.claim(key, of: call.plainKey?.value, isAddition: true, isReplacing: true)
        store.clean(key, .shared)
        store.add(
            StoredData(data: data, info: info), for: key, call,
            // The caller wants the bytes kept, so every policy but `memoryOnly` stores them on disk.
            onDisk: call.cachePolicy != .memoryOnly, request.durability, claim: claim, isLatest: true,
            isReplacing: true, whenWritten: whenWritten)
    }

    /// Removes what the cache has of a URL, or the entry of a request, from all tiers or from some of them.
    ///
    /// With a URL, or its text, these are all entries of the URL, whatever header fields, account or key they were fetched
    /// with, and the values and files made of them. With a request it is the entry of its key, with its variants.
    ///
    /// An entry is of the URL that the request had, and of the one that answered, after a redirect or as an alternative.
    /// What a ``DataRequest/lowDataSource`` brings is of that source's own URL alone. The program's own
    /// ``Configuration/tiers`` cannot be searched: they lose the entry of the URL alone, and those in memory.
    ///
    /// A fetch in progress still answers its callers, but its result is not kept in these tiers. Calls made after a
    /// removal from memory and disk do not join it.
    ///
    /// ```swift
    /// cache.removeData(for: url)                      // also what was fetched in other languages
    /// cache.removeData(for: DataRequest(url))         // the entry without header fields alone
    /// ```
    @_disfavoredOverload
    public func removeData(for source: some DataRequestConvertible, from tiers: CacheTiers = .all) {
        let request = complete(source.dataRequest)
        if source.isURL { removeAll(of: request.address, from: tiers) }
        removeData(for: request.cacheKey, from: tiers)
    }
    /// Removes the entry of a key, with its variants, from all tiers or from some of them.
    public func removeData(for key: CacheKey, from tiers: CacheTiers = .all) {
        store.remove(key, from: tiers)
    }

    /// Removes the entries made from another entry (``CacheKey/isDerived(of:)``) from both tiers or from one of them.
    /// Readers no longer see them when this method returns; the files are deleted in the background.
    package func removeDerived(of key: CacheKey, from tiers: CacheTiers = .all) {
        store.removeDerived(of: key, from: tiers)
    }

    package func removeAll(of address: String, from tiers: CacheTiers = .all) {
        // What the program has added under a key is of no URL.
        if address.isEmpty { return }
        store.removeAll(of: address, from: tiers)
        values.load()?.removeAll(of: address, from: tiers)
    }

    /// Removes the entries that a request which changes a resource has made out of date (RFC 9111, section 4.4): all
    /// entries of its URL (``removeData(for:from:)-(DataRequestConvertible,_)``), and of `Location` and `Content-Location`
    /// in the same origin.
    ///
    /// Call this method in programs that send such requests themselves, and only after an answer that is no error.
    public func invalidate(_ url: URL, after headers: HTTPHeaders = [:]) {
        for url in Redirect.changed(by: url, headers) { removeData(for: url) }
    }

    // MARK: Cleaning up

    /// Removes expired entries, and entries that were stored longer ago than the given age. Readers no longer see them
    /// when this method returns; the files are deleted in the background.
    public func flush(olderThan age: Duration) {
        let limit = store.now().timeIntervalSince1970 - age.timeInterval
        store.flush(storedBefore: limit)
        values.load()?.removeAll(storedBefore: limit)
    }

    /// Removes expired entries now, which the cache otherwise does about a minute after they have expired; readers
    /// never see them. Returns at once; the files are deleted in the background.
    public func removeExpired() { store.expiries.clean() }

    /// Removes entries from disk, in the order of eviction, until no more than a given number of bytes is left. The
    /// files are deleted in the background.
    public func trimDisk(to size: Int) { store.disk?.trim(toSize: size) }

    /// Removes entries from memory, in the order of eviction, until no more than a given number of bytes is left.
    public func trimMemory(to size: Int) { store.memory.trim(toCost: max(0, size)) }

    /// Removes all entries. Readers no longer see them when this method returns; the files are deleted in the
    /// background. Fetches in progress still answer their callers, and are not kept; later calls do not join them.
    public func clear() {
        store.clear()
        values.load()?.removeAll()
    }

    /// Removes all entries and partial bodies from memory. The disk keeps its entries.
    public func clearMemory() {
        store.clearMemory()
        values.load()?.removeAll()
    }

    /// Removes all entries from disk. Memory keeps its entries. Results of fetches in progress are not kept on disk.
    public func clearDisk() { store.clearDisk() }

    /// Returns when the disk tier, and the ``Configuration/tiers`` that work, have carried out all earlier changes.
    ///
    /// ```swift
    /// cache.clear()
    /// await cache.synchronize()       // the files are gone, if the disk works: see finishRemovals()
    /// ```
    public func synchronize() async { await store.synchronize() }

    /// Returns when the disk tier has carried out all earlier removals, whichever method has asked for them: the
    /// entries and their files are gone.
    ///
    /// ```swift
    /// cache.clear()
    /// try await cache.finishRemovals()
    /// ```
    /// - Throws: ``DipperError/notRemoved`` if something is still on disk, because the folder is read-only or the disk
    ///   fails. Readers of this cache do not find removed entries all the same.
    public func finishRemovals() async throws {
        await store.synchronize()
        try await store.disk?.finishRemovals()
    }

    /// Returns when nothing is left to do: all calls have ended, their closures have been called, and the entries are
    /// on disk.
    ///
    /// A call that waits for the network, for a retry or for room in a suspended queue has not ended. Calls made
    /// meanwhile are waited for as well. Closures of an actor have been handed to the actor, which may not have run
    /// them yet.
    ///
    /// ```swift
    /// for url in urls { cache.slowGetData(url) }
    /// await cache.idle()              // all of them are on disk, or have failed
    /// ```
    public func idle() async {
        var begun: Int
        repeat {
            await engine.becomeIdle()
            begun = await defaults.pending.settled()
            await store.synchronize()
            // Idle, if no closure ran meanwhile that could have made another call.
        } while !isIdle || defaults.pending.begun != begun
    }

    package var isIdle: Bool { engine.isIdle }

    /// Returns when the engine has taken in all messages so far, and the closures that it owes have returned.
    package func hooksSettled() async {
        // News of bytes reach the call for a picture by messages that follow from one another.
        for _ in 0..<4 { await engine.wait { $1.resume() } }
        _ = await defaults.pending.settled()
    }

    package var usesRealClock: Bool { engine.time.isReal }

    /// Returns when the disk tier has carried out all earlier changes, and has compared its files with its index if
    /// that is due, as after a power cut.
    package func reconcile() async { await store.disk?.reconcile() }

    /// The reason why nothing can be kept on disk; `nil` if there is none, or if the cache has no folder.
    package var storeProblem: StoreProblem? { store.disk?.opened.problem }

    // MARK: Sizes

    /// The size of all entries in memory, in bytes: their data, keys and header fields, and an estimated
    /// overhead. Partial bodies do not count; see ``Configuration/partialLimit``.
    public var memorySize: Int { store.memory.totalCost }
    /// The number of entries in memory.
    public var memoryCount: Int { store.memory.entryCount }

    /// The size of all entries on disk, in bytes, without those that are still to be written. Reads the index on the
    /// calling thread.
    public var diskSize: Int { store.disk?.totals.bytes ?? 0 }
    /// The number of entries on disk, without those that are still to be written. Reads the index on the calling
    /// thread.
    public var diskCount: Int { store.disk?.totals.entries ?? 0 }

    /// The present memory pressure, as ``Configuration/memoryPressure`` tells it.
    public var memoryPressure: MemoryPressure { pressure.level }

    /// The limit of the entries in memory, in bytes; memory pressure lowers it (``Configuration/memoryPressure``). A
    /// lower limit removes entries at once.
    public var memoryLimit: Int {
        get { store.memory.limits.cost }
        set { store.memory.changeLimits { $0.cost = newValue } }
    }
    /// The limit of the number of entries in memory; `nil` for none. A lower limit removes entries at once.
    public var memoryCountLimit: Int? {
        get { store.memory.limits.count }
        set { store.memory.changeLimits { $0.count = newValue } }
    }

    /// The limit of the disk, in bytes; `nil` for no limit, and for a cache without a folder. Entries beyond a lower
    /// limit are removed in the background, in the order of eviction.
    public var diskLimit: Int? {
        get { store.disk?.sizeLimit }
        set { store.disk?.sizeLimit = newValue }
    }

    // MARK: Off the caller's thread

    /// Calls a closure on one of the threads that read the disk, and returns its result: the form for async code of the
    /// methods that read the disk, or decode, on the caller's thread. Look-ups of calls wait while the closure runs.
    ///
    /// ```swift
    /// let entry = await cache.read { $0.entry(for: CacheKey(url)) }
    /// let feed = await cache.read { $0.readValue(Feed.self, for: url) }
    /// ```
    ///
    /// In a class that is not `Sendable`, the closure captures the values that it needs in place of `self`:
    ///
    /// ```swift
    /// final class Page {
    ///     let (cache, url) = (DataCache.shared, URL(fileURLWithPath: "/usr/share/feed.json"))
    ///
    ///     func isThere() async -> Bool { await cache.read { [url] cache in cache.hasData(for: url) } }
    /// }
    /// ```
    public func read<Value: Sendable>(_ body: @escaping @Sendable (DataCache) -> Value) async -> Value {
        await fromThread { answer in store.runOnReader(.init(.fast, .normal)) { answer(body(self)) } } ?? body(self)
    }

    /// Calls a closure like ``read(_:)``, and returns when the disk tier, and the ``Configuration/tiers`` that work, have
    /// carried out the closure's changes and all earlier ones: the form for async code of all methods that add or remove.
    ///
    /// ```swift
    /// try await cache.write { $0.clearDisk() }        // the files are gone
    /// ```
    /// - Throws: the error of the closure; ``DipperError/notRemoved`` if something is still on disk.
    public func write<Value: Sendable>(
        _ body: @escaping @Sendable (DataCache) throws -> Value
    ) async throws -> Value {
        let result = await read { cache in Result { try body(cache) } }
        let value = try result.get()
        try await finishRemovals()
        return value
    }

    // MARK: Entries on disk

    /// Calls a closure with every entry on disk, in no meaningful order, on the caller's thread.
    public func forEachEntry(_ body: (CachedEntry) -> Void) { store.disk?.forEachEntry(body) }

    /// Calls a closure with every entry on disk. Returns `false` if entries may be missing, because of a bad index.
    package func listEntries(_ body: (CachedEntry) -> Void) -> Bool { store.disk?.forEachEntry(body) ?? true }

    /// Returns a part of the list of all entries on disk, or of those in memory for a cache without a folder, and their
    /// number, on the caller's thread. Counts as no use.
    package func listEntries(_ query: EntryQuery) -> (entries: [ListedEntry], total: Int) {
        if let (entries, total) = store.disk?.page(query) {
            return (entries.map { ListedEntry($0.0, $0.1, .disk) }, total)
        }
        let text = query.text.lowercased()
        let all = store.memory.entries { (key, value, cost, lifetime, stored) -> ListedEntry in
            let date = Date(timeIntervalSince1970: stored)
            let expires = lifetime.expires.isFinite ? Date(timeIntervalSince1970: lifetime.expires) : nil
            let entry = CachedEntry(
                key: key, url: value.info.url, size: cost, stored: date, accessed: date, expires: expires)
            return ListedEntry(entry, value.info, .memory)
        }
        var found = all.filter { text.isEmpty || $0.contains(text) }
        found.sort { (first: ListedEntry, second: ListedEntry) -> Bool in
            let (a, b) = query.isAscending ? (first, second) : (second, first)
            switch query.order {
            case .used, .stored: return a.entry.stored < b.entry.stored
            case .size: return a.entry.size < b.entry.size
            case .expires: return a.entry.expires ?? .distantFuture < b.entry.expires ?? .distantFuture
            case .url: return a.address < b.address
            }
        }
        return (Array(found.dropFirst(query.offset).prefix(query.limit)), found.count)
    }

    /// Returns the size of an entry and its metadata, `nil` if a codec has encoded them, without a body.
    package func summary(of key: CacheKey) -> (size: Int, answer: DataResponse?)? {
        let found = store.disk?.summary(of: key) ?? store.memory.peek(key) { ($0.data.count, $0.info) }
        return found.map { size, info in
            (size, info.map { DataResponse(StoredData(data: Data(), info: $0), source: .disk) })
        }
    }

    /// Returns when the index of the disk tier is open, unless another process holds it for very long.
    package func indexOpened() async { await store.disk?.indexOpened() }

    /// Returns the metadata of an entry on disk; `nil` if there is no entry. Reads the index on the calling thread.
    public func entry(for key: CacheKey) -> CachedEntry? { store.disk?.details(of: key) }

    /// Returns the file of an entry, which only the user can read; `nil` if there is no entry, for small entries, which
    /// have no file, for compressed ones, and for those that a ``RecordCodec`` has encoded.
    ///
    /// Entries of up to 8 KiB have none: write the bytes of ``readData(for:)-(CacheKey)`` to a file for other programs.
    /// The cache reads the index on the calling thread.
    ///
    /// The file has the entry's bytes and nothing else, with an extension if ``DataRequest/fileExtension`` or
    /// ``FileNaming/sha256(extension:)`` adds one. It is never changed, and is removed when the entry is replaced or removed: a program that has opened it can
    /// read on, and one that keeps its path should ask again.
    public func file(for key: CacheKey) -> URL? { store.disk?.file(for: key) }

    /// Reads every entry on disk, removes damaged entries, repairs the index, and returns a report.
    ///
    /// ```swift
    /// let report = await cache.verify()
    /// if !report.isSound { print("removed \(report.damaged) damaged entries", report.indexProblems) }
    /// ```
    public func verify() async -> StoreReport { await store.disk?.verify() ?? StoreReport() }
}

/// An entry in a list, with the metadata of its answer but without its bytes.
package struct ListedEntry: Sendable {
    package let entry: CachedEntry
    /// `nil` if a codec has encoded the entry.
    package let answer: DataResponse?

    fileprivate init(_ entry: CachedEntry, _ info: EntryInfo?, _ source: ResponseSource) {
        self.entry = entry
        answer = info.map { DataResponse(StoredData(data: Data(), info: $0), source: source) }
    }

    fileprivate var address: String { entry.url.isEmpty ? entry.key.string : entry.url }

    fileprivate func contains(_ text: String) -> Bool {
        let made = entry.key.string.split(separator: "\n").dropFirst().first { $0.hasPrefix("#") }
        return [address.prefix { $0 != "?" }, made ?? ""].contains { $0.lowercased().contains(text) }
    }
}

extension DataResponse {
    fileprivate var success: Data? { (200...299).contains(status) ? data : nil }
}
