import AsyncHTTPClient
import Foundation
import FoundationNetworking
import NIOCore
import Synchronization

/// Other HTTP clients that fetch the same files, with a number of requests at once, and keep the bodies in memory. Each
/// function creates a client for the turn and returns files per second.
enum HTTPPeers {
    static func asyncHTTPClient(_ urls: [String], atOnce: Int) async throws -> Double {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = atOnce
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let time = try await seconds {
            try await fetchAll(urls, atOnce: atOnce) { url in
                let response = try await client.execute(HTTPClientRequest(url: url), timeout: .seconds(30))
                let body = try await response.body.collect(upTo: 1 << 20)
                guard response.status == .ok else { throw BenchError("\(url): \(response.status)") }
                return body
            }
        }
        try await client.shutdown()
        return Double(urls.count) / time
    }

    static func urlSession(_ urls: [String], atOnce: Int) async throws -> Double {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpMaximumConnectionsPerHost = atOnce
        configuration.urlCache = nil
        let session = URLSession(configuration: configuration)
        let time = try await seconds {
            try await fetchAll(urls, atOnce: atOnce) { text in
                guard let url = URL(string: text) else { throw BenchError("not a URL") }
                let (data, response) = try await session.data(from: url)
                guard (response as? HTTPURLResponse)?.statusCode == 200 else {
                    throw BenchError("\(url) failed")
                }
                return data
            }
        }
        session.finishTasksAndInvalidate()
        return Double(urls.count) / time
    }

    /// Fetches all URLs with a number of workers, each of which takes the next URL.
    private static func fetchAll<Body: Sendable>(
        _ urls: [String], atOnce: Int, _ fetch: @escaping @Sendable (String) async throws -> Body
    ) async throws {
        let turnstile = Turnstile()
        let count = try await withThrowingTaskGroup(of: [Body].self) { group in
            for _ in 0..<atOnce {
                group.addTask {
                    var bodies: [Body] = []
                    while let index = turnstile.next(below: urls.count) {
                        bodies.append(try await fetch(urls[index]))
                    }
                    return bodies
                }
            }
            var bodies: [Body] = []
            for try await some in group { bodies += some }
            return bodies.count
        }
        guard count == urls.count else { throw BenchError("\(count) of \(urls.count) files came") }
    }

    private final class Turnstile: Sendable {
        private let count = Atomic(0)

        func next(below limit: Int) -> Int? {
            let index = count.add(1, ordering: .relaxed).oldValue
            return index < limit ? index : nil
        }
    }
}
