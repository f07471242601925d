import Synchronization

/// A request for bytes as the origin of objects. Requests that one call of the data cache can serve are one origin.
package struct FetchOrigin: ObjectOrigin {
    /// The key under which memory keeps what is made from the bytes.
    package let key: CacheKey
    package let alias: CacheKey?
    package let isDecided: Bool
    package let request: DataRequest
    /// The key of the bytes in their data cache.
    let dataKey: CacheKey
    let policy: DataRequest.CachePolicy
    package let storing: ObjectStoring
    /// Whether the request waits until its entry is on disk. An object in memory does not tell whether it is.
    let waitsForDisk: Bool
    let source: any ObjectSource
    /// Distinguishes the keys of this data cache from those of others; empty for the cache's own.
    private let prefix: String
    /// A fetch that has begun already; `nil` for a fetch of the origin's own.
    let following: DataTask?
    /// The right to keep what is made of that fetch, claimed before it began.
    let claim: Claim?
    /// Distinguishes a request that cannot be compared with others.
    private let number: UInt64?
    private static let count = Atomic<UInt64>(0)

    /// - Parameters:
    ///   - prefix: the begin of the keys of what is made from this data cache's bytes, which distinguishes them from
    ///     those of other data caches.
    ///   - askedKey: the key that the caller has asked for, if a smaller source has taken its place.
    ///   - isDecided: whether it is known which source is asked for.
    ///   - following: a fetch that has begun already.
    ///   - claim: the right to keep what is made of that fetch.
    package init(
        _ request: DataRequest, _ policy: DataRequest.CachePolicy, _ source: any ObjectSource, prefix: String = "",
        askedKey: CacheKey? = nil, isDecided: Bool = true, following: DataTask? = nil, claim: Claim? = nil
    ) {
        dataKey = request.cacheKey
        key = prefix.isEmpty ? dataKey : CacheKey(verbatim: prefix + dataKey.string)
        let asked = askedKey ?? dataKey
        alias = asked == key ? nil : asked
        self.isDecided = isDecided
        self.request = request
        self.policy = policy
        self.source = source
        // Now, because this may ask a provider of the program's own.
        let forms = source.forms
        waitsForDisk = request.waitsForDiskWrite && forms?.waitsForDisk(request) == true
        storing = forms == nil ? .never : Self.storing(request, policy, waits: waitsForDisk)
        self.prefix = prefix
        self.following = following
        self.claim = claim
        number = request.retryPolicy == nil ? nil : Self.count.add(1, ordering: .relaxed).newValue
    }

    package func decided(isThere: Bool) -> Self {
        Self(
            request.effective(isThere: isThere), policy, source, prefix: prefix, askedKey: alias ?? dataKey,
            following: following)
    }

    /// Returns the origin of what is made from bytes that are being fetched already.
    func following(_ bytes: DataTask, _ claim: Claim?) -> Self {
        Self(request, policy, source, prefix: prefix, askedKey: alias, following: bytes, claim: claim)
    }

    /// Returns the origin of the same data cache for another request.
    package func with(_ request: DataRequest) -> Self { Self(request, policy, source, prefix: prefix) }

    package var mayRefetch: Bool { policy != .cacheOnly }

    package var renewed: Self {
        var request = request.with(\.retryPolicy, RetryPolicy.never)
        let policy = policy == .memoryOnly ? policy : .ignoreCache
        if policy == .memoryOnly { request.headers["Cache-Control"] = "no-cache" }
        return Self(request.with(\.cachePolicy, policy), policy, source, prefix: prefix, askedKey: alias)
    }

    /// Whether the tiers may answer.
    package var looks: Bool { following == nil && policy != .ignoreCache && policy != .bypass }

    /// Whether the disk may have the stored form of an object.
    var looksOnDisk: Bool { policy == .useCache || policy == .cacheOnly }

    private static func storing(
        _ request: DataRequest, _ policy: DataRequest.CachePolicy, waits: Bool
    ) -> ObjectStoring {
        guard [.useCache, .ignoreCache, .fromMemoryOrRefresh].contains(policy) else { return .never }
        guard waits else { return .background }
        return request.durability == .durable ? .required : .awaited
    }

    package static func == (a: Self, b: Self) -> Bool {
        // The question which source is asked for has one answer for a key.
        if !a.isDecided, !b.isDecided { return a.key == b.key }
        return a.key == b.key && a.number == b.number && a.isDecided == b.isDecided && a.following === b.following
            && (a.number != nil || a.request.isServed(like: b.request))
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

/// The identity of an answer. Two objects with one version were made from the same bytes.
struct EntryVersion: Hashable, Sendable {
    let info: EntryInfo
    /// The digest of the bytes; 0 if there are none.
    let digest: UInt64

    /// An answer read from disk again is another object, with fewer header fields.
    static func == (a: Self, b: Self) -> Bool {
        a.info === b.info || (a.digest != 0 && a.digest == b.digest && a.info.isLike(b.info))
    }

    func hash(into hasher: inout Hasher) { hasher.combine(digest) }
}

extension EntryInfo {
    fileprivate func isLike(_ other: EntryInfo) -> Bool {
        stored == other.stored && status == other.status && isStandIn == other.isStandIn
    }
}
