import Foundation
import Synchronization

final class Call: Sendable {
    let request: DataRequest
    let key: CacheKey
    private let knownPlainKey = AtomicLazyReference<Reference<CacheKey>>()
    private let defaults: Defaults
    /// Whether each source is local. Providers are code of the program: they are asked where the call is made, and not
    /// again, so never on the loop or under a lock.
    private let localSources: [Bool]
    /// `false` if a picture or a value made of the bytes takes their place on disk.
    let mayKeepOnDisk: Bool
    /// Whether the server is asked for the whole answer, because what the tiers have is no good.
    private let isRenewal: Bool

    final class Defaults: Sendable {
        let cachePolicy: DataRequest.CachePolicy
        let freshness: FreshnessPolicy
        let retryPolicy: RetryPolicy
        let timeout: Duration?
        let staleIfError: Duration?
        let failureLifetime: Duration
        let callbackQueue: CallbackQueue
        let pending = PendingWork()
        fileprivate let relay: EngineRelay

        init(
            _ relay: EngineRelay, cachePolicy: DataRequest.CachePolicy, freshness: FreshnessPolicy,
            retryPolicy: RetryPolicy,
            timeout: Duration?, staleIfError: Duration?, failureLifetime: Duration, callbackQueue: CallbackQueue
        ) {
            (self.relay, self.cachePolicy, self.freshness) = (relay, cachePolicy, freshness)
            (self.retryPolicy, self.timeout) = (retryPolicy, timeout)
            (self.staleIfError, self.failureLifetime) = (staleIfError, failureLifetime)
            var queue = callbackQueue
            queue.pending = pending
            self.callbackQueue = queue
        }

        func callbackQueue(of request: DataRequest) -> CallbackQueue {
            guard var queue = request.callbackQueue else { return callbackQueue }
            queue.pending = pending
            return queue
        }
    }

    init(_ request: DataRequest, key: CacheKey, defaults: Defaults) {
        (self.request, self.key, self.defaults) = (request, key, defaults)
        (mayKeepOnDisk, isRenewal) = (true, false)
        localSources = request.hasHooks ? ([request.source] + request.alternatives).map { $0?.isStandIn == true } : []
    }

    private init(
        _ other: Call, _ request: DataRequest, mayKeepOnDisk: Bool, isRenewal: Bool, localSources: [Bool]
    ) {
        (self.request, key, defaults) = (request, other.key, other.defaults)
        (self.mayKeepOnDisk, self.isRenewal, self.localSources) = (mayKeepOnDisk, isRenewal, localSources)
        if let known = other.knownPlainKey.load() { _ = knownPlainKey.storeIfNil(known) }
    }

    /// Returns a call for the same bytes with other options.
    /// - Parameters:
    ///   - request: a request with this call's key and sources.
    ///   - keepsOnDisk: `false` if an object made of the bytes takes their place on disk.
    ///   - isRenewal: whether what the tiers have is no good.
    func with(_ request: DataRequest, keepsOnDisk: Bool? = nil, isRenewal: Bool? = nil) -> Call {
        Call(
            self, request, mayKeepOnDisk: keepsOnDisk ?? mayKeepOnDisk, isRenewal: isRenewal ?? self.isRenewal,
            localSources: localSources)
    }

    /// The key of the URL alone, made once; `nil` if that is the key of the call.
    var plainKey: Reference<CacheKey>? {
        if let known = knownPlainKey.load() { return known }
        return request.plainKey(beside: key).map { knownPlainKey.storeIfNil(Reference($0)) }
    }

    /// - Parameter source: 0 for the request's own source, then its alternatives.
    func isLocal(_ source: Int) -> Bool { source < localSources.count && localSources[source] }

    var hasStandIns: Bool { localSources.dropFirst().contains(true) }

    /// The call without the alternatives that stand in for one call, for a call that only fills the cache.
    var withoutStandIns: Call {
        guard hasStandIns else { return self }
        let others = zip(request.alternatives, localSources.dropFirst()).filter { !$1 }.map(\.0)
        return Call(
            self, request.with(\.alternatives, others), mayKeepOnDisk: mayKeepOnDisk, isRenewal: isRenewal,
            localSources: localSources.prefix(1) + others.map { _ in false })
    }

    var usingMemory: Call { cachePolicy == .diskOnly ? with(request.with(\.cachePolicy, .useCache)) : self }

    var cachePolicy: DataRequest.CachePolicy { request.policy(defaults.cachePolicy) }
    var freshness: FreshnessPolicy { request.freshness ?? defaults.freshness }
    var retryPolicy: RetryPolicy { request.retryPolicy ?? defaults.retryPolicy }
    var timeout: Duration? { request.timeout ?? defaults.timeout }
    var staleIfError: Duration? { request.staleIfError ?? defaults.staleIfError }
    var failureLifetime: Duration { request.failureLifetime ?? defaults.failureLifetime }
    var callbackQueue: CallbackQueue { defaults.callbackQueue(of: request) }
    var pending: PendingWork { defaults.pending }
    /// `nil` once the cache is gone.
    var store: DataStore? { defaults.relay.engine?.store }

