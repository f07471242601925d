import Foundation

/// A request for bytes: what to fetch, and how. Everything but the URL has a default; the cache's
/// ``DataCache/Configuration`` sets most of the defaults. Options are set as properties, or chained:
///
/// ```swift
/// let request = DataRequest(url).with(\.headers, ["Accept": "application/json"]).with(\.priority, .high)
/// ```
public struct DataRequest: Sendable, Hashable, RedactedStringConvertible {
    /// The rule for which tiers may answer a call, and which tiers keep the answer.
    public enum CachePolicy: Sendable, Hashable, CaseIterable {
        /// Reads memory, disk and network; keeps the answer in both tiers. A stored answer must be fresh, or the server
        /// must confirm that it still holds (see ``FreshnessPolicy``).
        case useCache
        /// Reads memory and network; keeps the answer in memory. The disk is neither read nor written.
        case memoryOnly
        /// Reads memory, disk and network; keeps the answer on disk only, for a large answer that is used once.
        case diskOnly
        /// Reads memory and disk, and also answers with an entry that is out of date unless the server has forbidden
        /// that. Otherwise the call ends with ``DipperError/notCached``.
        case cacheOnly
        /// Reads the network only; keeps the answer in both tiers, that of a local provider in memory only.
        case ignoreCache
        /// Reads memory and network; keeps the answer in both tiers.
        case fromMemoryOrRefresh
        /// Reads the network only and keeps nothing, not even a partial body. The call shares a fetch with other calls
        /// for its key, and the cache keeps the answer if one of them wants it kept.
        case bypass

        package var readsDisk: Bool { self == .useCache || self == .diskOnly || self == .cacheOnly }
    }

    /// The options that few requests set.
    private struct Rare: Sendable {
        /// The options that can be compared, except for the queue of closures.
        struct Values: Sendable, Equatable {
            var unparsed: String?
            var key: CacheKey?
            var keyRule: KeyRule?
            var timeout: Duration?
            var freshness: FreshnessPolicy?
            var staleIfError: Duration?
            var failureLifetime: Duration?
            var memoryExpiration: Expiration?
            var diskExpiration: Expiration?
            var memoryAccessExtension: AccessExtension?
            var diskAccessExtension: AccessExtension?
            var waitsForDiskWrite = false
            var durability = Durability.relaxed
            var progressInterval: Duration?
            var fileExtension: String?
            var allowsConstrainedNetwork = true
        }

        var values = Values()
        var retryPolicy: RetryPolicy?
        var callbackQueue: CallbackQueue?
    }

    private var rare: Boxed<Rare>?

    private mutating func change(_ body: (inout Rare) -> Void) {
        var changed = exchange(&rare, with: nil) ?? Boxed(Rare())
        body(&changed.value)
        rare = changed
    }

    private var box: RequestHooks.Box?

    package var hasHooks: Bool { box != nil }

    var hooks: RequestHooks {
        get { box?.hooks ?? .standard }
        set { box = RequestHooks.Box(newValue) }
    }

