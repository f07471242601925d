import AsyncHTTPClient
import NIOCore
import Synchronization

/// The peer async-http-client of the fetch comparison, with the arguments and the output of `curl_loop.c`.
///
/// `async-http-client-loop BASE COUNT AT_ONCE` fetches `BASE/0` … `BASE/(COUNT-1)`, keeps every body in memory, and
/// prints the seconds from the first request to the last byte.
@main
struct Loop {
    static func main() async throws {
        let words = CommandLine.arguments
        guard words.count == 4, let count = Int(words[2]), let atOnce = Int(words[3]) else {
            fatalError("arguments: BASE COUNT AT_ONCE")
        }
        let urls = (0..<count).map { "\(words[1])/\($0)" }
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = atOnce
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let start = ContinuousClock.now
        let bodies = try await fetch(urls, atOnce: atOnce, client)
        let time = ContinuousClock.now - start
        guard bodies.count == count else { fatalError("\(bodies.count) of \(count) files came") }
        print(time / .seconds(1))
        try await client.shutdown()
    }

    /// Fetches all URLs with a number of workers, each of which takes the next URL.
    private static func fetch(_ urls: [String], atOnce: Int, _ client: HTTPClient) async throws -> [ByteBuffer] {
        let turnstile = Turnstile()
        return try await withThrowingTaskGroup(of: [ByteBuffer].self) { group in
            for _ in 0..<atOnce {
                group.addTask {
                    var bodies: [ByteBuffer] = []
                    while let index = turnstile.next(below: urls.count) {
                        let request = HTTPClientRequest(url: urls[index])
                        let response = try await client.execute(request, timeout: .seconds(30))
                        bodies.append(try await response.body.collect(upTo: 1 << 20))
                        guard response.status == .ok else { fatalError("\(urls[index]): \(response.status)") }
                    }
                    return bodies
                }
            }
            var bodies: [ByteBuffer] = []
            for try await some in group { bodies += some }
            return bodies
        }
    }

    private final class Turnstile: Sendable {
        private let count = Atomic(0)

        func next(below limit: Int) -> Int? {
            let index = count.add(1, ordering: .relaxed).oldValue
            return index < limit ? index : nil
        }
    }
}
