import Foundation

extension ImageCache {
    /// The settings of an image cache. Every setting has a default.
    ///
    /// ```swift
    /// var configuration = ImageCache.Configuration(directory: folder)
    /// configuration.memoryLimit = 200 << 20               // decoded pictures, in bytes
    /// configuration.data.diskLimit = 1 << 30              // files, in bytes
    /// let cache = ImageCache(configuration)
    /// ```
    public struct Configuration: Sendable {
        /// The settings of the data cache that stores the files: folder, queues, network, retries and the like.
        ///
        /// The `memoryLimit` of these settings limits undecoded bytes in memory. Unless it is set, it is zero in a cache
        /// with a folder, and an eighth of the cache's ``memoryLimit`` in one without.
        public var data: DataCache.Configuration

        /// A data cache that stores the files in place of one made from ``data``, such as `DataCache.shared`.
        ///
        /// The image cache does not shut it down. Of ``data``, only the name, the logger and the redaction apply then.
        public var originals: DataCache?

        /// The most memory that decoded pictures may take in the cache, in bytes; by default 15 % of the machine's
        /// memory or, if less, of the control group's, at most 768 MiB. A picture larger than a tenth of it is not kept
        /// in memory.
        public var memoryLimit = DataCache.Configuration.defaultMemoryLimit
        /// The most pictures that the cache keeps in memory; `nil` for no limit.
        public var memoryCountLimit: Int?

        /// The default values of options that a request does not set.
        public var options = ImageOptions()
        /// The formats that can be read and written. See ``CodecRegistry``.
        public var codecs = CodecRegistry.standard

        /// The limits of each picture in pixels, frames and bytes. A picture above them fails with
        /// `DipperError.imageTooLarge`.
        public var limits = DecodeLimits()
        /// Whether helper processes decode the pictures, behind a wall; at most as many as ``decodingThreads``. By
        /// default they decode HEIC, JPEG XL and SVG, and the program decodes the rest itself. See ``Isolation``.
        public var isolation = Isolation.automatic
        /// The program of the helper processes; `nil` for the one that is found. See ``Isolation``.
        public var decoderProgram: URL?
        /// The number of threads that decode and process; by default the number of active cores, at most eight. Urgent
        /// pictures come first. Of equal urgency, small pictures come before huge ones, and each file has its turn.
        /// A large AVIF picture that is decoded alone may use as many.
        public var decodingThreads = DecodeOptions.cores
        /// The most memory, in bytes, that all pictures together may take while they are decoded and processed.
        /// Pictures that do not fit wait, urgent ones first; a picture larger than the limit is decoded alone.
        ///
        /// By default an eighth of the machine's memory, or of what the control group allows if that is less; at least
        /// 64 MiB and at most 1 GiB.
        public var decodingMemory = min(max(DataCache.Configuration.availableMemory / 8, 64 << 20), 1 << 30)
        /// The most bytes of files that may wait in memory to be decoded.
        ///
        /// At the limit, the data caches that this cache uses start no fetch and read nothing from disk for their
        /// calls, whatever the data, until a quarter of the limit is free; fetches in progress continue. Prefetches
        /// stop at half of the limit. A file larger than the limit is still fetched and decoded.
        ///
        /// By default a 32nd of the machine's memory, or of what the control group allows if that is less; at least
        /// 16 MiB and at most 128 MiB.
        public var undecodedBytes = min(max(DataCache.Configuration.availableMemory / 32, 16 << 20), 128 << 20)

        /// The folders that ``ImageCache/getImage(named:)`` and ``ImageCache/readImage(named:)`` search, in this order.
        public var resourceFolders = [Bundle.main.resourceURL ?? Bundle.main.bundleURL]

        /// Creates the default settings of a cache in memory only.
        public init() {
            self.init(directory: nil)
        }

        /// Creates the default settings of a cache with a folder; `nil` for a cache in memory only.
        public init(directory: URL?) {
            data = DataCache.Configuration(directory: directory)
            data.name = "images"
        }

        /// Creates the default settings of a cache with a name, and a folder of its own for that name beside that of the
        /// shared cache. Caches with one name share a folder.
        ///
        /// The folder of `avatars` is `dipper/named-images/avatars` in a folder with the program's name in
        /// `$XDG_CACHE_HOME`, or else in `~/.cache`. Any text is a name; see `DataCache.Configuration.init(name:)`.
        public init(name: String) {
            self.init(directory: DataCache.Configuration.directory(named: name, in: "named-images"))
            data.name = name
        }

        /// The folder of the shared image cache: `images` beside the folder of the shared data cache.
        public static var defaultDirectory: URL {
            DataCache.Configuration.programsCaches.appendingPathComponent("images")
        }

        var dataConfiguration: DataCache.Configuration {
            var data = data
            data.memoryLimit = data.givenMemoryLimit ?? (data.directory == nil ? memoryLimit / 8 : 0)
            return data
        }

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

extension ImageCache {
    /// Returns the options that apply to a call for a picture: those of the request, for those that it does not set the
    /// cache's, and for the rest the defaults.
    ///
    /// ```swift
    /// let scale = cache.options(of: ImageRequest(url)).scale ?? 1         // that of the cache
    /// ```
    public func options(of source: some ImageRequestConvertible) -> ImageOptions {
        source.imageRequest.resolved(defaults).options.over(.standard.with(\.originals, data))
    }
}
