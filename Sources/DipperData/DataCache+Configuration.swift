import Foundation
import Logging

extension DataCache {
    /// The options of a cache. Every option has a default.
    ///
    /// ```swift
    /// var configuration = DataCache.Configuration(directory: DataCache.Configuration.defaultDirectory)
    /// configuration.memoryLimit = 64 << 20
    /// configuration.diskLimit = 1 << 30
    /// configuration.retryPolicy = .fixed(.seconds(2), retries: 5)
    /// let cache = DataCache(configuration)
    /// ```
    public struct Configuration: Sendable {
        /// The name of the cache in metrics and in the names of its threads.
        public var name = "data"
        /// The folder of the disk tier; `nil` for memory only. Caches and processes of one user may share a folder;
        /// see ``leases``.
        ///
        /// The cache creates the folder with mode 0700, or takes an empty one, and marks it with a file named
        /// `dipper-cache`. It refuses a folder that is neither empty nor marked, or that belongs to another user: it
        /// changes nothing there, works in memory only, and logs an error.
        public var directory: URL?

        /// The largest total size of the entries in memory, in bytes; by default 15 % of the memory of the machine or, if
        /// less, of the control group, at most 768 MiB. An entry larger than a tenth of it is not kept.
        public var memoryLimit: Int {
            get { givenMemoryLimit ?? Configuration.defaultMemoryLimit }
            set { givenMemoryLimit = newValue }
        }
        package private(set) var givenMemoryLimit: Int?
        /// The largest number of entries in memory; `nil` for no limit.
        public var memoryCountLimit: Int?
        /// The largest total size of the typed values in memory, in bytes; by default a quarter of the default of
        /// ``memoryLimit``, at most 64 MiB. A value larger than a tenth of the limit is not kept. See
        /// ``DataCache/getValue(_:from:decoder:)``.
        public var valueMemoryLimit = min(Configuration.defaultMemoryLimit / 4, 64 << 20)
        /// The largest total size of the entries on disk, in bytes; `nil` for no limit. On a volume that is small or
        /// nearly full it is less: three quarters of what the entries have and what is free.
        public var diskLimit: Int? = 512 << 20
        /// The rule that decides which entries and decoded pictures leave first when memory or disk is full.
        public var evictionOrder = EvictionOrder.adaptive
        /// The bytes that may wait to be written to disk before prefetching pauses; twice as many stop all new fetches.
        public var stagingLimit = 8 << 20
        /// The largest total size of the partial bodies of interrupted transfers, in bytes, in addition to
        /// ``diskLimit``; zero keeps none. They are kept for a week, so that a later transfer can resume; the oldest
        /// leave first. A body that still arrives does not count.
        ///
        /// A cache without a folder keeps them in memory, in addition to ``memoryLimit``: at most 32 MiB, at most a
        /// quarter of ``inFlightLimit``, and none while memory is short.
        public var partialLimit = 128 << 20
        /// The machine's present boot. When it has changed, the disk tier compares its files with its index, because
        /// changes that were not flushed may be lost.
        package var boot = Boot.current
        /// The faults that a test orders; `nil` for none.
        package var diskFaults: (any DiskFaults)?
        /// The rule that names the files on disk.
        public var fileNaming = FileNaming.sha256
        /// Whether bodies are compressed on disk, which is worth its time for text and JSON. By default they are not,
        /// so that other programs can open the files of the larger entries.
        public var compression = StorageCompression.off
        /// The transformation of all that is written to disk and to the ``tiers``, such as encryption; `nil` for none.
        public var recordCodec: (any RecordCodec)?

        /// The tiers that are asked, in this order, for entries that neither memory nor disk has; see ``Tier``.
        public var tiers: [any Tier] = []
        /// The longest that a look-up in one of the ``tiers`` may take before the next one, or the network, is asked.
        public var tierTimeLimit = Duration.milliseconds(20)

        /// How caches and processes that share the folder, or a service of the program's, fetch a key once for all of
        /// them.
        ///
        /// While one fetches, the others wait without a slot of a queue. As soon as the entry is on disk they take it
        /// from there. They share a status that says something about the URL, such as 404 or 503, as well, and an
        /// urgent call turns the prefetch of another process into an urgent fetch. Who asks the network alone, such as
        /// by ``DataCache/getRemoteData(_:)``, does not wait.
        ///
        /// ```swift
        /// configuration.leases.patience = .seconds(2)     // then one more fetches beside a process that hangs
        /// configuration.leases.sharesFolder = false       // each process for itself
        /// ```
        public var leases = LeaseOptions()