    var mayFetch: Bool { cachePolicy != .cacheOnly && !(hasDirectives && directives.onlyIfCached) }
    func looksUp(in store: DataStore) -> Bool {
        (store.disk != nil || store.tiers != nil) && cachePolicy.readsDisk && !isRenewal
    }
    /// Whether nothing in the request says who asks. Only such requests use the tiers that others read.
    var mayBeShared: Bool {
        guard request.url != nil, request.url?.user == nil else { return false }
        return !request.headers.hasCredentials && !(request.hasHooks && request.hooks.changesRequests)
    }
    /// Whether a failure of the call is one of its URL, and not of the part that is its own: a signature that the key leaves
    /// out, or credentials.
    var sharesFailures: Bool { mayBeShared && request.key == nil && !request.isKeyedByPart }
    var keepsOnDisk: Bool { mayKeepOnDisk && renewsOnDisk }
    var renewsOnDisk: Bool {
        switch cachePolicy {
        case .useCache, .diskOnly, .fromMemoryOrRefresh: true
        // A local source can be read again as easily as an entry on disk.
        case .ignoreCache: !isLocal(0) && !request.isForThisProcess
        case .memoryOnly, .cacheOnly, .bypass: false
        }
    }
    /// Whether a call that waits for the disk fails unless the entry is on the device.
    var mustBeDurable: Bool { request.durability == .durable && (keepsOnDisk || cachePolicy == .cacheOnly) }
    var keepsInMemory: Bool { cachePolicy != .bypass && cachePolicy != .cacheOnly }
    var insistsOnNetwork: Bool { isRenewal || cachePolicy == .ignoreCache || cachePolicy == .bypass }

    private var hasDirectives: Bool {
        !request.headers.isEmpty && request.headers.fields.contains { CacheKey.isDirective($0.name) }
    }

    var directives: CacheControl { CacheControl(request: request.headers) }

    var hasOwnValidation: Bool { request.hasHooks && request.hooks.wantsErrorBody }

    func refusal(of value: StoredData) -> DipperError? {
        request.validation.check(
            TransferResponse(status: value.info.status, headers: value.info.headers, body: value.data))
    }

    func accepts(_ value: StoredData) -> Bool {
        hasOwnValidation ? refusal(of: value) == nil : (200...299).contains(value.info.status)
    }

    func use(ofAccepted info: EntryInfo, at now: TimeInterval) -> StoredUse {
        cachePolicy == .bypass ? .revalidate : use(of: info, at: now)
    }

    func use(of info: EntryInfo, at now: TimeInterval) -> StoredUse {
        if info.freshness.isFresh(at: now), info.variant == nil, !hasDirectives, !freshness.isShared { return .fresh }
        return info.isChosen(by: request.headers) ? use(ofChosen: info, at: now) : .revalidate
    }

    func use(ofChosen info: EntryInfo, at now: TimeInterval) -> StoredUse {
        freshness.ignoresServer ? .fresh : answer(info).use(for: request.headers, at: now)
    }

    func answer(_ info: EntryInfo) -> StoredAnswer {
        StoredAnswer(
            freshness: info.freshness, control: info.control(isShared: freshness.isShared),
            isForClient: info.audience == .client)
    }

    /// Whether the answer to another call, which this one has waited for, is for this one as well.
    func shares(_ info: EntryInfo) -> Bool {
        !insistsOnNetwork && !freshness.isShared && info.isChosen(by: request.headers)
    }

    /// Whether the call may end with a remembered failure.
    func recalls(_ failure: EntryInfo, hasDisk: Bool, at now: TimeInterval) -> Bool {
        mayFetch && !insistsOnNetwork && (cachePolicy.readsDisk || !hasDisk) && !hasOwnValidation
            && failureLifetime > .zero && failure.isChosen(by: request.headers)
            && answer(failure).use(for: request.headers, at: now) == .fresh
    }

    func isAnswered(byAccepted info: EntryInfo, at now: TimeInterval) -> Bool {
        switch use(ofAccepted: info, at: now) {
        case .fresh, .stale, .staleWhileRevalidating: true
        case .revalidate:
            cachePolicy == .cacheOnly && info.isChosen(by: request.headers)
                && answer(info).mayServeDisconnected(for: request.headers)
        }
    }
}

struct StoreDefaults: Sendable {
    /// `nil`: entries expire in memory as on disk.
    var memoryExpiration: Expiration?
    /// `nil`: the freshness policy decides.
    var diskExpiration: Expiration?
    var memoryAccessExtension: AccessExtension
    var diskAccessExtension: AccessExtension
}
