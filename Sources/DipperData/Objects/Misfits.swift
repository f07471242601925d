/// Bytes of which an object could not be made. They are not fresh for calls of that kind: the server is asked again
/// after a wait that grows with each such answer. Only this process knows of them.
struct Misfit: Sendable {
    let info: EntryInfo
    let digest: UInt64
    let error: DipperError
    /// The number of answers, one after the other, of which nothing could be made.
    let answers: Int
    /// When the server may be asked again.
    let due: Duration

    /// Replaces what was found before.
    init(_ basis: Provenance, _ error: DipperError, after old: Misfit?, at now: Duration) {
        (info, digest, self.error) = (basis.info, basis.digest, error)
        answers = (old?.answers ?? 0) + (basis.source.isAnswer ? 1 : 0)
        // 5, 20, 80, 320 and then 600 seconds.
        due = basis.source.isAnswer ? now + .seconds(min(600, 5 << (2 * min(answers - 1, 4)))) : old?.due ?? now
    }
}

final class Misfits: Sendable {
    /// By the key of the bytes, then by the kind of object.
    private let known = RareTable<CacheKey, [String: Misfit]>()

    subscript(key: CacheKey, kind: String) -> Misfit? { known[key]?[kind] }

    func find(_ error: DipperError, in basis: Provenance, for key: CacheKey, _ kind: String, at now: Duration) {
        known.change { known in
            let old = known[key]?[kind]
            // Two objects of one kind, such as two sizes, may be wanted of one answer.
            if basis.info.isStandIn || old?.info === basis.info { return }
            if known[key] == nil, known.count >= 1_000 { known = [:] }
            known[key, default: [:]][kind] = Misfit(basis, error, after: old, at: now)
        }
    }

    func forget(of address: String) {
        known.remove { known in
            known.filter { $0.key.isOf(address) || $0.value.values.contains { $0.info.isOf(address) } }.map(\.key)
        }
    }
    func forget(_ key: CacheKey) { known.remove { _ in [key] } }
    func forget(_ key: CacheKey, _ kind: String) {
        known.remove { known in
            known[key]?[kind] = nil
            return known[key]?.isEmpty == true ? [key] : []
        }
    }
}
