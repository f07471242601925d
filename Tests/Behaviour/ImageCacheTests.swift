import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures by URL, from memory, disk and network", .timeLimit(.minutes(2)))
struct ImageCacheTests {
    private let a = url("a.png")
    private let picture = Image.sample()

    @Test("a picture is fetched and decoded once, then memory answers at once with the same pixels")
    func memory() async throws {
        let test = TestImageCache()
        try test.script(a, picture)
        let first = try await test.cache.getImage(a).response
        #expect(first.source == .network && first.attempts == 1 && first.status == 200)
        #expect(first.image.pixels == picture.pixels)
        let second = test.cache.getImage(a)
        #expect(second.state == .finished)
        let response = try await second.response
        #expect(response.source == .memory && response.image.storage === first.image.storage)
        #expect(test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        #expect(test.cache.image(for: a)?.storage === first.image.storage)
        #expect(test.cache.cachedTier(for: a) == .memory && test.cache.hasImage(for: a))
        #expect(test.cache.memoryCount == 1 && test.cache.memorySize >= picture.byteCount)
        await test.cache.shutdown()
    }

    @Test("the disk keeps the file byte for byte, and a new cache on the folder decodes it without the network")
    func disk() async throws {
        let folder = TemporaryFolder()
        let file = try picture.png
        let one = TestImageCache(folder: folder)
        try one.script(a, picture)
        _ = try await one.cache.getImage(a).value
        #expect(one.cache.data.data(for: a) == file)
        await one.cache.shutdown()

        let two = TestImageCache(folder: folder)
        #expect(two.cache.cachedTier(for: a) == .disk)
        let response = try await two.cache.getImage(a).response
        #expect(response.source == .disk && response.image.pixels == picture.pixels)
        two.cache.clearMemory()
        #expect(two.cache.image(for: a)?.pixels == picture.pixels)
        #expect(two.cache.cachedTier(for: a) == .memory && two.transport.transfers.isEmpty)
        await two.cache.shutdown()
    }

    @Test("a tier is named after where the bytes are: memory without a folder, and memory for bytes kept there alone")
    func tiers() async throws {
        let inMemory = TestImageCache()
        try inMemory.cache.addImage(bytes: try picture.png, for: a)
        #expect(inMemory.cache.cachedTier(for: a) == .memory)
        await inMemory.cache.shutdown()

        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.memoryLimit = 1 << 20 }
        try test.script(a, picture)
        _ = try await test.cache.data.getData(DataRequest(a).with(\.cachePolicy, .memoryOnly)).value
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.cache.cachedTier(for: a) == .memory)
        await test.cache.shutdown()
    }

    @Test("what is no picture, or a broken one, is an error, and its bytes stay for calls that can use them")
    func undecodable() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(Data("<html>not here</html>".utf8))])
        #expect(await test.cache.getImage(a).error == .unsupportedFormat)
        #expect(test.cache.image(for: a) == nil && test.cache.data.data(for: a) != nil)
        #expect(test.transport.transfers.count == 1)
        let broken = url("broken.png")
        test.transport.script(broken, [.body(try picture.png.prefix(60))])
        #expect(await test.cache.getImage(broken).error == .undecodable)
        #expect(test.cache.image(for: broken) == nil && test.cache.data.data(for: broken) != nil)
        await test.cache.shutdown()
    }

    @Test("a kept file that does not decode is fetched again, once, unless the cache alone may answer")
    func refetch() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let (b, c) = (url("b.png"), url("c.png"))
        try test.script(a, picture)
        try await test.cache.data.addDataAndWait(try picture.png.prefix(70), for: CacheKey(a))
        test.cache.data.clearMemory()
        let response = try await test.cache.getImage(a).response
        #expect(response.source == .network && response.image.pixels == picture.pixels)
        #expect(test.transport.transfers.count == 1)

        test.transport.script(b, [.body(Data("bad".utf8))])
        try await test.cache.data.addDataAndWait(Data("bad as well".utf8), for: CacheKey(b))
        #expect(await test.cache.getImage(b).error == .unsupportedFormat)
        #expect(test.transport.transfers(of: b).count == 1)

        try await test.cache.data.addDataAndWait(Data("bad".utf8), for: CacheKey(c))
        let cacheOnly = ImageRequest(c).with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getImage(cacheOnly).error == .unsupportedFormat)
        await test.cache.idle()
        #expect(test.transport.transfers(of: c).isEmpty)
        await test.cache.shutdown()
    }

    @Test("bad requests end with a typed error: no URL, a scheme that is not for pictures, an empty key")
    func badRequests() async throws {
        let test = TestImageCache()
        #expect(await test.cache.getImage(ImageRequest(string: "")).error == .invalidURL)
        #expect(await test.cache.getImage(ImageRequest(string: "file:///etc/passwd")).error == .unsupportedScheme)
        #expect(await test.cache.getImage(ImageRequest(a).with(\.key, "")).error == .emptyKey)
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: CacheKey("")) }
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: ImageRequest(a).with(\.key, "")) }
        await test.cache.shutdown()
    }

    @Test("a picture is kept, found and removed under a key of the program's own")
    func ownKey() async throws {
        let test = TestImageCache()
        try test.cache.addImage(picture, for: CacheKey("by key"))
        #expect(test.cache.image(for: CacheKey("by key"))?.pixels == picture.pixels)
        #expect(test.cache.hasImage(for: ImageRequest(a).with(\.key, "by key")) && !test.cache.hasImage(for: a))
        test.cache.removeImage(for: CacheKey("by key"))
        #expect(!test.cache.hasImage(for: CacheKey("by key")))
        await test.cache.shutdown()
    }

    @Test("private pictures are never shown to whoever asks with other headers")
    func headers() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, picture, .sample(seed: 3))
        let mine = ImageRequest(a).with(\.headers, ["Authorization": "me"])
        let yours = ImageRequest(a).with(\.headers, ["Authorization": "you"])
        let one = try await test.cache.getImage(mine).value
        let two = try await test.cache.getImage(yours).value
        #expect(one.pixels != two.pixels && test.transport.transfers.count == 2)
        #expect(test.cache.image(for: mine)?.pixels == one.pixels)
        #expect(test.cache.image(for: a) == nil)
        await test.cache.shutdown()
    }
}
