import Foundation
import Synchronization

/// The files with which helpers have failed, and how those were decoded.
final class DecoderFailures: Sendable {
    private struct Failure {
        /// The length and two hashes.
        let file: [Int]
        /// The request: another size, or other limits, may do.
        let request: DecoderPacket
        let time: Duration
        /// From 2 on the file is not decoded any more.
        var weight = 0

        init(_ data: Data, _ request: DecoderRequest) {
            var request = request
            // All frames of an animation are decoded alike.
            (request.session, request.frame) = (0, 0)
            (file, self.request, time) = (data.mark, request.packet, request.options.limits.time)
        }

        func isAlike(_ other: Failure) -> Bool {
            file == other.file && request == other.request && time == other.time
        }
    }

    /// The number of failures that are remembered.
    private static let most = 4_096
    private let all = Mutex<[Failure]>([])

    func includes(_ data: Data, _ request: DecoderRequest) -> Bool {
        guard mayInclude(data) else { return false }
        let failure = Failure(data, request)
        return all.withLock { all in all.contains { $0.weight > 1 && $0.isAlike(failure) } }
    }

    /// Whether a helper has failed with a file, whoever was to blame, and whatever the request was.
    func includes(_ data: Data) -> Bool {
        guard mayInclude(data) else { return false }
        let file = data.mark
        return all.withLock { all in all.contains { $0.file == file } }
    }

    /// Remembers a failure: one of the file itself for good, one that may have had another reason until it happens again.
    func add(_ data: Data, _ request: DecoderRequest, _ fault: DecoderProcess.Fault) {
        if fault == .nobody { return }
        var failure = Failure(data, request)
        failure.weight = fault == .file ? 2 : 1
        all.withLock { all in
            if let index = all.firstIndex(where: failure.isAlike) { failure.weight += all.remove(at: index).weight }
            if all.count >= Self.most { all.removeFirst() }
            all.append(failure)
        }
    }

    /// Forgets a failure that had another reason, because the file has been decoded.
    func remove(_ data: Data, _ request: DecoderRequest) {
        guard mayInclude(data) else { return }
        let failure = Failure(data, request)
        all.withLock { all in all.removeAll { $0.weight == 1 && $0.isAlike(failure) } }
    }

    /// Hashing takes longer than many decodes, so only files of a known length are hashed.
    private func mayInclude(_ data: Data) -> Bool {
        all.withLock { all in all.contains { $0.file[0] == data.count } }
    }
}
