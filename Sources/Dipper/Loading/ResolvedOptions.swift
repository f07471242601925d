/// Options that hold, and what they add to the key.
final class ResolvedOptions: Sendable {
    let options: ImageOptions
    /// Tells pictures made of the same bytes from each other; empty for the picture as it is.
    let keySuffix: String
    let chain: ProcessorChain
    /// The number of the image cache's own data cache.
    let home: UInt64
    /// Tells pictures made of another data cache's bytes from those of the image cache's own. Keys of the caller's own
    /// cannot begin like this.
    private let place: String

    init(_ options: ImageOptions, home: UInt64) {
        self.options = options
        self.home = home
        place = options.originals.flatMap { $0.number == home ? nil : "\n#originals \($0.number)\n" } ?? ""
        chain = ProcessorChain(options.processors ?? [])
        var parts = chain.processors.map(\.identifier)
        if let scale = options.scale, scale != 1, chain.usesScale { parts.append("scale(\(scale))") }
        if options.firstFrameOnly == true { parts.append("first frame") }
        if options.allowsPartial == true { parts.append("partial") }
        if options.preloadsFrames == true { parts.append("all frames") }
        keySuffix = parts.isEmpty ? "" : "\n#" + parts.map { "\($0.utf8.count):\($0)" }.joined()
    }

    /// What a key is called in memory, where pictures of all data caches are side by side: those have other bytes under it.
    func inMemory(_ key: CacheKey) -> CacheKey { place.isEmpty ? key : CacheKey(verbatim: place + key.string) }

    /// The key of the picture that is made of the bytes of a key.
    func key(_ data: CacheKey) -> CacheKey { keySuffix.isEmpty ? data : CacheKey(verbatim: data.string + keySuffix) }

    /// The key of the picture's file: only what was processed has one of its own.
    func fileKey(_ data: CacheKey) -> CacheKey { chain.processors.isEmpty ? data : key(data) }

    func decodeOptions(_ limits: DecodeLimits, isCancelled: @escaping @Sendable () -> Bool) -> DecodeOptions {
        var decode = DecodeOptions(target: chain.decodeTarget)
        // Others are not told apart by it, so that they share what they have in common.
        if chain.usesScale, let scale = options.scale { decode.scale = scale }
        decode.firstFrameOnly = options.firstFrameOnly ?? false
        decode.preloadsFrames = options.preloadsFrames ?? false
        decode.allowsPartial = options.allowsPartial ?? false
        decode.limits = limits
        decode.isCancelled = isCancelled
        return decode
    }

    /// What is handed out of what is kept.
    func handOut(_ image: Image) -> Image {
        var image = image
        if let scale = options.scale { image.scale = scale }
        return options.imageModifier?(image) ?? image
    }
}

extension ImageRequest {
    /// Returns the options that apply, given those of the cache.
    func resolved(_ defaults: ResolvedOptions) -> ResolvedOptions {
        givenOptions.map { ResolvedOptions($0.over(defaults.options), home: defaults.home) } ?? defaults
    }
}