        /// The cache policy of requests that have none of their own.
        public var cachePolicy = DataRequest.CachePolicy.useCache
        /// The rule that decides whether a stored answer may be used without asking the server.
        public var freshness = FreshnessPolicy.http()
        /// How long a stale answer may be used in place of a failure that may pass, unless the server has forbidden it with
        /// `no-cache` or `must-revalidate`; `.zero` for never.
        ///
        /// With `nil`, the default, the server's `stale-if-error` says how long. Without that field an answer of any age is
        /// used if the server cannot be reached: the connection is refused, lost or too slow, or a gateway says so with
        /// 502, 503 or 504. While there is no network, an answer of any age is used in either case.
        public var staleIfError: Duration?
        /// How long the cache remembers that a server has answered with a failure that lasts: 404, 405, 410, 414, 451 or
        /// 501. Until then calls for the key end with that failure at once, also without a network and after a restart,
        /// and are not retried. `.zero` remembers no failures.
        ///
        /// A server that says how long any failure is fresh decides for itself, for an hour or this time at most. Calls
        /// that use the network only, such as those of ``DataCache/getRemoteData(_:)``, ask the server. A success, and
        /// every removal of the entry, ends the memory. A failure takes the place of no entry.
        ///
        /// ```swift
        /// cache.getData(url).onEnd { result in
        ///     if case .failure(let error) = result, error.isRemembered { print("was not there a minute ago") }
        /// }
        /// ```
        public var failureLifetime = Duration.seconds(60)
        /// How long entries, and pictures decoded from them, stay valid in memory, counted from when they entered
        /// memory. This time may be longer than ``diskExpiration``. With `nil` the disk's expiration applies.
        public var memoryExpiration: Expiration?
        /// How long entries count as present on disk. With `nil`, the default, they stay as long as there is room,
        /// unless ``freshness`` has an expiration.
        ///
        /// ``freshness`` decides whether an entry that is present may be used. If this expiration is set, an answer
        /// whose server says nothing of its freshness is fresh for as long as its entry is present.
        public var diskExpiration: Expiration?
        /// How a hit in memory changes the entry's expiration there.
        public var memoryAccessExtension = AccessExtension.unchanged
        /// How a hit on disk changes the entry's expiration there.
        public var diskAccessExtension = AccessExtension.unchanged
        /// The rule that decides when to try again after a failure that may pass.
        public var retryPolicy = RetryPolicy.default
        /// The longest that a fetch may take; see ``DataRequest/timeout``. `nil` for no limit but those of ``network``.
        public var timeout: Duration?
        /// The rule for which parameters of URLs are part of the default key; with `nil`, the default, all are, in their
        /// order. It holds wherever the cache is given a URL or a request, but not for a ``CacheKey``.
        public var keyRule: KeyRule?
        /// A closure that completes each request of the cache, for the options that have no default here: header
        /// fields, credentials, a modifier, redirects, validation, alternatives. Its changes are part of the key as if
        /// the caller had made them. The cache calls it once for each call and look-up: it must be fast, and must
        /// always do the same.
        ///
        /// ```swift
        /// configuration.completeRequest = { request in
        ///     if request.url?.host() == "api.example.org" { request.credentials = .bearer(token) }
        ///     request.waitsForDiskWrite = true
        /// }
        /// ```
        public var completeRequest: (@Sendable (inout DataRequest) -> Void)?
        /// The queue on which closures run; `nil` for a serial queue of the cache's own. An `ImageBinding` without a queue
        /// calls its display on a queue that is set here if it is a ``CallbackQueue/custom(_:)``, which must then be the
        /// displays' loop: serial, and on their thread.
        public var callbackQueue: CallbackQueue?
        /// The shortest time between two reports of a task's progress.
        public var progressInterval = Duration.milliseconds(100)

