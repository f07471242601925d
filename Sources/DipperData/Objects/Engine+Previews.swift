import Foundation
import Synchronization

/// The previews of the bytes that a fetch brings. One is made at a time.
// Only the engine uses it.
final class Previews: @unchecked Sendable {
    var scan: any PreviewScan
    var isBusy = false
    /// The bytes received so far, if they have not been looked at.
    var arrived: Data?
    /// The latest preview of each object, by its key.
    var shown: [CacheKey: Product] = [:]

    private let ended = Atomic(false)

    init(_ scan: any PreviewScan) { self.scan = scan }

    /// Whether nobody wants previews any more. Any thread may ask.
    var isOver: Bool { ended.load(ordering: .relaxed) }
    func end() { ended.store(true, ordering: .relaxed) }
}

extension Engine {
    /// Has a call hear the news of a fetch that it asks for, beginning with the last preview.
    func attend(_ call: ObjectCall, at supply: Supply) {
        if let failure = supply.failure { call.tell(.failure(failure)) }
        if call.wantsProgress { supply.task.wantProgress() }
        guard call.options.showsPreviews, let make = call.make, let cache = call.cache else { return }
        if let previews = supply.previews {
            if let preview = previews.shown[make.key] { call.show(preview) }
        } else if let scan = call.step.previews() {
            supply.previews = Previews(scan)
            supply.task.watchBytes { bytes in self.post { $0.arrived(bytes, for: supply, in: cache) } }
        }
    }

    /// Takes the bytes that have arrived so far.
    private func arrived(_ bytes: Data, for supply: Supply, in cache: ObjectCache) {
        guard let previews = supply.previews else { return }
        if previews.scan.isPointless { return supply.task.ignoreBytes() }
        previews.arrived = bytes
        makePreviews(of: supply, in: cache)
    }

    private func makePreviews(of supply: Supply, in cache: ObjectCache) {
        guard let previews = supply.previews, !previews.isBusy, let bytes = previews.arrived else { return }
        let makes = supply.makes.flatMap(\.family).filter { $0.calls.contains { $0.options.showsPreviews } }
        guard let first = makes.first else { return }
        previews.isBusy = true
        previews.arrived = nil
        let steps = makes.map { ($0.key, $0.step) }
        let scan = previews.scan
        let work: @Sendable () -> Void = {
            var scan = scan
            var made: [(CacheKey, Product)] = []
            if let length = scan.preview(in: bytes) {
                let task = MakingTask(CacheKey("")) { previews.isOver }
                for (key, step) in steps {
                    if let product = step.preview(of: bytes.prefix(length), task) { made.append((key, product)) }
                }
            }
            let (looked, results) = (scan, made)
            self.post { $0.previewed(supply, looked, results, in: cache) }
        }
        if let place = first.step.place {
            Afterwards.run { place.perform(work) }
        } else {
            let want = Want(queue: supply.wants.highest.queue, level: UInt8(Priority.low.level))
            cache.workers.add(place(want), cost: { first.step.cost(of: .bytes(bytes)) }, work)
        }
    }

    private func previewed(
        _ supply: Supply, _ scan: any PreviewScan, _ made: [(CacheKey, Product)], in cache: ObjectCache
    ) {
        guard let previews = supply.previews else { return }
        previews.scan = scan
        previews.isBusy = false
        for (key, product) in made {
            previews.shown[key] = product
            for make in supply.makes.flatMap(\.family) where make.key == key {
                for call in make.calls where call.options.showsPreviews { call.show(product) }
            }
        }
        makePreviews(of: supply, in: cache)
    }
}
