import Foundation

/// The data caches that bring the bytes of objects and keep their stored forms.
package final class ObjectSource: Sendable {
    let engine: Engine
    private let defaults: Call.Defaults
    /// Whether an object is out of date as soon as memory has other bytes in place of its own.
    private let watchesBytes: Bool

    private let forms: DataStore
    /// The data cache with the bytes, which does not end before a call of another cache that needs it.
    private let owner: (any AnyObject & Sendable)?

    /// - Parameter forms: the store that keeps the stored forms; `nil` for the one that has the bytes.
    init(
        _ engine: Engine, _ defaults: Call.Defaults, watchesBytes: Bool = false, forms: DataStore? = nil,
        owner: (any AnyObject & Sendable)? = nil
    ) {
        (self.engine, self.defaults, self.watchesBytes, self.owner) = (engine, defaults, watchesBytes, owner)
        self.forms = forms ?? engine.store
    }

    private var store: DataStore { engine.store }
    private func store(of key: CacheKey) -> DataStore { forms !== store && key.isDerived ? forms : store }
    var hasDisk: Bool { store.disk != nil }
    var keepsForms: Bool { forms.disk != nil }

    /// Keeps prefetches from starting, because an urgent fetch may follow.
    func reserve() { engine.perform { $0.reserve() } }
    func release() { engine.perform { $0.release() } }

    func isLike(_ other: ObjectSource) -> Bool { engine === other.engine && forms === other.forms }
    var events: EventHub { engine.events }

    func timeout(of request: DataRequest) -> Duration? { request.timeout ?? defaults.timeout }
    func hasOwnRule(_ request: DataRequest) -> Bool { (request.retryPolicy ?? defaults.retryPolicy).rule != nil }

    func call(_ request: DataRequest, _ key: CacheKey) -> Call { Call(request, key: key, defaults: defaults) }

    // MARK: Bytes

    func use(of info: EntryInfo, for call: Call) -> StoredUse {
        if watchesBytes, let present = store.memory.part(of: call.key, { $0.info }), present.stored > info.stored {
            return .revalidate
        }
        return defaults.use(of: info, for: call.request, call, at: store.now)
    }

    func mayKeep(_ info: EntryInfo, for call: Call) -> Bool { store.mayKeep(info, call) }

    func memoryLifetime(for call: Call, madeOf info: EntryInfo) -> Lifetime {
        forms.memoryLifetime(call, stored: info.storedDate)
    }

    /// Creates the right to keep objects made from the bytes of a call. Removals of the bytes revoke it.
    /// - Parameters:
    ///   - form: the key of the stored form, whose removals revoke the right as well; `nil` for none.
    ///   - earlier: a right that was claimed before.
    func claim(
        for call: Call, _ form: CacheKey? = nil, within earlier: Claim? = nil
    ) -> Claim {
        let (key, url) = (call.key, call.plainKey?.value)
        var claim = earlier ?? store.history.claim(key, of: url)
        if forms !== store { claim = forms.history.claim(key, of: url, within: claim) }
        return form.map { forms.history.claim($0, within: claim) } ?? claim
    }

    /// Creates the right to keep an object that the program adds, in place of all before. Newer bytes end it as well.
    func claim(_ place: CacheKey, replacedFor call: Call) -> Claim {
        let outer = place == call.key ? nil : store.history.claim(call.key, isAddition: true)
        return store(of: place).history.claim(
            place, of: call.plainKey?.value, within: outer, isAddition: true, isReplacing: true)
    }

    func replace(_ place: CacheKey, by claim: Claim) { store(of: place).history.replace(place, by: claim) }

    /// Removes an entry that a claim has replaced.
    func clean(_ place: CacheKey) { store(of: place).clean(place, .all) }

    func peek(_ key: CacheKey, for call: Call, in tiers: CacheTiers = .all) -> StoredData? {
        let fields = call.request.headers
        return store(of: key).find(key, fields, for: call, in: tiers).flatMap {
            $0.value.info.isChosen(by: fields) ? $0.value : nil
        }
    }

    func keepBytes(_ data: Data, _ info: EntryInfo, for call: Call, _ claim: Claim) {
        let kept = StoredData(data: data, info: info.with(info.fields(isShared: call.freshness.isShared)))
        store.add(kept, for: call.key, call, onDisk: true, call.request.durability, claim: claim)
    }

    // MARK: Stored forms

    /// Creates the lease of a stored form; `nil` if it is shared with nobody.
    @Loop func lease(of key: CacheKey, for work: some LeasedWork) -> Lease? {
        Lease(key, for: work, in: store(of: key))
    }

    /// Whether the program has removed the bytes, or what was made of them, so recently that other processes may have asked
    /// for them before.
    func hasRemoved(_ call: Call) -> Bool {
        let limit = engine.options.leases.longestWait
        return store.hasRemoved(call.key, of: call.plainKey?.value, within: limit)
            || forms !== store && forms.hasRemoved(call.key, of: call.plainKey?.value, within: limit)
    }

    /// Whether the program has removed, so recently, what a stored form is made of.
    func hasRemoved(_ info: EntryInfo) -> Bool {
        let limit = engine.options.leases.longestWait
        return store.hasRemoved(info, within: limit) || forms !== store && forms.hasRemoved(info, within: limit)
    }

    /// Removes a stored form that another cache has brought back, and the bytes.
    func removeAgain(_ form: CacheKey, of bytes: CacheKey) {
        for key in [form, bytes] { store(of: key).removeAgain(key) }
    }

    func waitsForDisk(_ call: Call) -> Bool {
        (hasDisk || keepsForms) && call.request.waitsForDiskWrite && call.keepsOnDisk
    }

    /// Finds out whether there is an entry, in the order of urgency.
    /// - Returns: `nil` if `answer` has been called.
    func find(
        _ key: CacheKey, _ place: Workers.Place, _ answer: @escaping @Sendable (Bool) -> Void
    ) -> Workers.Ticket? {
        store.hasEntry(key, place, answer)
    }

    /// Reads a stored form for a call, in the order of urgency, also from the program's own tiers.
    /// - Parameters:
    ///   - claim: the right to keep objects made from the bytes.
    ///   - answer: is called with the form, and where it was.
    /// - Returns: `nil` if `answer` has been called.
    func read(
        _ key: CacheKey, for call: Call, _ place: Workers.Place, _ claim: Claim,
        _ answer: @escaping @Sendable (StoredData?, ResponseSource) -> Void
    ) -> Workers.Ticket? {
        let basis = FormBasis(key: call.key, claim: claim) { [store] in store.stored(call.key) }
        return store(of: key).read(key, for: call, place, madeOf: basis, answer)
    }

    @inline(__always)
    func object(_ key: CacheKey, in memory: ObjectMemoryTier, for request: DataRequest) -> ObjectMemoryTier.Entry? {
        forms.object(key, in: memory, for: request)
    }

    func settle(_ key: CacheKey, for call: Call, whenDone: @escaping @Sendable (_ isOnDisk: Bool) -> Void) {
        store(of: key).settle(key, call, whenDone: whenDone)
    }

    func isWritten(_ key: CacheKey, for request: DataRequest) -> Bool { store(of: key).isWritten(key, for: request) }
    func has(_ key: CacheKey) -> Bool { store(of: key).contains(key) }

    func keep(
        _ form: Data, for key: CacheKey, madeOf basis: Provenance, _ call: Call, _ claim: Claim?,
        _ sharing: Sharing?, whenWritten: @escaping @Sendable (_ isOnDisk: Bool) -> Void
    ) {
        let info = basis.info
        let own: FieldNames = ["Content-Type", "Content-Length", EntryInfo.digestField]
        var headers = info.fields().removing(own.contains)
        headers.append(EntryInfo.digestField, String(basis.digest, radix: 16))
        let (store, request) = (store(of: key), call.request)
        let value = StoredData(data: form, info: info.with(headers))
        store.add(
            value, for: key, call, onDisk: !request.isForThisProcess, request.durability, claim: claim,
            by: basis.call, stored: info.storedDate, whenWritten: whenWritten)
        if call.mayBeShared { store.share(value, for: key, call, stored: info.storedDate, claim, sharing) }
    }

    func add(_ form: Data, for key: CacheKey, _ call: Call, _ claim: Claim) {
        let info = EntryInfo(url: call.request.address, stored: store.now().timeIntervalSince1970)
        store(of: key).add(
            StoredData(data: form, info: info), for: key, call, onDisk: call.cachePolicy != .memoryOnly,
            call.request.durability, claim: claim, isLatest: true)
    }

    /// Removes an entry that cannot be used, without revoking the right to keep another.
    func discard(_ key: CacheKey) {
        store(of: key).disk?.remove(key)
        store(of: key).memory.remove(key)
    }

    func removeDerived(of key: CacheKey) {
        // The newest forms take the place of older ones in the tiers that others share.
        store.removeDerived(of: key, from: [.memory, .disk])
        if forms !== store { forms.removeDerived(of: key, from: [.memory, .disk]) }
    }
}

