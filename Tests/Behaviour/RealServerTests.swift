import DipperData
import FaultServer
import Foundation
import TestSupport
import Testing

@Suite("The transport against a real server", .timeLimit(.minutes(2)))
struct RealServerTests {
    private func result(
        of request: TransferRequest, over transport: CurlTransport, _ begun: (any Transfer) async -> Void = { _ in }
    ) async -> Result<TransferResponse, DipperError> {
        let (ends, end) = AsyncStream.makeStream(of: Result<TransferResponse, DipperError>.self)
        await begun(transport.start(request) { if case .finished(let result) = $0 { end.yield(result) } })
        for await result in ends { return result }
        return .failure(.cancelled)
    }

    @Test("A body that is too large ends a transfer that was held back, once it is let go on")
    func tooLargeAfterPause() async throws {
        let server = try await FaultServer.start()
        var configuration = CurlConfiguration()
        configuration.maximumBodySize = 1_000
        let transport = CurlTransport(configuration)
        func end(of path: String, _ begun: (any Transfer) async -> Void = { _ in }) async -> DipperError? {
            await result(of: TransferRequest(url: server.url(path), queue: .slow), over: transport, begun).error
        }
        let error = await end(of: "/bytes/10000/a?chunked=1&delay=50") { transfer in
            transfer.setThrottled(true)
            await server.waitForEnds(1)
            // The first bytes have been held back when another transfer of the pool is over.
            #expect(await end(of: "/bytes/10/b?delay=50") == nil)
            transfer.setThrottled(false)
        }
        #expect(error == .tooLarge)
        await transport.shutdown()
        await server.stop()
    }

    @Test("A server that hangs up amid the TLS handshake is a failure that may pass", arguments: [true, false])
    func handshake(isReset: Bool) async throws {
        let server = try await RawServer.start(greeting: [isReset ? .reset : .close])
        var configuration = DataCache.Configuration()
        configuration.logger.logLevel = .critical
        configuration.retryPolicy = .never
        let cache = DataCache(configuration)
        let error = await cache.getData(DataRequest(string: server.url("/", scheme: "https"))).error
        // A reset may come before the connection counts as made.
        #expect(error == .connectionLost || isReset && error == .connectionFailed)
        if !isReset { #expect(error?.detail == "the TLS handshake was broken off") }
        await cache.shutdown()
        await server.stop()
    }

    @Test("A request leaves nothing of its method and body behind for the next one")
    func methods() async throws {
        let server = try await RawServer.start { request in
            let body = request.head.hasPrefix("HEAD") ? "" : "here"
            return [.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n" + body), .close]
        }
        let transport = CurlTransport()
        let requests = [
            ("POST", Data("1".utf8)), ("POST", Data()), ("HEAD", nil), ("POST", Data("1".utf8)), ("GET", nil),
        ]
        for (method, body) in requests {
            var request = TransferRequest(url: URL(string: server.url("/x"))!)
            request.method = method
            request.body = body
            let response = try await result(of: request, over: transport).get()
            #expect(response.body == Data((method == "HEAD" ? "" : "here").utf8), "\(method)")
        }
        await transport.shutdown()
        await server.stop()
    }
}
