import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures by URL, from memory, disk and network", .timeLimit(.minutes(2)))
struct ImageCacheTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let test = TestImageCache(folder: TemporaryFolder())

    @Test("a picture is fetched and decoded once, then memory answers at once with the same pixels")
    func memory() async throws {
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
    }

    @Test("the disk keeps the file byte for byte, and a new cache on the folder decodes it without the network")
    func disk() async throws {
        try test.script(a, picture)
        _ = try await test.cache.getImage(a).value
        #expect(try test.cache.data.data(for: a) == picture.png)
        let two = await test.reopened()
        #expect(two.cache.cachedTier(for: a) == .disk)
        let response = try await two.cache.getImage(a).response
        #expect(response.source == .disk && response.image.pixels == picture.pixels)
        two.cache.clearMemory()
        #expect(two.cache.image(for: a)?.pixels == picture.pixels)
        #expect(two.cache.cachedTier(for: a) == .memory && two.transport.transfers.isEmpty)
    }

    @Test("a tier is named after where the bytes are: memory without a folder, and memory for bytes kept there alone")
    func tiers() async throws {
        let inMemory = TestImageCache()
        try inMemory.cache.addImage(bytes: try picture.png, for: a)
        #expect(inMemory.cache.cachedTier(for: a) == .memory)

        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.memoryLimit = 1 << 20 }
        try test.script(a, picture)
        _ = try await test.cache.data.getData(DataRequest(a).with(\.cachePolicy, .memoryOnly)).value
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.cache.cachedTier(for: a) == .memory)
    }

    // MARK: Bytes that are no picture

    @Test("what is no picture, or a broken one, is an error; its bytes stay until the server, asked again, has better")
    func undecodable() async throws {
        for (body, error) in [
            (Data("<html>not here</html>".utf8), DipperError.unsupportedFormat),
            (try picture.png.prefix(60), .undecodable),
        ] {
            let address = url("\(error)")
            try test.transport.script(address, [.body(body), .image(picture)])
            #expect(await test.error(address) == error)
            #expect(test.cache.image(for: address) == nil && test.cache.data.data(for: address) == body)
            #expect(test.transport.transfers(of: address).count == 1)
            #expect(try await test.pixels(address) == picture.pixels)
            #expect(test.transport.transfers(of: address).count == 2)
        }
    }

    @Test("a kept file that does not decode is fetched again, once, unless the cache alone may answer")
    func refetch() async throws {
        let (b, c) = (url("b.png"), url("c.png"))
        try test.script(a, picture)
        test.transport.script(b, [.body(Data("bad".utf8))])
        for (address, bytes) in [(a, try picture.png.prefix(70)), (b, Data("bad as well".utf8)), (c, Data("bad".utf8))]
        {
            try await test.cache.data.addDataAndWait(bytes, for: CacheKey(address))
        }
        test.cache.data.clearMemory()
        let response = try await test.cache.getImage(a).response
        #expect(response.source == .network && response.image.pixels == picture.pixels)
        #expect(await test.error(b) == .unsupportedFormat)
        #expect(await test.error(ImageRequest(c).with(\.cachePolicy, .cacheOnly)) == .unsupportedFormat)
        await test.cache.idle()
        #expect([a, b, c].map { test.transport.transfers(of: $0).count } == [1, 1, 0])
    }

    // MARK: Requests and keys

    @Test("bad requests end with a typed error: no URL, a scheme that is not for pictures, an empty key")
    func badRequests() async throws {
        let keyless = ImageRequest(a).with(\.key, "")
        #expect(await test.error(ImageRequest(string: "")) == .invalidURL)
        #expect(await test.error(ImageRequest(string: "ftp://host.test/a.png")) == .unsupportedScheme)
        #expect(await test.error(keyless) == .emptyKey)
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: CacheKey("")) }
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: keyless) }
    }

    @Test("a picture is kept, found and removed under a key of the program's own")
    func ownKey() async throws {
        try test.cache.addImage(picture, for: CacheKey("by key"))
        #expect(test.cache.image(for: CacheKey("by key"))?.pixels == picture.pixels)
        #expect(test.cache.hasImage(for: ImageRequest(a).with(\.key, "by key")) && !test.cache.hasImage(for: a))
        test.cache.removeImage(for: CacheKey("by key"))
        #expect(!test.cache.hasImage(for: CacheKey("by key")))
    }

    @Test("private pictures are never shown to whoever asks with other headers")
    func headers() async throws {
        try test.script(a, picture, .sample(seed: 3))
        let (mine, yours) = (
            ImageRequest(a).with(\.headers, ["Authorization": "me"]),
            ImageRequest(a).with(\.headers, ["Authorization": "you"])
        )
        let one = try await test.pixels(mine)
        #expect(try await test.pixels(yours) != one && test.transport.transfers.count == 2)
        #expect(test.cache.image(for: mine)?.pixels == one)
        #expect(test.cache.image(for: a) == nil)
    }
}
