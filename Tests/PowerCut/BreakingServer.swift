import DipperData
import Foundation
import Synchronization
import TortureSupport

/// A simulated server that has versions of some bodies, breaks answers off at random, and sends the rest of a body to a
/// client that has the beginning of the same version.
final class BreakingServer: Transport {
    static let keys = (0..<6).map { "f\($0)" }

    static func request(_ key: String) -> DataRequest {
        var request = DataRequest(string: "http://host.test/\(key)").with(\.waitsForDiskWrite, true)
        request.key = CacheKey(key)
        return request
    }

    private struct State {
        var versions: [String: UInt64]
        /// Decides which answers are broken off; `nil` for a server that completes every answer.
        var random: SeededRandom?
        var continued = 0
    }

    private let state: Mutex<State>

    init(_ versions: [String: UInt64] = [:], seed: UInt64? = nil) {
        state = Mutex(State(versions: versions, random: seed.map { SeededRandom($0) }))
    }

    var versions: [String: UInt64] { state.withLock { $0.versions } }
    /// The number of requests for the rest of a body that the server accepted.
    var continued: Int { state.withLock { $0.continued } }

    func version(of key: String) -> UInt64? { versions[key] }

    func publish(_ version: UInt64, as key: String) { state.withLock { $0.versions[key] = version } }

    private static func body(_ key: String, _ version: UInt64) -> Data {
        var random = SeededRandom(version)
        let most = random.oneIn(3) ? 900 : random.oneIn(2) ? 5_000 : 20_000
        return TortureEntry.body(key: key, version: version, size: Int.random(in: 100...most, using: &random))
    }

    private struct Nothing: Transfer {
        func cancel() {}
        func setThrottled(_ isThrottled: Bool) {}
        func setQueue(_ queue: FetchQueue) {}
    }

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let key = request.url.lastPathComponent
        let version = version(of: key) ?? 1
        let tag = "\"\(version)\""
        let body = Self.body(key, version)
        if request.headers["If-None-Match"] == tag {
            receive(.finished(.success(TransferResponse(status: 304, headers: ["ETag": tag], body: Data()))))
            return Nothing()
        }
        var response = TransferResponse(
            headers: ["ETag": tag, "Content-Length": "\(body.count)", "Cache-Control": "max-age=100000"], body: body)
        let offset = request.headers["If-Range"] == tag ? request.offset : 0
        if offset > 0 {
            response = TransferResponse(
                status: 206,
                headers: ["ETag": tag, "Content-Range": "bytes \(offset)-\(body.count - 1)/\(body.count)"],
                body: Data(body[offset...]))
        }
        let kept = state.withLock { state -> Int? in
            if offset > 0 { state.continued += 1 }
            guard state.random?.oneIn(3) == false else { return nil }
            return state.random?.below(response.body.count)
        }
        if let kept {
            response.body = Data(response.body.prefix(kept))
            receive(.interrupted(response))
            receive(.finished(.failure(.connectionLost)))
        } else {
            receive(.finished(.success(response)))
        }
        return Nothing()
    }

    func shutdown() async {}
}
