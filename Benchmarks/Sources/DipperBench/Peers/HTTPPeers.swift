import Foundation
import FoundationNetworking
import Synchronization

/// Other HTTP clients that fetch the same files, with a number of requests at once, and keep the bodies in memory. Each
/// function creates a client for the turn and returns files per second.
enum HTTPPeers {
    /// Returns the path of the peer with async-http-client, which is a package of its own; `nil` if it is not built.
    static func asyncHTTPClient(_ bench: Bench) -> String? {
        let program = bench.peer("AsyncHTTPClient/.build/release/async-http-client-loop")
        return FileManager.default.isExecutableFile(atPath: program) ? program : nil
    }

    static func urlSession(_ urls: [URL], atOnce: Int) async throws -> Double {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpMaximumConnectionsPerHost = atOnce
        configuration.urlCache = nil
        let session = URLSession(configuration: configuration)
        let turnstile = Turnstile()
        let time = try await seconds {
            // Each worker takes the next URL.
            let count = try await withThrowingTaskGroup(of: [Data].self) { group in
                for _ in 0..<atOnce {
                    group.addTask {
                        var bodies: [Data] = []
                        while let index = turnstile.next(below: urls.count) {
                            let (data, response) = try await session.data(from: urls[index])
                            guard (response as? HTTPURLResponse)?.statusCode == 200 else {
                                throw BenchError("\(urls[index]) failed")
                            }
                            bodies.append(data)
                        }
                        return bodies
                    }
                }
                var bodies: [Data] = []
                for try await some in group { bodies += some }
                return bodies.count
            }
            guard count == urls.count else { throw BenchError("\(count) of \(urls.count) files came") }
        }
        session.finishTasksAndInvalidate()
        return Double(urls.count) / time
    }

    private final class Turnstile: Sendable {
        private let count = Atomic(0)

        func next(below limit: Int) -> Int? {
            let index = count.add(1, ordering: .relaxed).oldValue
            return index < limit ? index : nil
        }
    }
}
