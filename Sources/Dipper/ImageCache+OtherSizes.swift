import DipperData
import Foundation
import Synchronization

/// The search for a picture that differs from the one that is asked for in its size alone, and is shown until that one is
/// there.
extension ImageCache {
    /// Returns the picture in another size, if memory or a display has it.
    func otherSizeInMemory(of request: ImageRequest) -> Image? {
        let options = request.resolved(defaults)
        guard mayShowOtherSizes(of: request, options, from: .memory) else { return nil }
        let memory = home(of: options).memory
        let found = inAllSizes(request, options).flatMap { request -> [Image] in
            let key = request.data.cacheKey
            let place = options.inMemory(key)
            return memory.family(of: place).compactMap { other, entry in
                guard other.isAlike(options, of: place), entry.info.mayBeShown(to: request.data.headers),
                    originals(of: options).use(of: entry.info, for: request.data, key) != .revalidate
                else { return nil }
                return entry.product.value(as: Image.self)
            }
        }
        return found.best(for: options.options.decodeTarget, \.size).first.map { options.handOut($0) }
    }

    /// Reads the picture in another size from disk, if it is there in one, for a call and as urgently as that. The loop
    /// runs the closure, or not at all.
    func readOtherSize(of request: ImageRequest, for task: ImageTask, _ use: @escaping @Sendable (Image) -> Void) {
        let options = request.resolved(defaults)
        guard files(of: options).hasDisk || originals(of: options).hasDisk,
            mayShowOtherSizes(of: request, options, from: .disk)
        else { return }
        let (tools, found) = (home(of: options).tools, Reference(Mutex<OtherSize?>(nil)))
        @Sendable func decodeOptions(_ other: OtherSize, _ isCancelled: @escaping @Sendable () -> Bool) -> DecodeOptions
        {
            var decode = options.decodeOptions(tools, isCancelled: isCancelled)
            decode.firstFrameOnly = true
            if !other.isOriginal { decode.target = nil }
            return decode
        }
        task.runBeside({ [self] in
            guard let other = otherSizeOnDisk(of: request, options) else { return (0, 0) }
            found.value.withLock { $0 = other }
            let memory = tools.codecs.cost(
                of: other.data, decodeOptions(other) { false }, isProcessed: other.isOriginal)
            return (memory, max(memory, other.data.count))
        }) { isCancelled in
            guard let other = found.value.withLock({ $0 }),
                var image = try? tools.codecs.decode(other.data, decodeOptions(other, isCancelled))
            else { return nil }
            if other.isOriginal {
                let context = ProcessingContext(limits: tools.limits, isCancelled: isCancelled)
                guard let made = try? options.chain.process(image, context) else { return nil }
                image = made
            }
            let shown = options.handOut(image)
            return { use(shown) }
        }
    }

    private func mayShowOtherSizes(of request: ImageRequest, _ options: ResolvedOptions, from tier: CacheTiers) -> Bool
    {
        let policy = originals(of: options).policy(of: request.data)
        return options.options.showsOtherSizes != false && policy != .ignoreCache && policy != .bypass
            && (tier == .memory ? policy != .diskOnly : policy.readsDisk)
    }

    private func otherSizeOnDisk(of request: ImageRequest, _ options: ResolvedOptions) -> OtherSize? {
        let (originals, files) = (originals(of: options), files(of: options))
        for (index, request) in inAllSizes(request, options).enumerated() {
            let key = request.data.cacheKey
            func read(_ place: CacheKey, _ cache: DataCache) -> Data? {
                cache.readDisk(place, forCompleted: request.data) { info in
                    originals.use(of: info, for: request.data, key) != .revalidate
                }
            }
            let forms = files.derivedKeysOnDisk(of: key)
            // The picture itself is there as soon.
            if index == 0, forms.contains(options.key(key)) { return nil }
            let alike = forms.filter { $0.isAlike(options, of: key) }
            for form in alike.best(for: options.options.decodeTarget, \.sizeInName) {
                if let data = read(form, files) { return OtherSize(data: data, isOriginal: false) }
            }
            // The picture itself is made of its own bytes.
            if index > 0, let data = read(key, originals) { return OtherSize(data: data, isOriginal: true) }
        }
        return nil
    }

    /// The request itself, and those for its other URLs, as the cache completes them.
    private func inAllSizes(_ request: ImageRequest, _ options: ResolvedOptions) -> [ImageRequest] {
        let request = complete(request)
        return [request] + request.inOtherSizes(for: options.options.decodeTarget).map { complete($0) }
    }
}

/// The file of a picture in another size.
private struct OtherSize: Sendable {
    let data: Data
    /// Whether the picture is still to be processed.
    let isOriginal: Bool
}

extension Collection {
    /// Returns the pictures that have enough pixels for a target, the smallest first, and then the others, the largest
    /// first.
    fileprivate func best(for target: TargetSize?, _ size: (Element) -> PixelSize) -> [Element] {
        let sorted = sorted { (size($0).width, size($0).height) < (size($1).width, size($1).height) }
        var target = target
        // To tell whether a picture would have to be enlarged.
        target?.allowsUpscaling = true
        let enough = sorted.firstIndex { element in
            target.map { $0.size(for: size(element)).width <= size(element).width } ?? false
        }
        return sorted[(enough ?? sorted.count)...] + sorted[..<(enough ?? sorted.count)].reversed()
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