    /// `nil` if the request was made from a URL.
    private var unparsed: String? {
        get { rare?.value.values.unparsed }
        set { change { $0.values.unparsed = newValue } }
    }
    /// The URL to fetch; `nil` if a provider supplies the bytes, or if the text given was not a URL.
    public private(set) var url: URL? {
        didSet { isPlainlyFetchable = url.map { Self.isPlainlyFetchable($0.absoluteString) } ?? false }
    }
    private var isPlainlyFetchable = false
    /// The header fields to send. They are part of the default key; see ``CacheKey/init(_:headers:)``.
    public var headers: HTTPHeaders = [:]
    /// The entry's key; `nil` for the default key, which is made from URL and headers. See also ``cacheKey``.
    public var key: CacheKey? {
        get { rare?.value.values.key }
        set { change { $0.values.key = newValue } }
    }
    /// The rule for which parameters of the URL are part of the default key; `nil` uses the cache's default,
    /// ``DataCache/Configuration/keyRule``.
    ///
    /// If calls with different URLs share a fetch because of the rule, each attempt uses the URL of the latest call, and a
    /// failure ends no call before that URL has been tried.
    public var keyRule: KeyRule? {
        get { rare?.value.values.keyRule }
        set { change { $0.values.keyRule = newValue } }
    }
    /// The order of the fetch inside its queue.
    public var priority = Priority.normal
    /// The longest time that the fetch may take, from the start of its first attempt, including retries and the waits
    /// between them, and the making of a picture or value from the bytes. Time in the queue of the fetches, paused, or
    /// without a network does not count. `nil` uses the cache's default.
    public var timeout: Duration? {
        get { rare?.value.values.timeout }
        set { change { $0.values.timeout = newValue } }
    }
    /// The policy that says which tiers may answer; `nil` uses the cache's default.
    public var cachePolicy: CachePolicy?
    /// The policy by which a stored answer may be used without asking the server; `nil` uses the cache's default.
    public var freshness: FreshnessPolicy? {
        get { rare?.value.values.freshness }
        set { change { $0.values.freshness = newValue } }
    }
    /// How long a stale answer may be used in place of a failure that may pass; `nil` uses the cache's default,
    /// ``DataCache/Configuration/staleIfError``.
    public var staleIfError: Duration? {
        get { rare?.value.values.staleIfError }
        set { change { $0.values.staleIfError = newValue } }
    }
    /// How long a failure of the server is remembered, and whether this call takes a remembered one for an answer; `nil`
    /// uses the cache's default, ``DataCache/Configuration/failureLifetime``.
    public var failureLifetime: Duration? {
        get { rare?.value.values.failureLifetime }
        set { change { $0.values.failureLifetime = newValue } }
    }
    /// The time for which the entry, or a picture decoded from it, stays valid in memory, counted from when it entered
    /// memory. It may be longer than on disk. If this and the cache's configuration are `nil`, the disk's expiration
    /// applies.
    ///
    /// The expiration also replaces that of an entry in memory. An entry that has expired by it answers this call, and
    /// then leaves memory.
    public var memoryExpiration: Expiration? {
        get { rare?.value.values.memoryExpiration }
        set { change { $0.values.memoryExpiration = newValue } }
    }
    /// The time for which the entry counts as present on disk; `nil` uses the cache's default.
    public var diskExpiration: Expiration? {
        get { rare?.value.values.diskExpiration }
        set { change { $0.values.diskExpiration = newValue } }
    }
    /// The effect of this and later hits in memory on the expiration there; `nil` keeps the entry's own.
    public var memoryAccessExtension: AccessExtension? {
        get { rare?.value.values.memoryAccessExtension }
        set { change { $0.values.memoryAccessExtension = newValue } }
    }
    /// The effect of a hit on disk on the expiration there, for the entry that the call stores and for each hit of the
    /// call itself. `nil` uses the cache's default for an entry that is stored, and the entry's own for a hit.
    public var diskAccessExtension: AccessExtension? {
        get { rare?.value.values.diskAccessExtension }
        set { change { $0.values.diskAccessExtension = newValue } }
    }
    /// The rule for retries of this call, also in a shared fetch; `nil` uses the cache's default.
    public var retryPolicy: RetryPolicy? {
        get { rare?.value.retryPolicy }
        set { change { $0.retryPolicy = newValue } }
    }
    /// Whether the task ends only when the entry is on disk, also if the answer comes from the cache.
    ///
    /// A picture or value in memory is returned at once if the index, which is read on the caller's thread, has its
    /// entry, unless that is to be durable.
    ///
    /// If the disk fails, a task whose entry is to be durable ends with ``DipperError/notWritten``; other tasks do not
    /// fail. A durable entry that the cache has is flushed to the device if it was not.
    ///
    /// ```swift
    /// let request = DataRequest(url).with(\.waitsForDiskWrite, true).with(\.durability, .durable)
    /// let data = try await cache.getData(request).value       // on the device by now
    /// ```
    public var waitsForDiskWrite: Bool {
        get { rare?.value.values.waitsForDiskWrite ?? false }
        set { change { $0.values.waitsForDiskWrite = newValue } }
    }
    /// The point at which the entry counts as written, for ``waitsForDiskWrite`` and
    /// ``DataCache/addDataAndWait(_:for:)-(_,DataRequestConvertible)``. If several calls share a fetch, the entry is durable if
    /// one of them wants it durable.
    public var durability: Durability {
        get { rare?.value.values.durability ?? .relaxed }
        set { change { $0.values.durability = newValue } }
    }
    /// The extension of the file of the entry that the call stores, and of pictures made from it, in place of that of
    /// ``DataCache/Configuration/fileNaming``; `nil`, or text that is not 1 to 8 ASCII letters and digits, leaves it.
    public var fileExtension: String? {
        get { rare?.value.values.fileExtension }
        set { change { $0.values.fileExtension = newValue } }
    }
    /// The queue on which this call's closures run; `nil` uses the cache's queue.
    public var callbackQueue: CallbackQueue? {
        get { rare?.value.callbackQueue }
        set { change { $0.callbackQueue = newValue } }
    }

    /// The shortest time between two reports of progress, or of bytes; `nil` uses the cache's default. If several calls
    /// share a fetch, the shortest interval of these calls holds.
    public var progressInterval: Duration? {
        get { rare?.value.values.progressInterval }
        set { change { $0.values.progressInterval = newValue } }
    }

