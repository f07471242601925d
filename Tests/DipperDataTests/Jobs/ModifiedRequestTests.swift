import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Requests that are changed before they are sent", .timeLimit(.minutes(5)))
struct ModifiedRequestTests {
    private let a = url("a")

    /// Signs the URL with a new signature each time.
    private func signing(_ count: Box<Int>) -> RequestModifier {
        RequestModifier { request in
            count.update { $0 += 1 }
            var request = request
            request.url = URL(string: request.url.absoluteString + "?signed=\(count.value)")!
            return request
        }
    }

    private func sent(_ test: TestCache) -> [String] { test.transport.transfers.map(\.request.url.absoluteString) }

    @Test("what a modified URL has brought is asked about by its validators")
    func revalidation() async throws {
        let test = TestCache()
        let count = Box(0)
        let request = DataRequest(a).with(\.modifier, signing(count))
        let first = test.cache.getData(request)
        try await test.transport.nextTransfer().finish(
            with: Data("1".utf8), headers: ["ETag": "\"v\"", "Cache-Control": "max-age=1"])
        _ = try await first.value
        test.date.advance(by: 5)
        let second = test.cache.getData(request)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers["If-None-Match"] == "\"v\"")
        transfer.finish(with: Data(), status: 304, headers: ["ETag": "\"v\""])
        #expect(try await Told(second.response) == Told("1", .revalidated))
        #expect(sent(test) == ["http://host.test/a?signed=1", "http://host.test/a?signed=2"])
        await test.cache.shutdown()
    }

    @Test("what a modified URL has begun to bring is continued")
    func resume() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero) }
        let count = Box(0)
        let task = test.cache.getData(DataRequest(a).with(\.modifier, signing(count)))
        try await test.transport.nextTransfer().interrupt(
            with: TransferResponse(headers: ["ETag": "\"v\"", "Content-Length": "4"], body: Data("ab".utf8)))
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers["Range"] == "bytes=2-" && transfer.request.offset == 2)
        transfer.finish(
            with: Data("cd".utf8), status: 206, headers: ["ETag": "\"v\"", "Content-Range": "bytes 2-3/4"])
        #expect(try await task.value == Data("abcd".utf8))
        await test.cache.shutdown()
    }

    @Test("each request that is sent is changed once, after a refusal and a redirect too")
    func once() async throws {
        let test = TestCache()
        let count = Box(0)
        let credentials = Credentials.provider { $0.demand == nil ? "old" : "new" }
        let task = test.cache.getData(
            DataRequest(a).with(\.modifier, signing(count)).with(\.credentials, credentials))
        try await test.transport.nextTransfer().finish(with: Data(), status: 401, headers: ["WWW-Authenticate": "X"])
        let second = try await test.transport.nextTransfer()
        #expect(second.request.headers["Authorization"] == "new")
        second.finish(with: Data(), status: 302, headers: ["Location": "b"])
        try await test.transport.nextTransfer().finish(with: Data("1".utf8))
        #expect(try await task.value == Data("1".utf8))
        #expect(
            sent(test) == [
                "http://host.test/a?signed=1", "http://host.test/a?signed=2", "http://host.test/b?signed=3",
            ])
        await test.cache.shutdown()
    }

    @Test("a method that would break out of its line is not sent", arguments: ["GET / HTTP/1.1\r\nX: y", "", "A B"])
    func method(method: String) async throws {
        let test = TestCache()
        let modifier = RequestModifier { request in
            var request = request
            request.method = method
            return request
        }
        #expect(await test.cache.getData(DataRequest(a).with(\.modifier, modifier)).error == .invalidHeader)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
        // Neither by libcurl itself.
        let transport = CurlTransport()
        var request = TransferRequest(url: a)
        request.method = method
        let ended = Box<DipperError?>(nil)
        _ = transport.start(request) { event in
            if case .finished(.failure(let error)) = event { ended.update { $0 = error } }
        }
        await transport.shutdown()
        #expect(ended.value == .invalidHeader)
    }
}
