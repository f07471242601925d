import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A type of the program's own is loaded by the request that it builds", .timeLimit(.minutes(5)))
struct OwnRequestTests {
    private struct Avatar: ImageRequestConvertible {
        let name: String
        var imageRequest: ImageRequest { ImageRequest(url(name)).with(\.key, CacheKey("avatar of \(name)")) }
    }

    private struct Feed: DataRequestConvertible {
        let name: String
        var dataRequest: DataRequest { DataRequest(url(name)).with(\.key, CacheKey("feed of \(name)")) }
    }

    @Test("pictures")
    func pictures() async throws {
        let test = TestImageCache()
        test.transport.script(url("ada"), [.body(try Image.sample().png)])
        let task = test.cache.getImage(Avatar(name: "ada"))
        #expect(task.key == "avatar of ada")
        _ = try await task.value
        #expect(test.cache.cachedTier(for: Avatar(name: "ada")) == .memory)
        #expect(test.cache.cachedTier(for: url("ada")) == nil)

        test.network.isUp = false
        let open = test.cache.getImage(Avatar(name: "alan")) { _ in }
        test.cache.moveTaskToSlowQueue(Avatar(name: "alan"))
        #expect(await settle { open.queue == .slow })
        test.cache.cancel(Avatar(name: "alan"))
        #expect(await open.error == .cancelled)
        await test.cache.shutdown()
    }

    @Test("bytes")
    func bytes() async throws {
        let test = TestCache()
        test.transport.script(url("ada"), [.body(Data("x".utf8))])
        let task = test.cache.getData(Feed(name: "ada"))
        #expect(task.key == "feed of ada")
        _ = try await task.value
        #expect(test.cache.hasData(for: Feed(name: "ada").dataRequest))

        test.network.isUp = false
        let open = test.cache.getData(Feed(name: "alan")) { _ in }
        test.cache.moveTaskToSlowQueue(Feed(name: "alan"))
        #expect(await settle { open.queue == .slow })
        test.cache.cancel(Feed(name: "alan"))
        #expect(await open.error == .cancelled)
        await test.cache.shutdown()
    }

    @Test("a URL builds the request with the cache's defaults")
    func urls() {
        #expect(url("a").imageRequest.cacheKey == CacheKey(url("a")))
        #expect(url("a").dataRequest.cacheKey == CacheKey(url("a")))
    }
}