    /// Whether the call may use a network that is constrained or expensive (see ``NetworkConditions``); `true` by default.
    ///
    /// If not, the call waits for another network as if there were none; if its ``retryPolicy`` does not wait, it ends
    /// with ``DipperError/networkNotAllowed``. A transfer in progress is broken off, and continued later. A fetch may use
    /// the network if one of the calls that share it may, and its queue (``QueueConfiguration``).
    public var allowsConstrainedNetwork: Bool {
        get { rare?.value.values.allowsConstrainedNetwork ?? true }
        set { change { $0.values.allowsConstrainedNetwork = newValue } }
    }

    /// Creates a request for a URL, with the cache's defaults.
    ///
    /// A URL of a file stands for a ``FileProvider``, a `data:` URL for a ``DataURLProvider``; ``url`` is then `nil`. A
    /// program that fetches URLs of strangers sets ``DataCache/Configuration/readsFileURLs`` to `false`.
    public init(_ url: URL) {
        let isPlain = Self.isPlainlyFetchable(url.absoluteString)
        if !isPlain, let provider = url.localProvider {
            self.init(provider)
        } else {
            self.init(url, isPlain: isPlain)
        }
    }

    /// Creates a request for a URL that a server answers, whatever its scheme.
    init(remote url: URL) { self.init(url, isPlain: Self.isPlainlyFetchable(url.absoluteString)) }

    private init(_ url: URL, isPlain: Bool) { (self.url, isPlainlyFetchable) = (url, isPlain) }

    /// Creates a request from text, which becomes a URL as in browsers: space around it is dropped, and characters that a
    /// URL cannot contain are percent-encoded. If it is not a URL, the call ends with ``DipperError/invalidURL``.
    public init(string: String) {
        if DataURL.isScheme(of: string.utf8) {
            self.init(DataURLProvider(string))
        } else if let url = URL(text: string) {
            self.init(url)
        } else {
            self.init(unparsed: string)
        }
    }

    private init(unparsed text: String) { unparsed = text }

    /// Creates a request for the bytes of a provider, under the provider's key. Bytes of a local provider
    /// (``DataProvider/isLocal``) go to disk only if ``cachePolicy`` is set to a policy such as
    /// ``CachePolicy/useCache``.
    public init(_ provider: any DataProvider) {
        url = nil
        unparsed = provider.cacheKey.string
        key = provider.cacheKey
        if provider.isLocal { cachePolicy = .memoryOnly }
        hooks.provider = provider
    }

    /// The provider that supplies the bytes in place of a server; `nil` for requests of a URL.
    public var provider: (any DataProvider)? { hasHooks ? hooks.provider : nil }

    /// Returns a request with the same options for another source, under that source's own key. For another origin the
    /// credentials are removed, and all header fields that may not be sent there.
    func replacing(with source: Source) -> DataRequest {
        var copy = self
        copy.lowDataSource = nil
        copy.url = source.url
        copy.hooks.provider = source.provider
        copy.unparsed = source.provider?.cacheKey.string
        copy.key = source.provider?.cacheKey
        if cachePolicy == nil, source.provider?.isLocal == true { copy.cachePolicy = .memoryOnly }
        if let own = url, let other = source.url, !Redirect.isSameOrigin(own, other) {
            copy.credentials = nil
            copy.headers = Redirect.headers(
                headers, from: own, to: other, sensitive: hooks.sensitiveNames)
        }
        return copy
    }

    /// Returns a request with the same options for another URL that the caller names for the same resource, under that
    /// URL's own key.
    package func at(_ other: URL) -> DataRequest {
        let new = DataRequest(other)
        var copy = self
        copy.url = new.url
        if provider != nil || new.provider != nil { copy.hooks.provider = new.provider }
        if rare != nil || new.rare != nil { (copy.unparsed, copy.key) = (new.unparsed, new.key) }
        copy.cachePolicy = copy.cachePolicy ?? new.cachePolicy
        return copy
    }

    /// Returns a copy with one option changed.
    public func with<Value>(_ option: WritableKeyPath<DataRequest, Value>, _ value: Value) -> DataRequest {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }

    /// The key by which this request is cached and deduplicated: ``key`` or the default key, with the identities of
    /// ``credentials``, ``modifier`` and ``bodyTransform``.
    public var cacheKey: CacheKey {
        let plain = key ?? keyURL.map { CacheKey($0, headers: headers) } ?? CacheKey(unparsed ?? "")
        guard let mark = box?.mark else { return plain }
        return plain.marked(mark)
    }

    /// The URL as it is part of the key.
    private var keyURL: URL? {
        guard let url, let rule = keyRule else { return url }
        return rule.applied(to: url)
    }

