import Foundation

extension ImageCache {
    /// How a cache is set up. Every value has a default.
    public struct Configuration: Sendable {
        /// Of the data cache that has the files: folder, queues, network, retries and all else that concerns bytes. Its
        /// memory limit is that of undecoded bytes in memory; `DataCache.Configuration.memoryLimit` as it is by default
        /// means: none with a folder, an eighth of ``memoryLimit`` without one.
        public var data: DataCache.Configuration
        /// A data cache that is there already, in place of one made of ``data``; it is not shut down with this cache.
        public var originals: DataCache?

        /// The most that decoded pictures may take in memory, in bytes. A picture may take a tenth of it.
        public var memoryLimit = DataCache.Configuration.defaultMemoryLimit
        /// The most pictures in memory; `nil` for no limit.
        public var memoryCountLimit: Int?

        /// For requests that say nothing.
        public var options = ImageOptions()
        /// The formats that can be read and written.
        public var codecs = CodecRegistry.standard
        /// The most that a picture may ask for.
        public var limits = DecodeLimits()
        /// Threads that decode and process.
        public var decodingThreads = max(1, min(8, ProcessInfo.processInfo.activeProcessorCount))
        /// The most memory that all pictures together may take while they are decoded and processed, in bytes. Pictures
        /// that do not fit wait, urgent ones first; a picture larger than the limit is decoded alone.
        public var decodingMemory = defaultDecodingMemory
        /// The most bytes of files that may wait in memory to be decoded, for the whole cache. Once so many wait, no fetch
        /// begins and nothing more is read from disk by calls of its data caches, urgent or not and for data of any kind,
        /// until a quarter of them is decoded; what was on its way still comes. Prefetches stop at
        /// half of it. A file that is larger is fetched and decoded all the same.
        public var undecodedBytes = defaultUndecodedBytes
        /// Where ``ImageCache/imageNamed(_:)`` looks, in this order.
        public var resourceFolders = [Bundle.main.resourceURL ?? Bundle.main.bundleURL]

        /// A cache in memory only, with defaults.
        public init() {
            self.init(directory: nil)
        }

        /// A cache with a folder.
        public init(directory: URL?) {
            data = DataCache.Configuration(directory: directory)
            data.name = "images"
        }

        /// The default of ``decodingMemory``: an eighth of the machine's memory, or of what the control group allows if
        /// that is less; at least 64 MiB and at most 1 GiB.
        public static var defaultDecodingMemory: Int {
            min(max(DataCache.Configuration.availableMemory / 8, 64 << 20), 1 << 30)
        }

        /// A 32nd of the machine's memory, or of what the control group allows if that is less; at least 16 MiB and at most
        /// 128 MiB.
        public static var defaultUndecodedBytes: Int {
            min(max(DataCache.Configuration.availableMemory / 32, 16 << 20), 128 << 20)
        }

        /// The folder of the shared cache: `images` in that of the shared data cache.
        public static var defaultDirectory: URL {
            DataCache.Configuration.defaultDirectory.appendingPathComponent("images")
        }

        var dataConfiguration: DataCache.Configuration {
            var data = data
            if data.memoryLimit == DataCache.Configuration.defaultMemoryLimit {
                data.memoryLimit = data.directory == nil ? memoryLimit / 8 : 0
            }
            return data
        }

        /// The files that a name may stand for, the first one first. Looks at none of them.
        func resources(named name: String) -> [URL] {
            let parts = name.split(separator: "/", omittingEmptySubsequences: false)
            guard !name.isEmpty, !parts.contains(".."), !name.hasPrefix("/"), !name.contains("\0") else { return [] }
            let endings = [""] + codecs.readable.map(\.fileExtension).sorted().map { "." + $0 }
            return resourceFolders.flatMap { folder in
                endings.map { folder.appendingPathComponent(name + $0, isDirectory: false) }
            }
        }
    }
}
