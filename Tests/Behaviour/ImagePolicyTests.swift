import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Policies, expirations and HTTP caching, for pictures", .timeLimit(.minutes(2)))
struct ImagePolicyTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let newer = Image.sample(seed: 66)
    private var processed: ImageRequest { ImageRequest(a).processed(by: Inverting()) }

    @Test("remote asks the network, cache only never does, memory only writes no disk")
    func policies() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, picture, newer)
        let cacheOnly = ImageRequest(a).with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getImage(cacheOnly).error == .notCached)
        _ = try await test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .memoryOnly)).value
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 0 && test.cache.cachedTier(for: a) == .memory)
        #expect(try await test.cache.getImage(cacheOnly).response.source == .memory)
        let remote = try await test.cache.getRemoteImage(a).response
        #expect(remote.source == .network && remote.image.pixels == newer.pixels)
        #expect(test.cache.image(for: a)?.pixels == newer.pixels, "the newer one is in memory")
        await test.cache.shutdown()
    }

    @Test("what is asked for past the cache is not kept, and takes nothing from the cache if it is no picture")
    func bypass() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(
            a, [try .image(picture), try .image(picture), try .image(picture), .body(Data("rubbish".utf8))])
        let request = ImageRequest(a).with(\.cachePolicy, .bypass)
        for _ in 0..<2 { #expect(try await test.cache.getImage(request).value.pixels == picture.pixels) }
        await test.cache.idle()
        #expect(!test.cache.hasImage(for: a) && test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.transport.transfers.count == 2)
        _ = try await test.cache.getImage(a).value
        await test.cache.idle()
        #expect(await test.cache.getImage(request).error == .unsupportedFormat)
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: a) && test.cache.image(for: a)?.pixels == picture.pixels)
        await test.cache.shutdown()
    }

    @Test("cache only: a processed picture that is out of date answers, also without its original")
    func cacheOnlyStale() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, picture, headers: ["ETag": "\"1\"", "Cache-Control": "max-age=60"])
        let request = processed.with(\.keepsOriginal, false)
        _ = try await test.cache.getImage(request).value
        await test.cache.idle()
        test.date.advance(by: 100)
        let cacheOnly = request.with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getImage(cacheOnly).error == nil, "in memory")
        test.cache.clearMemory()
        #expect(test.cache.hasImage(for: request))
        #expect(await test.cache.getImage(cacheOnly).error == nil, "on disk")
        await test.cache.shutdown()
    }

    @Test("cache only: no revalidation is begun")
    func cacheOnlyRevalidation() async throws {
        let test = TestImageCache()
        try test.script(a, picture, headers: ["Cache-Control": "max-age=60, stale-while-revalidate=600"])
        _ = try await test.cache.getImage(a).value
        test.date.advance(by: 100)
        let response = try await test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .cacheOnly)).response
        #expect(response.revalidation == nil)
        await test.cache.idle()
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("pictures stay in memory as long as they are told to; untold, as long as their files on disk")
    func memoryExpiration() async throws {
        let cases: [(memory: TimeInterval?, disk: TimeInterval, later: ResponseSource?)] = [
            (1_000, 10, .memory), (10, 1_000, .disk), (nil, 10, nil), (nil, 1_000, .memory),
        ]
        for (memory, disk, later) in cases {
            for isAdded in [true, false] {
                let test = TestImageCache(folder: TemporaryFolder())
                var request = ImageRequest(a).with(\.diskExpiration, .seconds(disk))
                request.memoryExpiration = memory.map { .seconds($0) }
                if isAdded {
                    try test.cache.addImage(picture, for: request)
                } else {
                    try test.script(a, picture)
                    _ = try await test.cache.getImage(request).value
                }
                await test.cache.idle()
                test.date.advance(by: 20)
                #expect(test.cache.cachedTier(for: a) == later, "\(String(describing: memory)) \(disk) \(isAdded)")
                await test.cache.shutdown()
            }
        }
    }

    @Test("no tier keeps a picture longer than its expiration says, however late it is decoded or processed")
    func diskExpiration() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.diskExpiration = .seconds(100) }
        try test.script(a, picture)
        _ = try await test.cache.getImage(a).value
        await test.cache.idle()
        test.cache.clearMemory()
        test.date.advance(by: 90)
        #expect(try await test.cache.getImage(a).response.source == .disk)
        #expect(try await test.cache.getImage(processed).response.source == .memory)
        await test.cache.idle()
        test.date.advance(by: 20)
        #expect(!test.cache.hasImage(for: a) && !test.cache.hasProcessedImage(for: processed))
        test.cache.clearMemory()
        #expect(try await test.cache.getImage(processed).response.source == .network)
        await test.cache.shutdown()
    }

    @Test("what must not be stored is neither kept as picture nor as processed picture")
    func noStore() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, picture, headers: ["Cache-Control": "no-store"])
        _ = try await test.cache.getImage(processed).value
        await test.cache.idle()
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("a picture that the server does not want stored any more is not shown again")
    func noStoreLater() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(
            a,
            [
                try .image(picture, headers: ["Cache-Control": "max-age=60"]),
                try .image(newer, headers: ["Cache-Control": "no-store"]),
            ])
        _ = try await test.cache.getImage(a).value
        test.date.advance(by: 100)
        _ = try await test.cache.getImage(a).value
        await test.cache.idle()
        #expect(!test.cache.data.hasData(for: a) && test.cache.image(for: a) == nil)
        await test.cache.shutdown()
    }

    @Test("what was asked for anew is anew for every processor")
    func remoteThenProcessed() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.script(a, picture, newer)
        #expect(try await test.cache.getImage(processed).value.pixels == picture.inverted)
        _ = try await test.cache.getRemoteImage(a).value
        #expect(try await test.cache.getImage(processed).value.pixels == newer.inverted)
        await test.cache.shutdown()
    }
}
