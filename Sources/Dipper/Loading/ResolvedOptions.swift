/// The options that apply to a call, and their parts of the picture's key.
final class ResolvedOptions: Sendable {
    let options: ImageOptions
    /// Distinguishes the pictures made from the same bytes; empty for the picture without changes.
    let keySuffix: String
    let chain: ImageProcessors.Chain
    /// The number of the image cache's own data cache.
    let home: UInt64
    /// Distinguishes pictures made from another data cache's bytes. A key of the caller cannot begin like this.
    let prefix: String
    /// The other data cache; `nil` for the image cache's own.
    let source: ObjectSource?
    let hasTarget: Bool

    init(_ options: ImageOptions, home: UInt64) {
        self.options = options
        self.home = home
        hasTarget = options.target != nil
        let isApart = !hasTarget && options.originals.map { $0.number != home } == true
        prefix = options.originals.map { isApart ? CacheKey.beginningOfOthers + "\($0.number)\n" : "" } ?? ""
        source = options.originals.map { $0.objectSource() }
        chain = ImageProcessors.Chain(options.processors ?? [])
        var parts = chain.processors.map(\.identifier)
        if let scale = options.scale, scale != 1, chain.usesScale { parts.append("scale(\(scale))") }
        if options.firstFrameOnly == true { parts.append("first frame") }
        if options.allowsPartial == true { parts.append("partial") }
        if options.preloadsFrames == true { parts.append("all frames") }
        if let extractor = options.extractor { parts.append(extractor.name) }
        keySuffix = parts.isEmpty ? "" : "\n#" + parts.map { "\($0.utf8.count):\($0)" }.joined()
    }

    var withoutLastProcessor: ResolvedOptions {
        var options = options
        options.processors = chain.processors.dropLast()
        return ResolvedOptions(options, home: home)
    }

    var processingScale: Double { chain.usesScale ? options.scale ?? 1 : 1 }

    /// Memory holds the pictures of all data caches, which may have different bytes under one key.
    func inMemory(_ key: CacheKey) -> CacheKey { prefix.isEmpty ? key : CacheKey(verbatim: prefix + key.string) }

    func key(_ data: CacheKey) -> CacheKey { keySuffix.isEmpty ? data : CacheKey(verbatim: data.string + keySuffix) }

    /// Whether the picture has a file of its own, because it is processed or made by another program.
    var isStored: Bool { !chain.processors.isEmpty || options.extractor != nil }
    func fileKey(_ data: CacheKey) -> CacheKey { isStored ? key(data) : data }

    /// The options on which the picture itself does not depend.
    var calling: ObjectCall.Options {
        var calling = ObjectCall.Options()
        calling.keepsInMemory = options.prefetchesToMemory != false
        calling.keepsBytes = options.keepsOriginal != false || !isStored
        calling.showsPreviews = options.showsPreviews == true
        return calling
    }

    func decodeOptions(_ tools: ImageTools, isCancelled: @escaping @Sendable () -> Bool) -> DecodeOptions {
        var decode = DecodeOptions()
        // Without a processor that uses the scale, requests that differ only in scale share a key, and so one picture.
        if chain.usesScale, let scale = options.scale { decode.scale = scale }
        decode.target = chain.decodeTarget?.pixels(at: decode.scale)
        decode.firstFrameOnly = options.firstFrameOnly ?? false
        decode.preloadsFrames = options.preloadsFrames ?? false
        decode.allowsPartial = options.allowsPartial ?? false
        decode.limits = tools.limits
        decode.threads = tools.threads
        decode.isolation = tools.isolation
        decode.decoderProgram = tools.decoderProgram
        decode.isCancelled = isCancelled
        return decode
    }

    func handOut(_ image: Image) -> Image {
        var image = image
        if let scale = options.scale { image.scale = scale }
        return options.imageModifier?(image) ?? image
    }
}

extension ImageRequest {
    func resolved(_ defaults: ResolvedOptions) -> ResolvedOptions {
        let isProcessed = (givenOptions?.processors ?? defaults.options.processors)?.isEmpty == false
        var given = givenOptions
        if isProcessed, data.provider?.isLocal == true, (given?.keepsOriginal ?? defaults.options.keepsOriginal) == nil
        {
            given = (given ?? ImageOptions()).with(\.keepsOriginal, false)
        }
        return given.map { ResolvedOptions($0.over(defaults.options), home: defaults.home) } ?? defaults
    }
}
