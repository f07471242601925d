import DipperData
import Foundation

/// The search for a picture that differs from the one that is asked for in its size alone, and is shown until that one is
/// there.
extension ImageCache {
    /// Returns the picture in another size, if memory or a display has it.
    func otherSizeInMemory(of request: ImageRequest) -> Image? {
        let options = request.resolved(defaults)
        guard mayShowOtherSizes(of: request, options, from: .memory) else { return nil }
        let memory = home(of: options).memory
        let found = inAllSizes(request, options).flatMap { request -> [Image] in
            let key = options.inMemory(request.data.cacheKey)
            return memory.family(of: key).compactMap { other, entry in
                guard other.isAlike(options, of: key), entry.info.mayBeShown(to: request.data.headers),
                    originals(of: options).use(of: entry.info, for: request.data) != .revalidate
                else { return nil }
                return entry.product.value(as: Image.self)
            }
        }
        return found.best(for: options.options.decodeTarget, \.size).map { options.handOut($0) }
    }

    /// Reads the picture in another size from disk, if it is there in one. The closure is called in place, or not at all.
    func readOtherSize(of request: ImageRequest, _ use: @escaping @Sendable (Image) -> Void) {
        let options = request.resolved(defaults)
        guard files(of: options).hasDisk || originals(of: options).hasDisk,
            mayShowOtherSizes(of: request, options, from: .disk)
        else { return }
        _ = home(of: options).objects.workers.run { [self] in
            if let image = otherSizeOnDisk(of: request, options) { use(options.handOut(image)) }
        }
    }

    private func mayShowOtherSizes(of request: ImageRequest, _ options: ResolvedOptions, from tier: CacheTiers) -> Bool
    {
        let policy = originals(of: options).policy(of: request.data)
        return options.options.showsOtherSizes != false && policy != .ignoreCache && policy != .bypass
            && (tier == .memory ? policy != .diskOnly : policy.readsDisk)
    }

    /// Reads the disk, and decodes.
    private func otherSizeOnDisk(of request: ImageRequest, _ options: ResolvedOptions) -> Image? {
        let (originals, files, tools) = (originals(of: options), files(of: options), home(of: options).tools)
        for (index, request) in inAllSizes(request, options).enumerated() {
            let key = request.data.cacheKey
            func has(_ key: CacheKey, _ cache: DataCache) -> Bool {
                cache.source(of: key, forCompleted: request.data, in: .disk) { info in
                    originals.use(of: info, for: request.data) != .revalidate
                } != nil
            }
            let forms = files.derivedKeysOnDisk(of: key)
            // The picture itself is there as soon.
            if index == 0, forms.contains(options.key(key)) { return nil }
            var decode = options.decodeOptions(tools.limits) { false }
            decode.firstFrameOnly = true
            let alike = forms.filter { $0.isAlike(options, of: key) && has($0, files) }
            if let form = alike.best(for: options.options.decodeTarget, \.sizeInName) {
                decode.target = nil
                return files.readData(for: form).flatMap { try? tools.codecs.decode($0, decode) }
            }
            // The picture itself is made of its own bytes.
            guard index > 0, has(key, originals), let data = originals.readData(for: key) else { continue }
            return (try? tools.codecs.decode(data, decode)).flatMap {
                try? options.chain.process($0, ProcessingContext(limits: tools.limits))
            }
        }
        return nil
    }

    /// The request itself, and those for its other URLs, as the cache completes them.
    private func inAllSizes(_ request: ImageRequest, _ options: ResolvedOptions) -> [ImageRequest] {
        let request = complete(request)
        return [request] + request.inOtherSizes(for: options.options.decodeTarget).map { complete($0) }
    }
}

extension Collection {
    /// Returns the smallest picture that has enough pixels for a target, or else the largest.
    fileprivate func best(for target: TargetSize?, _ size: (Element) -> PixelSize) -> Element? {
        let sorted = sorted { (size($0).width, size($0).height) < (size($1).width, size($1).height) }
        var target = target
        // To tell whether a picture would have to be enlarged.
        target?.allowsUpscaling = true
        return sorted.first { element in
            target.map { $0.size(for: size(element)).width <= size(element).width } ?? false
        } ?? sorted.last
    }
}

extension CacheKey {
    /// Returns whether this is the key of a picture of the same bytes whose processing, as the key names it, differs from
    /// that of the options in sizes alone.
    fileprivate func isAlike(_ options: ResolvedOptions, of origin: CacheKey) -> Bool {
        func form(_ suffix: some StringProtocol) -> String {
            let form = String(suffix).replacing(/\d+:(resize|scale)\([^)]*\)|11:first frame|10:all frames/, with: "")
            return form == "\n#" ? "" : form
        }
        return (self == origin || isDerived(of: origin))
            && form(Substring(string.utf8.dropFirst(origin.string.utf8.count))) == form(options.keySuffix)
    }

    /// The size that the key of a picture names, or the largest one.
    fileprivate var sizeInName: PixelSize {
        let size = string.firstMatch(of: /resize\((\d+)x(\d+)/)
        return PixelSize(width: size.flatMap { Int($0.1) } ?? .max, height: size.flatMap { Int($0.2) } ?? .max)
    }
}
