import Foundation
import Synchronization

/// The files with which helpers have failed, and how those were decoded.
final class DecoderFailures: Sendable {
    private struct Failure: Equatable {
        /// The length and two hashes.
        let file: [Int]
        /// The request: another size, or other limits, may do.
        let request: DecoderPacket
        let time: Duration

        init(_ data: Data, _ request: DecoderRequest) {
            var request = request
            // All frames of an animation are decoded alike.
            (request.session, request.frame) = (0, 0)
            (file, self.request, time) = (data.mark, request.packet, request.options.limits.time)
        }
    }

    /// The number of failures that are remembered.
    private static let most = 4_096
    /// The oldest is the first. From a weight of 2 on the file is not decoded any more.
    private let known = Mutex<[(failure: Failure, weight: Int)]>([])

    func includes(_ data: Data, _ request: DecoderRequest) -> Bool {
        guard mayInclude(data) else { return false }
        let failure = Failure(data, request)
        return known.withLock { $0.contains { $0.failure == failure && $0.weight > 1 } }
    }

    /// Whether a helper has failed with a file, whoever was to blame, and whatever the request was.
    func includes(_ data: Data) -> Bool {
        guard mayInclude(data) else { return false }
        let file = data.mark
        return known.withLock { $0.contains { $0.failure.file == file } }
    }

    /// Remembers a failure: one of the file itself for good, one that may have had another reason until it happens again.
    func add(_ data: Data, _ request: DecoderRequest, _ fault: DecoderProcess.Fault) {
        if fault == .nobody { return }
        let failure = Failure(data, request)
        let weight = fault == .file ? 2 : 1
        known.withLock { known in
            if let place = known.firstIndex(where: { $0.failure == failure }) { return known[place].weight += weight }
            if known.count >= Self.most { known.removeFirst() }
            known.append((failure, weight))
        }
    }

    /// Forgets a failure that had another reason, because the file has been decoded.
    func remove(_ data: Data, _ request: DecoderRequest) {
        guard mayInclude(data) else { return }
        let failure = Failure(data, request)
        known.withLock { $0.removeAll { $0.failure == failure && $0.weight == 1 } }
    }

    /// Hashing takes longer than many decodes, so only files of a known length are hashed.
    private func mayInclude(_ data: Data) -> Bool {
        known.withLock { $0.contains { $0.failure.file[0] == data.count } }
    }
}