        /// The largest number of bytes that the bodies of all fetches together may hold in memory, received parts of
        /// bodies that wait for their next attempt included.
        ///
        /// At the limit one transfer continues, an urgent one if there is one. The others pause and no other transfer
        /// starts, until a quarter of the limit is free again. A body larger than the limit is fetched alone.
        ///
        /// By default an eighth of the memory of the machine or, if less, of the control group.
        public var inFlightLimit = Configuration.availableMemory / 8

        /// The limits and the order of `fastQueue` when the cache is created; see ``DataCache/fastQueue``.
        public var fastQueue = QueueConfiguration.fast
        /// The limits and the order of `slowQueue` when the cache is created; see ``DataCache/slowQueue``.
        public var slowQueue = QueueConfiguration.slow

        /// The number of redirects that are followed before the fetch fails.
        public var maximumRedirects = 10
        /// Whether requests that are made from the URL of a file read that file; otherwise they end with
        /// ``DipperError/unsupportedScheme``. A program that fetches URLs of strangers must not read files for them.
        ///
        /// ```swift
        /// configuration.readsFileURLs = false
        /// configuration.network.addressPolicy = .publicOnly
        /// ```
        public var readsFileURLs = true
        /// The limits and options of the transport built on libcurl; without effect if ``transport`` is set.
        public var network = CurlConfiguration()
        /// A closure that decides about the TLS of each https origin: whom to trust there, and who the client is. `nil`
        /// for the options of ``network`` everywhere. Without effect on the TLS of a proxy.
        ///
        /// The cache calls it once with the URL of an origin, such as `https://api.example.org:8443`, before it first
        /// connects there, also for a redirect; calls wait for it within their ``timeout``. The answer holds for an
        /// hour, for the thousand origins used last: `nil` for the options of ``network``, or an error with which all
        /// calls to the origin end.
        /// An error that is no ``DipperError`` becomes ``DipperError/tlsRejected``. After an error that may pass
        /// (``DipperError/mayPass``) the next attempt asks again.
        ///
        /// ```swift
        /// configuration.answerTLSChallenge = { origin in
        ///     origin.host() == "nas.local" ? TLSAnswer(authorities: house) : nil
        /// }
        /// ```
        public var answerTLSChallenge: (@Sendable (_ origin: URL) async throws -> TLSAnswer?)?
        /// The credentials for the HTTP proxy; `nil` for user and password in the proxy's URL. They are sent to the
        /// proxy only, and are no part of any key. A 407 in spite of them ends the call.
        ///
        /// ```swift
        /// configuration.network.proxy = "http://proxy:3128"
        /// configuration.proxyCredentials = .basic(user: "kiosk", password: password)
        /// ```
        public var proxyCredentials: Credentials?
        /// The transport that moves the bytes; `nil` for the one built on libcurl.
        public var transport: (any Transport)?
        /// The monitor that tells which hosts can be reached. The default asks the kernel.
        public var networkMonitor: any NetworkMonitor = NetlinkMonitor.shared

        /// The monitor that tells how short memory is. The default asks the kernel; with `nil` memory is never short.
        /// Under moderate pressure the memory tier keeps half of its limit, under severe pressure nothing.
        public var memoryPressure: (any MemoryPressureMonitor)? = KernelMemoryPressure.shared

        /// The clock that waits, back-offs and time limits run on.
        public var clock: any Clock<Duration> = ContinuousClock()
        /// The time that expirations are measured by: a closure that returns the date now.
        public var now: @Sendable () -> Date = WallClock.coarse
        /// The logger for requests, responses, the store, the queues, decoding and memory. Each message has its topic as
        /// `category` in the metadata.
        ///
        /// The default logs warnings and errors where swift-log has the program's logs: on standard error, unless
        /// `LoggingSystem.bootstrap` says otherwise before the configuration is made. `logger.logLevel = .info` also logs
        /// each failed request, `.debug` each request; `Logger(label: "dipper") { _ in SwiftLogNoOpLogHandler() }` logs
        /// nothing.
        public var logger = Logger.warnings
        /// The rule that removes secrets from keys and errors in the log.
        public var redaction = Redaction.standard
        /// The sinks that receive the cache's events from the beginning, on the threads that do the work, such as a
        /// `Timeline` of `DipperInspector`. Listeners that take their time use ``DataCache/events``.
        public var eventSinks: [any EventSink] = []

