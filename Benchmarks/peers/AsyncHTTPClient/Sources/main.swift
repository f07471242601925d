// The peer async-http-client of the fetch comparison, with the arguments and the output of curl_loop.c.
// async-http-client-loop BASE COUNT AT_ONCE: fetches BASE/0 … BASE/(COUNT-1), keeps every body in memory,
// prints the seconds from the first request to the last byte.
import AsyncHTTPClient
import NIOCore
import Synchronization

let words = CommandLine.arguments
guard words.count == 4, let count = Int(words[2]), let atOnce = Int(words[3]) else {
    fatalError("arguments: BASE COUNT AT_ONCE")
}
let urls = (0..<count).map { "\(words[1])/\($0)" }
let next = Atomic(0)
var configuration = HTTPClient.Configuration()
configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = atOnce
let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
var bodies: [ByteBuffer] = []
let time = try await ContinuousClock().measure {
    bodies = try await withThrowingTaskGroup(of: [ByteBuffer].self) { group in
        for _ in 0..<atOnce {
            // Each worker takes the next URL.
            group.addTask {
                var bodies: [ByteBuffer] = []
                while true {
                    let index = next.add(1, ordering: .relaxed).oldValue
                    guard index < urls.count else { return bodies }
                    let response = try await client.execute(HTTPClientRequest(url: urls[index]), timeout: .seconds(30))
                    let body = try await response.body.collect(upTo: 1 << 20)
                    guard response.status == .ok else { fatalError("\(urls[index]): \(response.status)") }
                    bodies.append(body)
                }
            }
        }
        return try await group.reduce(into: []) { $0 += $1 }
    }
}
guard bodies.count == count else { fatalError("\(bodies.count) of \(count) files came") }
print(time / .seconds(1))
try await client.shutdown()
