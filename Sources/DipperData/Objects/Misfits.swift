import Foundation
import Synchronization

/// The evidence against bytes of which an object could not be made: for which kind of object, when and how often. Such
/// bytes are not fresh for calls of that kind; the server is asked again after a wait that grows with each such answer.
///
/// Only this process knows the evidence. In another one, the first call that cannot use the bytes asks the server.
final class Misfits: Sendable {
    private struct Evidence {
        let info: EntryInfo
        let digest: UInt64
        let error: DipperError
        /// The number of answers, one after the other, of which nothing could be made.
        let answers: Int
        /// When the server may be asked again.
        let due: Duration
    }

    /// By the key of the bytes, then by the kind.
    private let known = Mutex<[CacheKey: [String: Evidence]]>([:])
    private static let most = 1_000

    /// 5, 20, 80, 320 and then 600 seconds.
    private static func wait(after answers: Int) -> Duration { .seconds(min(600, 5 << (2 * min(answers - 1, 4)))) }

    func find(_ error: DipperError, in basis: Provenance, for key: CacheKey, _ kind: String, at now: Duration) {
        if basis.info.isStandIn { return }
        known.withLock { known in
            let old = known[key]?[kind]
            // Two objects of one kind, such as two sizes, may be wanted of one answer.
            if old?.info === basis.info { return }
            if known[key] == nil, known.count >= Self.most { known = [:] }
            let answers = (old?.answers ?? 0) + (basis.isAnswer ? 1 : 0)
            known[key, default: [:]][kind] = Evidence(
                info: basis.info, digest: basis.digest, error: error, answers: answers,
                due: basis.isAnswer ? now + Self.wait(after: answers) : old?.due ?? now)
        }
    }

    /// - Parameter kind: `nil` for all kinds.
    func forget(_ key: CacheKey, _ kind: String? = nil) {
        known.withLock { known in
            if known.isEmpty { return }
            if let kind { known[key]?[kind] = nil }
            if kind == nil || known[key]?.isEmpty == true { known[key] = nil }
        }
    }

    /// Returns the error of bytes about which the server need not be asked again yet.
    func error(of digest: UInt64, for key: CacheKey, _ kind: String, at now: Duration) -> DipperError? {
        evidence(key, kind).flatMap { $0.digest == digest && now < $0.due ? $0.error : nil }
    }

    func isDue(_ key: CacheKey, _ kind: String, at now: Duration) -> Bool {
        evidence(key, kind).map { now >= $0.due } ?? true
    }

    func isUnfit(_ info: EntryInfo, for key: CacheKey, _ kind: String) -> Bool {
        evidence(key, kind)?.info.stored == info.stored
    }

    private func evidence(_ key: CacheKey, _ kind: String) -> Evidence? {
        known.withLock { $0.isEmpty ? nil : $0[key]?[kind] }
    }
}