        /// Creates the default configuration of a cache in memory only.
        public init() {}

        /// Creates the default configuration of a cache with a folder.
        public init(directory: URL?) {
            self.directory = directory
        }

        /// Creates the default configuration of a cache with a name, and a folder of its own for that name beside that of
        /// the shared cache. Caches with one name share a folder.
        ///
        /// The folder of `feeds` is `dipper/named-data/feeds` in a folder with the program's name in `$XDG_CACHE_HOME`,
        /// or else in `~/.cache`. Any text is a name. In the name of the folder, all but ASCII letters, digits, `-`,
        /// `_` and `~` is percent-encoded, so that a name such as `../..` leads nowhere else. If that is longer than 200
        /// characters, it is cut, and the name's SHA-256 follows.
        public init(name: String) {
            self.init(directory: Self.directory(named: name, in: "named-data"))
            self.name = name
        }

        package static func directory(named name: String, in folder: String) -> URL {
            let bytes = name.utf8.flatMap { byte in
                byte.isUnreserved && byte != UInt8(ascii: ".") ? [byte] : PercentCoding.escape(byte)
            }
            var component = String(decoding: bytes, as: UTF8.self)
            // No other name has these folders: in encoded text, two hexadecimal digits follow each `%`.
            if component.isEmpty { component = "%" }
            if bytes.count > 200 { component = "\(component.prefix(128))%-\(MessageDigest.sha256.hex(name))" }
            return programsCaches.appendingPathComponent(folder).appendingPathComponent(component, isDirectory: true)
        }

        /// The machine's memory, or that of the control group if it is less, in bytes.
        package static var availableMemory: Int { MemoryLimit.available() }

        package static var defaultMemoryLimit: Int { min(availableMemory / 100 * 15, 768 << 20) }

        /// The folder of the shared cache: `dipper/data` in a folder with the program's name in `$XDG_CACHE_HOME`, or else
        /// in `~/.cache`.
        public static var defaultDirectory: URL { programsCaches.appendingPathComponent("data") }

        /// The parent of the folders of all caches, none of which lies in another one: a cache takes only an empty folder.
        package static var programsCaches: URL {
            usersCaches.appendingPathComponent(ProcessInfo.processInfo.processName).appendingPathComponent("dipper")
        }

        package static var usersCaches: URL {
            if let path = ProcessInfo.processInfo.environment["XDG_CACHE_HOME"], path.hasPrefix("/") {
                return URL(fileURLWithPath: path, isDirectory: true)
            }
            return FileManager.default.homeDirectoryForCurrentUser.appendingPathComponent(".cache")
        }
    }
}

extension SharedTiers {
    convenience init?(_ configuration: DataCache.Configuration, _ history: RemovalHistory, _ time: TimeSource) {
        guard !configuration.tiers.isEmpty else { return nil }
        self.init(
            configuration.tiers, timeLimit: configuration.tierTimeLimit,
            format: RecordFormat(codec: configuration.recordCodec), history: history, time: time,
            now: configuration.now, logger: configuration.logger.category("cache"))
    }
}

extension MemoryTier where Value == StoredData {
    convenience init(
        remnantsOf configuration: DataCache.Configuration, hasDisk: Bool, _ history: RemovalHistory,
        _ expiries: ExpiryWatch
    ) {
        // The share of the budget for bodies is that of parked fetches. With a disk there are only failures.
        let limit = hasDisk ? 1 << 20 : min(32 << 20, configuration.inFlightLimit / 4, configuration.partialLimit)
        self.init(
            limits: .init(cost: limit, largestShare: 1), order: .leastRecentlyUsed, history: history,
            now: configuration.now, expiries: expiries, onCleaned: nil)
    }
}

extension DiskTier.Options {
    init(_ configuration: DataCache.Configuration, folder: URL) {
        self.init(
            folder: folder.path, sizeLimit: configuration.diskLimit, stagingLimit: configuration.stagingLimit,
            partialLimit: configuration.partialLimit, naming: configuration.fileNaming,
            compression: configuration.compression, recordCodec: configuration.recordCodec,
            evictionOrder: configuration.evictionOrder.onDisk, boot: configuration.boot,
            faults: configuration.diskFaults, sharesLeases: configuration.leases.sharesFolder,
            name: configuration.name)
    }
}