    /// Whether the key leaves out a part of the URL, such as its signature.
    var isKeyedByPart: Bool { keyRule != nil && keyURL?.withoutFragment.utf8.count != url?.withoutFragment.utf8.count }

    /// Returns the key of the URL alone; `nil` if that is the request's `own` key.
    func plainKey(beside own: CacheKey) -> CacheKey? {
        guard let url = keyURL, key != nil || !headers.isEmpty || box?.mark != nil else { return nil }
        let plain = CacheKey(url)
        return plain == own ? nil : plain
    }

    /// Whether the answers belong to a hook without a declared identity, which another process could not recognize.
    var isForThisProcess: Bool { box?.hooks.isAnonymous ?? false }

    /// The policy that applies. Answers for this process alone do not go to disk.
    func policy(_ byDefault: CachePolicy) -> CachePolicy {
        let policy = cachePolicy ?? byDefault
        guard isForThisProcess, [.useCache, .diskOnly, .fromMemoryOrRefresh].contains(policy) else { return policy }
        return .memoryOnly
    }

    package var decidesMemoryLifetime: Bool {
        rare.map { $0.value.values.memoryExpiration != nil || $0.value.values.memoryAccessExtension != nil } ?? false
    }

    /// Returns whether one call of the cache can serve callers with either request. They have the same key. Two retry
    /// policies cannot be compared, and hooks only if one request is a copy of the other.
    func isServed(like other: DataRequest) -> Bool {
        let (own, others) = (rare?.value ?? Rare(), other.rare?.value ?? Rare())
        return box === other.box && url == other.url && headers == other.headers && cachePolicy == other.cachePolicy
            && own.retryPolicy == nil && others.retryPolicy == nil && own.values == others.values
    }

    /// The URL's text without user and fragment, and without what ``keyRule`` leaves out, as it is kept with an entry.
    package var address: String { keyURL?.withoutFragment ?? unparsed ?? "" }

    /// The URL whose entry is kept under a key; see ``RemovalHistory/removeAll(of:from:)``.
    func address(of key: CacheKey) -> String? { keyURL?.withoutFragment ?? key.address }

    /// The text of the URL, or the text or provider's key that the request was made from. It may contain secrets.
    public var urlString: String { url?.absoluteString ?? unparsed ?? "" }

    /// The error with which every call for this request ends; `nil` if there is none.
    var defect: DipperError? {
        if let key, key.isEmpty { return .emptyKey }
        guard headers.isWellFormed else { return .invalidHeader }
        if hasHooks, hooks.provider != nil { return nil }
        // The modifier may turn any URL into one that can be fetched.
        if hasHooks, hooks.modifier != nil, url != nil { return nil }
        if isPlainlyFetchable { return nil }
        guard let url, let scheme = url.scheme else {
            return .invalidURL.with(detail: "'\(Redaction.standard.text(urlString))'")
        }
        guard ["http", "https"].contains(scheme.lowercased()) else {
            return .unsupportedScheme.with(detail: scheme)
        }
        guard let host = url.host(percentEncoded: false), !host.isEmpty else {
            return .invalidURL.with(detail: "'\(Redaction.standard.text(urlString))'")
        }
        return nil
    }

    /// Whether the text is an http or https URL whose host is neither empty nor an address in brackets.
    /// Such a URL is not taken apart, because that costs more than a memory hit.
    private static func isPlainlyFetchable(_ text: String) -> Bool {
        var rest = text.utf8[...]
        guard rest.starts(with: "http".utf8) else { return false }
        rest = rest.dropFirst(4)
        if rest.first == UInt8(ascii: "s") { rest = rest.dropFirst() }
        guard rest.starts(with: "://".utf8), let host = rest.dropFirst(3).first else { return false }
        return host.isUnreserved
    }

    /// Returns whether two requests ask for the same in the same way. Closures, policies, credentials and providers
    /// cannot be compared: requests that have any are equal only if one is a copy of the other in that respect.
    public static func == (a: Self, b: Self) -> Bool {
        guard a.priority == b.priority else { return false }
        if let own = a.rare, let other = b.rare, own === other {
            return a.box === b.box && a.url == b.url && a.headers == b.headers && a.cachePolicy == b.cachePolicy
        }
        return a.callbackQueue == nil && b.callbackQueue == nil && a.isServed(like: b)
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(url)
        hasher.combine(key)
    }

    /// The URL or key without secrets, and the names of the header fields.
    public var description: String {
        let fields = headers.isEmpty ? "" : " \(headers)"
        return Redaction.standard.text(urlString.isEmpty ? cacheKey.string : urlString) + fields
    }
}
