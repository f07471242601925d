import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("What all requests of a cache have in common", .timeLimit(.minutes(2)))
struct CompletedRequestTests {
    private let a = url("a")

    @Test("calls, look-ups, additions and removals all use the completed request")
    func data() async throws {
        let test = TestCache {
            $0.completeRequest = { request in
                request.headers["X-App"] = "kiosk"
                request.credentials = .bearer("secret", identity: "me")
            }
        }
        test.transport.script(a, [.text("here")])
        #expect(try await test.ask(a) == "here from network")
        let sent = test.requests(a)[0]
        #expect(sent["X-App"] == "kiosk" && sent["Authorization"] == "Bearer secret")
        #expect(test.cache.data(for: a) != nil && test.cache.response(for: a) != nil && test.cache.hasData(for: a))
        #expect(test.cache.data(for: CacheKey(a)) == nil, "the key is another one")
        let others = [DataRequest(url("b")), DataRequest(url("b")).with(\.headers, ["Accept": "image/webp"])].map {
            test.cache.getData($0)
        }
        test.cache.cancel(url("b"))
        for task in others { #expect(await task.error == .cancelled, "a URL still means all its calls") }
        test.cache.removeData(for: a)
        #expect(test.cache.data(for: a) == nil)
        try test.cache.addData(Data("added".utf8), for: a)
        #expect(try await test.ask(a) == "added from memory")
        #expect(test.requests(a).count == 1)
    }

    @Test("pictures and values too")
    func pictures() async throws {
        let test = TestImageCache { $0.data.completeRequest = { $0.headers["X-App"] = "kiosk" } }
        try test.script(a, .sample())
        let image = try await test.cache.getImage(a).value
        #expect(test.transport.transfers[0].request.headers["X-App"] == "kiosk")
        #expect(test.cache.image(for: a)?.storage === image.storage && test.cache.hasImage(for: a))
        test.cache.removeImage(for: a)
        #expect(test.cache.image(for: a) == nil && !test.cache.hasImage(for: a))
        test.transport.script(url("v"), [.text("[1]")])
        #expect(try await test.cache.data.getValue([Int].self, from: url("v")).value == [1])
        #expect(test.cache.data.value([Int].self, for: url("v")) == [1])
        #expect(test.transport.transfers.last?.request.headers["X-App"] == "kiosk")
    }

    @Test("the closure changes each request once, also for files that are added and for prefetchers")
    func once() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.completeRequest = { $0.key = CacheKey("mine " + $0.cacheKey.string) }
        }
        try test.cache.addImage(bytes: Image.sample().png, for: a)
        #expect(test.cache.hasImage(for: a) && test.cache.image(for: a) != nil)
        #expect(try await test.pixels(a) == Image.sample().pixels && test.transport.transfers.isEmpty)
        await test.cache.idle()
        let request = ImageRequest(a)
        #expect(await ImagePrefetcher(test.cache, filesOf: [request]).value.skipped == [request])
        #expect(await DataPrefetcher(test.cache.data, urls: [a]).value.skipped.count == 1)
    }
}
