import Foundation
import Synchronization

/// Work that several may wait for and that is done once: bringing bytes, or making an object. It is as urgent as the
/// most urgent that waits, and hands its urgency on to the work that it waits for itself.
@Loop
class SharedWork {
    final var wants = Urgencies()
    private final var told: Urgency?
    private(set) final var dependency: SharedWork?

    /// Takes the urgency of work that waits for no other.
    func move(to want: Urgency) {}

    /// The caller settles the work that this work has waited for.
    final func wait(for work: SharedWork?) {
        if let told { dependency?.wants.remove(told) }
        let want = wants.highest
        told = want
        work?.wants.add(want)
        dependency = work
    }

    final func refresh() {
        let want = wants.highest
        guard want != told else { return }
        if let dependency {
            if let told { dependency.wants.remove(told) }
            dependency.wants.add(want)
        }
        told = want
        if let dependency { dependency.refresh() } else { move(to: want) }
    }
}

@Loop
final class WorksOfKey {
    var makes: [ObjectWork] = []
    var supplies: [BytesWork] = []
    var runs: [DecodingWork] = []

    var isEmpty: Bool { makes.isEmpty && supplies.isEmpty && runs.isEmpty }
}

/// The answer that an object was made from, without its bytes.
package struct Provenance: Sendable {
    package let info: EntryInfo
    /// 0 if there are no bytes.
    package var digest: UInt64 = 0
    package let source: ResponseSource
    package var attempts = 0
    package var metrics: TransferMetrics?
    package var asked: DataRequest.Source?
    /// The fetch of newer bytes, if these are out of date.
    package var revalidation: DataTask?
    package var claim: Claim?
    var call: CacheEvent.ID?
}

extension Provenance {
    /// - Parameter info: the metadata of the stored form that the object is made from.
    init(ofForm info: EntryInfo, _ source: ResponseSource) {
        self.init(info: info, digest: info.digestOfOriginal ?? 0, source: source)
    }
}

package struct MadeObject: Sendable {
    /// The object as memory keeps it.
    let entry: ObjectMemoryTier.Entry
    package let basis: Provenance
    /// Whether memory has had the object already, so that it need not be written again.
    var isPresent = false
    /// Whether the stored form is as it was, and is written again with the freshness of bytes that were confirmed.
    var isRenewed = false
    var form: Data?
    var excerpt: Data?

    package var product: Product { entry.product }
    var isAdded: Bool { entry.isAdded }

    init(_ product: Product, _ basis: Provenance, isAdded: Bool = false) {
        entry = .init(product: product, digest: basis.digest, isAdded: isAdded, info: basis.info)
        self.basis = basis
    }

    init(inMemory entry: ObjectMemoryTier.Entry, _ source: ResponseSource) {
        (self.entry, isPresent) = (entry, true)
        basis = Provenance(info: entry.info, digest: entry.digest, source: source)
    }
}
