import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Policies, expirations and HTTP caching, for pictures", .timeLimit(.minutes(2)))
struct ImagePolicyTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let newer = Image.sample(seed: 66)
    private let test = TestImageCache(folder: TemporaryFolder())
    private var processed: ImageRequest { ImageRequest(a).inverted }

    @Test("remote asks the network, anew for every processor; cache only never does; memory only writes no disk")
    func policies() async throws {
        try test.script(a, picture, newer)
        let cacheOnly = ImageRequest(a).with(\.cachePolicy, .cacheOnly)
        #expect(await test.error(cacheOnly) == .notCached)
        try await test.load(ImageRequest(a).with(\.cachePolicy, .memoryOnly))
        #expect(test.cache.data.diskCount == 0 && test.cache.cachedTier(for: a) == .memory)
        #expect(try await test.source(cacheOnly) == .memory)
        #expect(try await test.pixels(processed) == picture.inverted)
        let remote = try await test.cache.getRemoteImage(a).response
        #expect(remote.source == .network && remote.image.pixels == newer.pixels)
        #expect(test.cache.image(for: a)?.pixels == newer.pixels, "the newer one is in memory")
        #expect(try await test.pixels(processed) == newer.inverted)
    }

    @Test("what is asked for past the cache is not kept, and takes nothing from the cache if it is no picture")
    func bypass() async throws {
        let good = try ScriptedTransport.Step.image(picture)
        test.transport.script(a, [good, good, good, .body(Data("rubbish".utf8))])
        let request = ImageRequest(a).with(\.cachePolicy, .bypass)
        for _ in 0..<2 { #expect(try await test.pixels(request) == picture.pixels) }
        await test.expectEmpty()
        #expect(test.transport.transfers.count == 2)
        try await test.load(a)
        #expect(await test.error(request) == .unsupportedFormat)
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: a) && test.cache.image(for: a)?.pixels == picture.pixels)
    }

    @Test("a call past memory takes no picture from a call that shares its fetch", arguments: [true, false])
    func sharedPastMemory(isFirst: Bool) async throws {
        let policies: [DataRequest.CachePolicy] = isFirst ? [.diskOnly, .useCache] : [.useCache, .diskOnly]
        let tasks = policies.map { test.cache.getImage(ImageRequest(a).with(\.cachePolicy, $0)) }
        try await test.transport.nextTransfer().finish(with: try picture.png)
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        await test.cache.idle()
        #expect(test.cache.cachedTier(for: a) == .memory && test.transport.transfers.count == 1)
    }

    @Test(
        "cache only: a picture that is out of date answers, also without its original, and is not revalidated",
        arguments: [false, true], ["max-age=60", "max-age=60, stale-while-revalidate=600"])
    func cacheOnly(isProcessed: Bool, directives: String) async throws {
        try test.script(a, picture, headers: ["ETag": "\"1\"", "Cache-Control": directives])
        let request = isProcessed ? processed.with(\.keepsOriginal, false) : ImageRequest(a)
        try await test.load(request)
        test.date.advance(by: 100)
        for _ in ["memory", "disk"] {
            #expect(test.cache.hasImage(for: request))
            let response = try await test.cache.getImage(request.with(\.cachePolicy, .cacheOnly)).response
            #expect(response.revalidation == nil)
            await test.forgetMemory()
        }
        #expect(test.transport.transfers.count == 1)
    }

    @Test(
        "pictures stay in memory as long as they are told to; untold, as long as their files on disk",
        arguments: [(1_000, 10, .memory), (10, 1_000, .disk), (nil, 10, nil), (nil, 1_000, .memory)]
            as [(TimeInterval?, TimeInterval, ResponseSource?)], [true, false])
    func memoryExpiration(
        _ expirations: (memory: TimeInterval?, disk: TimeInterval, later: ResponseSource?), isAdded: Bool
    ) async throws {
        try test.script(a, picture)
        var request = ImageRequest(a).with(\.diskExpiration, .after(.seconds(expirations.disk)))
        request.memoryExpiration = expirations.memory.map { .after(.seconds($0)) }
        if isAdded { try test.cache.addImage(picture, for: request) } else { try await test.load(request) }
        await test.cache.idle()
        test.date.advance(by: 20)
        #expect(test.cache.cachedTier(for: a) == expirations.later)
    }

    @Test("no tier keeps a picture longer than its expiration says, however late it is decoded or processed")
    func diskExpiration() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.diskExpiration = .after(.seconds(100)) }
        try test.script(a, picture)
        try await test.load(a)
        test.cache.clearMemory()
        test.date.advance(by: 90)
        #expect(try await test.source(a) == .disk)
        #expect(try await test.source(processed) == .memory)
        await test.cache.idle()
        test.date.advance(by: 20)
        #expect(!test.cache.hasImage(for: a) && !test.cache.hasProcessedImage(for: processed))
        test.cache.clearMemory()
        #expect(try await test.source(processed) == .network)
    }

    @Test("what must not be stored is kept neither as picture nor as processed picture, and takes an older one away")
    func noStore() async throws {
        let b = url("b.png")
        let noStore = try ScriptedTransport.Step.image(newer, headers: ["Cache-Control": "no-store"])
        test.transport.script(a, [noStore])
        test.transport.script(b, [try .image(picture, headers: ["Cache-Control": "max-age=60"]), noStore])
        try await test.load(processed)
        await test.expectEmpty()
        try await test.load(b)
        test.date.advance(by: 100)
        try await test.load(b)
        #expect(!test.cache.data.hasData(for: b) && test.cache.image(for: b) == nil)
    }
}
