import Foundation
import Synchronization

/// The files with which helpers have failed, and how those were decoded.
final class DecoderFailures: Sendable {
    private struct Failure: Hashable {
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
    /// From 2 on a file is not decoded any more.
    private let weights = Mutex<[Failure: Int]>([:])

    func includes(_ data: Data, _ request: DecoderRequest) -> Bool {
        guard mayInclude(data) else { return false }
        let failure = Failure(data, request)
        return weights.withLock { $0[failure, default: 0] > 1 }
    }

    /// Whether a helper has failed with a file, whoever was to blame, and whatever the request was.
    func includes(_ data: Data) -> Bool {
        guard mayInclude(data) else { return false }
        let file = data.mark
        return weights.withLock { $0.keys.contains { $0.file == file } }
    }

    /// Remembers a failure: one of the file itself for good, one that may have had another reason until it happens again.
    func add(_ data: Data, _ request: DecoderRequest, _ fault: DecoderProcess.Fault) {
        if fault == .nobody { return }
        let failure = Failure(data, request)
        weights.withLock { weights in
            // Any one is forgotten.
            if weights.count >= Self.most { weights.remove(at: weights.startIndex) }
            weights[failure, default: 0] += fault == .file ? 2 : 1
        }
    }

    /// Forgets a failure that had another reason, because the file has been decoded.
    func remove(_ data: Data, _ request: DecoderRequest) {
        guard mayInclude(data) else { return }
        let failure = Failure(data, request)
        weights.withLock { if $0[failure] == 1 { $0[failure] = nil } }
    }

    /// Hashing takes longer than many decodes, so only files of a known length are hashed.
    private func mayInclude(_ data: Data) -> Bool {
        weights.withLock { $0.keys.contains { $0.file[0] == data.count } }
    }
}
