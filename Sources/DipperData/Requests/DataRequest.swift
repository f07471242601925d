import Foundation

/// What to fetch, and how: a value.
///
/// Everything but the URL has a default, most of them set by the cache's ``DataCache/Configuration``. Options are
/// set as properties, or chained:
///
/// ```swift
/// let request = DataRequest(url).with(\.headers, ["Accept": "application/json"]).with(\.priority, .high)
/// ```
public struct DataRequest: Sendable {
    /// What the cache may answer, and where the answer is kept.
    public enum CachePolicy: Sendable, Hashable, CaseIterable {
        /// Memory, disk, network; kept in both tiers. What is stored must be fresh, or the server says that it still
        /// holds (see ``FreshnessPolicy``).
        case useCache
        /// Memory, network; kept in memory. The disk is neither read nor written.
        case memoryOnly
        /// Memory, disk, also what is out of date unless the server has forbidden that; else
        /// ``DipperError/notCached``.
        case cacheOnly
        /// Network; kept in both tiers.
        case ignoreCache
        /// Memory, network; kept in both tiers.
        case fromMemoryOrRefresh
        /// Network; nothing is read and nothing is kept, not even the beginning of a body that breaks off. A download that
        /// has nothing to do with the cache but its queues, retries and hooks. It shares a fetch with other calls for its
        /// key: what they want kept is kept.
        case bypass
    }

    private var box: RequestHooks.Box?

    package var hasHooks: Bool { box != nil }

    var hooks: RequestHooks {
        get { box?.hooks ?? .standard }
        set { box = RequestHooks.Box(newValue) }
    }

    /// The text the request was made from, if it is not a URL that can be fetched.
    private var unparsed: String?
    /// What to fetch; `nil` if a provider brings the bytes, or if the text given was not a URL, in which case each call
    /// ends with ``DipperError/invalidURL``.
    public private(set) var url: URL?
    /// Fields to send. They are part of the default key, but for `Cache-Control` and `Pragma`, which tell the cache what
    /// will do (RFC 9111, section 5.2.1).
    public var headers: HTTPHeaders = [:]
    /// The entry's key; `nil` for the default key, which is made from URL and headers. The identities of
    /// ``credentials`` and ``modifier`` are added to either.
    public var key: CacheKey?
    /// The order inside the queue.
    public var priority = Priority.normal
    /// The longest the fetch may take from the start of its first attempt, retries and the waits between them
    /// included; time in the queue, paused, or without a network does not count. `nil` for the cache's default.
    public var timeout: Duration?
    /// What the cache may answer; `nil` for the cache's default, as for all that follow.
    public var cachePolicy: CachePolicy?
    /// What decides whether a stored answer may be used without asking the server.
    public var freshness: FreshnessPolicy?
    /// How long the entry, or a picture decoded from it, stays valid in memory, counted from when it entered memory.
    /// This time may be longer than on disk. If this and the cache's configuration are `nil`, the disk's expiration
    /// applies.
    public var memoryExpiration: Expiration?
    /// How long the entry counts as present on disk.
    public var diskExpiration: Expiration?
    /// What a hit in memory does to the expiration there.
    public var memoryAccessExtension: AccessExtension?
    /// What a hit on disk does to the expiration there.
    public var diskAccessExtension: AccessExtension?
    /// When to try again. Each call keeps its own policy, also when several share a fetch.
    public var retryPolicy: RetryPolicy?
    /// The task ends only when the entry is on disk, also if the cache has it already and is still writing it. A disk that
    /// fails does not fail the task, unless the entry is to be durable: then the task ends with ``DipperError/notWritten``.
    ///
    /// A task that is to be durable brings to the device what the cache has but has not flushed.
    public var waitsForDiskWrite = false
    /// When the entry counts as written: once the system has it, or once the device has. To be waited for with
    /// ``waitsForDiskWrite`` or ``DataCache/addDataAndWait(_:for:)-(_,DataRequest)``. Of several calls that share a fetch
    /// one that wants it durable decides.
    public var durability = Durability.relaxed
    /// Where this call's closures run; `nil` for the cache's queue.
    public var callbackQueue: CallbackQueue?

    /// A request for a URL, with the cache's defaults.
    public init(_ url: URL) {
        self.url = url
        unparsed = nil
    }

    /// A request from text. Text that is not a URL is no error here: the call that uses it ends with
    /// ``DipperError/invalidURL``.
    public init(string: String) {
        url = URL(string: string)
        unparsed = string
    }

    /// A request for what a provider brings, under its key. What is ``DataProvider/isLocal`` is kept in memory only, unless
    /// ``cachePolicy`` is set.
    public init(_ provider: any DataProvider) {
        url = nil
        unparsed = provider.cacheKey.string
        key = provider.cacheKey
        if provider.isLocal { cachePolicy = .memoryOnly }
        hooks.provider = provider
    }

    /// Brings the bytes in place of a server; `nil` for requests of a URL.
    public var provider: (any DataProvider)? { hasHooks ? hooks.provider : nil }

    /// The same options for another source, under its own key.
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
                headers, from: own, to: other, sensitive: Set(sensitiveHeaders.map { $0.lowercased() }))
        }
        return copy
    }

    /// A copy with one option changed.
    public func with<Value>(_ option: WritableKeyPath<DataRequest, Value>, _ value: Value) -> DataRequest {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }

    /// The key by which this request is cached and deduplicated: ``key`` or the default key, with the identities of
    /// ``credentials`` and ``modifier``.
    public var cacheKey: CacheKey {
        let plain = key ?? url.map { CacheKey($0, headers: headers) } ?? CacheKey(unparsed ?? "")
        guard let mark = box?.mark else { return plain }
        return plain.marked(mark)
    }

    /// Whether the answers are for the holder of this request's hooks, who cannot be known again by another process.
    var isForThisProcess: Bool { box?.hooks.isAnonymous ?? false }

    /// The policy that holds. What is for this process alone does not go to disk.
    func policy(_ byDefault: CachePolicy) -> CachePolicy {
        let policy = cachePolicy ?? byDefault
        guard isForThisProcess, policy == .useCache || policy == .fromMemoryOrRefresh else { return policy }
        return .memoryOnly
    }

    /// The URL without user and fragment, as it is kept with an entry.
    var address: String { url?.withoutFragment ?? unparsed ?? "" }

    /// The request's text, for logs and reports.
    public var urlString: String { url?.absoluteString ?? unparsed ?? "" }

    /// Why this request can never be fetched; `nil` if it can.
    var defect: DipperError? {
        if let key, key.isEmpty { return .emptyKey }
        guard headers.isWellFormed else { return .invalidHeader }
        if hasHooks, hooks.provider != nil { return nil }
        if let url, Self.isPlainlyFetchable(url.absoluteString) { return nil }
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

    /// True for what needs no closer look: nearly every URL. Taking a URL apart costs more than a memory hit.
    private static func isPlainlyFetchable(_ text: String) -> Bool {
        var rest = text.utf8[...]
        guard rest.starts(with: "http".utf8) else { return false }
        rest = rest.dropFirst(4)
        if rest.first == UInt8(ascii: "s") { rest = rest.dropFirst() }
        guard rest.starts(with: "://".utf8), let host = rest.dropFirst(3).first else { return false }
        switch host {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: return true
        default: return false
        }
    }
}

extension DataRequest: RedactedStringConvertible {
    /// The URL or key without secrets, and the names of the fields.
    public var description: String {
        let fields = headers.isEmpty ? "" : " \(headers)"
        return Redaction.standard.text(urlString.isEmpty ? cacheKey.string : urlString) + fields
    }
}