/// A request for bytes, and the data cache that has them. Requests that one call can serve have one origin.
package final class Origin: Sendable {
    /// The key of the object in memory before the suffix of its step.
    let key: CacheKey
    /// The key that the caller asked for, if a smaller source has replaced it.
    let alias: CacheKey?
    /// The call for the bytes with the request's own options.
    let call: Call
    /// The origins of which a look at the tiers chooses one; `nil` if it is known which source is asked for.
    private let choice: Choice?
    let policy: DataRequest.CachePolicy
    /// Whether the request waits until its entry is on disk, which an object in memory does not tell.
    let waitsForDisk: Bool
    let source: ObjectSource
    /// Distinguishes the keys of this data cache from those of others; empty for the cache's own.
    private let prefix: String
    /// Begins a fetch of newer bytes, or returns the one that has begun; `nil` for a fetch of the origin's own.
    let following: (@Sendable () -> DataTask)?
    let claim: Claim?
    /// Whether the bytes that the tiers have are no good.
    private let isRenewal: Bool

    private struct Choice {
        let larger: Origin
        let smaller: Origin
    }

    enum Storing: Comparable {
        case never
        /// After it has been delivered.
        case background
        /// Before it is delivered; also delivered if the write fails.
        case awaited
        /// Before it is delivered; if the write fails, ``DipperError/notWritten`` is.
        case required
    }

    /// Makes the call for the bytes, which asks providers: code of the program.
    /// - Parameters:
    ///   - dataKey: the key of the request.
    ///   - isDecided: whether it is known which source is asked for.
    package convenience init(
        _ request: DataRequest, _ dataKey: CacheKey, _ policy: DataRequest.CachePolicy, _ source: ObjectSource,
        prefix: String = "", askedKey: CacheKey? = nil, isDecided: Bool = true
    ) {
        let call = source.call(request, dataKey)
        var choice: Choice?
        if !isDecided {
            let origin = { (other: Call) in
                Origin(other, policy, source, prefix: prefix, askedKey: askedKey ?? call.key)
            }
            let (larger, smaller) = (request.effective(isThere: true), request.effective(isThere: false))
            choice = Choice(
                larger: origin(call.with(larger)), smaller: origin(source.call(smaller, smaller.cacheKey)))
        }
        self.init(call, policy, source, prefix: prefix, askedKey: askedKey, choice: choice)
    }

    /// - Parameter claim: the right to keep objects made of the newer bytes that `following` brings.
    private init(
        _ call: Call, _ policy: DataRequest.CachePolicy, _ source: ObjectSource, prefix: String, askedKey: CacheKey?,
        choice: Choice? = nil, following: (@Sendable () -> DataTask)? = nil, claim: Claim? = nil,
        isRenewal: Bool = false
    ) {
        (self.call, self.policy, self.source, self.prefix) = (call, policy, source, prefix)
        (self.choice, self.following, self.isRenewal) = (choice, following, isRenewal)
        key = prefix.isEmpty ? call.key : CacheKey(verbatim: prefix + call.key.string)
        let asked = askedKey ?? call.key
        alias = asked == key ? nil : asked
        waitsForDisk = source.waitsForDisk(call)
        let isAnew = following == nil && policy == .ignoreCache
        self.claim = claim ?? (isAnew ? source.claim(for: call) : nil)
    }

    package var request: DataRequest { call.request }
    package var dataKey: CacheKey { call.key }
    var isDecided: Bool { choice == nil }

    /// The other keys by which calls are found: the key that the caller has asked for, and the key of the URL alone.
    /// Calls that wait for a decision have no work by which they could be found, so their own key is one of these.
    var aliases: Set<CacheKey> { Set([alias, call.plainKey?.value, isDecided ? nil : key].compactMap(\.self)) }

    /// Returns the origin that is asked for.
    /// - Parameter isThere: whether the tiers have the bytes of this one.
    func decided(isThere: Bool) -> Origin {
        guard let choice else { return self }
        return isThere ? choice.larger : choice.smaller
    }

    /// Returns the origin of objects made from newer bytes: one for all callers, until they are made.
    /// - Parameters:
    ///   - claim: the right to keep the objects, claimed before.
    ///   - fetch: begins the fetch of the bytes, or returns the one that has begun.
    package func following(_ claim: Claim?, _ fetch: @escaping @Sendable () -> DataTask) -> Origin {
        Origin(call, policy, source, prefix: prefix, askedKey: alias, following: fetch, claim: claim)
    }

    /// The origin that asks the sources, because the bytes that the tiers have are no good.
    /// - Parameter once: whether a failure ends the call, unless the program has a rule of its own.
    func renewed(once: Bool) -> Origin {
        let endsCall = once && !source.hasOwnRule(request)
        let call = endsCall ? call.with(request.with(\.retryPolicy, RetryPolicy.never)) : call
        return Origin(call, policy, source, prefix: prefix, askedKey: alias, isRenewal: true)
    }

    var looks: Bool { following == nil && !isAnew }
    var isAnew: Bool { following == nil && (isRenewal || policy == .ignoreCache || policy == .bypass) }

    /// Returns whether an object in memory need not wait for the disk. Reads the index.
    package func isWritten(_ step: some ObjectStep) -> Bool {
        !waitsForDisk || source.isWritten(step.isStored ? step.key(dataKey) : dataKey, for: request)
    }

    /// Returns the key of the stored form of a step's object, or of one that the program has added.
    /// - Parameter key: the key of the object in memory.
    func formKey(_ step: some ObjectStep, _ key: CacheKey, isAdded: Bool = false) -> CacheKey {
        if prefix.isEmpty { return key }
        return isAdded ? step.addedKey(dataKey) : step.key(dataKey)
    }

    var looksOnDisk: Bool { looks && source.keepsForms && policy.readsDisk }

    var sharesFailures: Bool { !request.hasHooks && call.sharesFailures }

    /// Whether a form that another process has made while a call waited is for that call as well.
    func shares(_ info: EntryInfo) -> Bool { !call.hasOwnValidation && call.shares(info) }

    var storing: Storing {
        guard source.keepsForms else { return .never }
        return switch policy {
        case .useCache, .diskOnly, .ignoreCache, .fromMemoryOrRefresh:
            waitsForDisk ? request.durability == .durable ? .required : .awaited : .background
        default: .never
        }
    }

    func isLike(_ other: Origin) -> Bool {
        self === other
            || (key == other.key && isDecided == other.isDecided && (following == nil) == (other.following == nil)
                && isRenewal == other.isRenewal
                && source.isLike(other.source) && request.isServed(like: other.request))
    }
}

extension Call.Defaults {
    @inline(__always)
    func use(
        of info: EntryInfo, for request: DataRequest, _ call: @autoclosure () -> Call, at now: () -> Date
    ) -> StoredUse {
        let isPlain =
            info.isPlain && request.headers.isEmpty && !request.hasHooks && !(request.freshness ?? freshness).isShared
        if isPlain, info.freshness.until == .infinity { return .fresh }
        let now = now().timeIntervalSince1970
        if isPlain, info.freshness.isFresh(at: now) { return .fresh }
        let call = call()
        // A validation of the request's own needs the bytes.
        if call.hasOwnValidation { return .revalidate }
        let use = call.use(of: info, at: now)
        switch use {
        case .revalidate where call.cachePolicy == .cacheOnly && info.isChosen(by: request.headers):
            return call.answer(info).mayServeDisconnected(for: request.headers) ? .stale : .revalidate
        case .staleWhileRevalidating where !call.mayFetch: return .stale
        default: return use
        }
    }
}
