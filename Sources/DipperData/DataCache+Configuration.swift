import Foundation
import Logging

extension DataCache {
    /// How a cache is set up. Every value has a default.
    public struct Configuration: Sendable {
        /// Tells caches apart in metrics and by the names of their threads.
        public var name = "data"
        /// The disk tier's folder; `nil` for a cache in memory only. Several caches and processes of one user may share
        /// one.
        ///
        /// The cache creates the folder with mode 0700, or takes an empty one, and marks it as its own with a file named
        /// `dipper-cache`; nobody else can read the files in it. The cache refuses a folder that is neither empty nor
        /// marked, or that belongs to another user: it changes nothing there, works in memory only, and logs an error.
        public var directory: URL?

        /// The most the memory tier may hold, in bytes. An entry may take a tenth of it.
        public var memoryLimit = Configuration.defaultMemoryLimit
        /// The most entries in memory; `nil` for no limit.
        public var memoryCountLimit: Int?
        /// The most the disk tier may hold, in bytes; `nil` for no limit.
        public var diskLimit: Int? = 512 << 20
        /// Bytes that may wait to be written before prefetching pauses; at twice as many nothing is started.
        public var stagingLimit = 8 << 20
        /// The most that partial bodies of interrupted transfers may take on disk, in bytes, in addition to
        /// ``diskLimit``. They are kept for a week, so that a later transfer can resume; zero keeps none.
        public var partialLimit = 128 << 20
        /// Names the time since the machine was started. Files and index are compared when it has changed: what was not
        /// flushed before that may be lost.
        package var boot = Boot.current
        /// How files on disk are named.
        public var fileNaming = FileNaming.sha256
        /// Whether bodies are compressed on disk. Off, because the larger entries are files that other programs can open;
        /// to be turned on for text, JSON and the like. Done by the threads that write and read the disk.
        public var compression = StorageCompression.off

        /// Defaults of requests.
        public var cachePolicy = DataRequest.CachePolicy.useCache
        /// What decides whether a stored answer may be used without asking the server.
        public var freshness = FreshnessPolicy.http()
        /// How long entries, and pictures decoded from them, stay valid in memory, counted from when they entered
        /// memory. This time may be longer than ``diskExpiration``. With `nil` the disk's expiration applies.
        public var memoryExpiration: Expiration?
        /// How long entries count as present on disk, also where the server is silent. `nil`, the default: as long as
        /// there is room; whether they may be used is for ``freshness`` to say.
        public var diskExpiration: Expiration?
        /// What a hit in memory does to an entry's expiration there.
        public var memoryAccessExtension = AccessExtension.unchanged
        /// What a hit on disk does to an entry's expiration there.
        public var diskAccessExtension = AccessExtension.unchanged
        /// When to try again after a failure that may pass.
        public var retryPolicy = RetryPolicy.default
        /// The longest a fetch may take; see ``DataRequest/timeout``. `nil` for no limit but those of the network.
        public var timeout: Duration?
        /// Where closures run; `nil` for a serial queue of the cache's own.
        public var callbackQueue: CallbackQueue?
        /// The shortest time between two reports of a task's progress.
        public var progressInterval = Duration.milliseconds(100)

        /// The most bytes of bodies that all running transfers together may have received. At the limit one transfer
        /// continues, an urgent one if there is one; the others pause and no transfer starts, not even an urgent one,
        /// until a quarter of the limit is free again. A body larger than the limit is fetched alone.
        public var inFlightLimit = Configuration.defaultInFlightLimit

        /// The rules of `fastQueue` at the start; see ``DataCache/fastQueue``.
        public var fastQueue = QueueConfiguration.fast
        /// The rules of `slowQueue` at the start; see ``DataCache/slowQueue``.
        public var slowQueue = QueueConfiguration.slow

        /// Redirects followed before giving up.
        public var maximumRedirects = 10
        /// Limits and options of the network; without effect if `transport` is set.
        public var network = CurlConfiguration()
        /// Moves the bytes; `nil` for libcurl.
        public var transport: (any Transport)?
        /// Tells whether hosts can be reached; by default the kernel is asked.
        public var networkMonitor: any NetworkMonitor = NetlinkMonitor.shared

        /// Tells how short memory is: while pressure is moderate the memory tier keeps half of its limit, while it is
        /// severe nothing. By default the kernel is asked; `nil` for memory that is never short.
        public var memoryPressure: (any MemoryPressureMonitor)? = KernelMemoryPressure.shared

        /// Waits, back-offs and time limits run on this clock.
        public var clock: any Clock<Duration> = ContinuousClock()
        /// The time that expirations are measured by.
        public var now: @Sendable () -> Date = WallClock.coarse
        /// Told of requests, responses, the store and the queues, each as a `category` in the metadata.
        public var logger = Logger(label: "dipper")
        /// The rule that removes secrets from keys and errors in the log.
        public var redaction = Redaction.standard
        /// Told of everything that happens, from any thread; must return at once. See ``Timeline``.
        public var observer: (@Sendable (CacheEvent) -> Void)?

        /// A cache in memory only, with defaults.
        public init() {}

        /// A cache with a folder.
        public init(directory: URL?) {
            self.directory = directory
        }

        /// Memory for this process, in bytes: the machine's, or what the control group allows if that is less.
        package static var availableMemory: Int { MemoryLimit.available }

        /// The default of ``memoryLimit``: 15 % of the machine's memory, or of what the control group allows if that is
        /// less; at most 768 MiB.
        public static var defaultMemoryLimit: Int {
            min(MemoryLimit.available / 100 * 15, 768 << 20)
        }

        /// The default of ``inFlightLimit``: an eighth of the machine's memory, or of what the control group allows if
        /// that is less.
        public static var defaultInFlightLimit: Int { MemoryLimit.available / 8 }

        /// The folder of the shared cache: `$XDG_CACHE_HOME`, or `~/.cache`, then the program's name, then
        /// `dipper`.
        public static var defaultDirectory: URL {
            let environment = ProcessInfo.processInfo.environment
            let base: URL
            if let path = environment["XDG_CACHE_HOME"], path.hasPrefix("/") {
                base = URL(fileURLWithPath: path, isDirectory: true)
            } else {
                base = FileManager.default.homeDirectoryForCurrentUser.appendingPathComponent(".cache")
            }
            return base.appendingPathComponent(ProcessInfo.processInfo.processName)
                .appendingPathComponent("dipper")
        }
    }
}
