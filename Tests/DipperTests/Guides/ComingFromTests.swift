import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper
@testable import DipperData

@Suite("The code of the guides for those who come from another library", .timeLimit(.minutes(5)))
struct ComingFromTests {
    private let a = url("a.png")
    private let picture = Image.sample()

    @Test("a picture is retrieved, and shown at once by those who ask again")
    func showing() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        #expect(try await KingfisherGuide.retrieve(test.cache, a).source == .network)
        let (panel, banner) = (KingfisherGuide.Panel(), Stage())
        let binding = KingfisherGuide.display(panel, test.cache, a, Loop(), banner)
        #expect(panel.image?.pixels == picture.pixels && banner.texts.isEmpty)
        ImageXGuide.display(binding, ImageRequest(a))
        #expect(panel.image?.pixels == picture.pixels)
        let other = KingfisherGuide.Panel()
        let second = SGImageCacheGuide.binding(other, a, test.cache, .sample(seed: 7), Loop())
        SGImageCacheGuide.onScreen(second)
        #expect(other.image?.pixels == picture.pixels && second.isOnScreen)
        await test.cache.shutdown()
    }

    @Test("a request has what it was given")
    func requests() async throws {
        let request = KingfisherGuide.request(a, url("mirror"), url("small"))
        #expect(request.cachePolicy == .ignoreCache && request.lowDataURL == url("small"))
        #expect(request.alternatives.map(\.url) == [url("mirror")] && request.options.processors?.count == 1)
        let plain = ImageXGuide.network(a, "https://example.org")
        #expect(plain.headers["Referer"] == "https://example.org" && plain.timeout == .seconds(20))
        #expect(KingfisherGuide.options().transition == .fade(.milliseconds(300)))

        let test = TestImageCache()
        test.cache.getImage(KingfisherGuide.signed(a, "secret", "me"))
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers["Authorization"] == "secret")
        await test.cache.shutdown()
    }

    @Test("what is prefetched is told")
    func prefetching() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let (bar, banner) = (Stage(), Stage())
        let prefetcher = KingfisherGuide.prefetch(test.cache, [a], bar, banner)
        #expect(await settle { banner.texts == ["0 failed"] })
        #expect(prefetcher.progress.completed == 1)
        await test.cache.shutdown()
    }

    @Test("settings are taken")
    func settings() {
        var configuration = ImageCache.Configuration()
        KingfisherGuide.limits(&configuration)
        #expect(configuration.memoryLimit == 300 << 20 && configuration.memoryCountLimit == 500)
        #expect(configuration.data.diskLimit == 1 << 30 && configuration.data.diskExpiration == .days(30))
        ImageXGuide.cache(&configuration)
        #expect(configuration.data.compression == .gzip && configuration.data.diskLimit == 200 << 20)
    }

    @Test("there is each of the calls that are mapped")
    func tables() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let request = KingfisherGuide.allOptions(a, test.cache.data, .inPlace)
        #expect(request.cachePolicy == .bypass && request.priority == Priority(0.8))
        let bytes = try picture.png
        try test.cache.addImage(picture, bytes: bytes, for: url("kept"))
        await test.cache.synchronize()
        let task = test.cache.getRemoteImage(a)
        let other = test.cache.getRemoteImage(url("other"))
        let transfers = [try await test.transport.nextTransfer(), try await test.transport.nextTransfer()]
        #expect(test.cache.memoryCount == 1 && test.cache.data.diskCount == 1)
        try await KingfisherGuide.tables(test.cache, a, ImageRequest(url("b")), "key", picture, bytes)
        for ended in [task, other] { #expect(await ended.error == .cancelled) }
        #expect(await settle { transfers.allSatisfy(\.isCancelled) })
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.cache.data.fastQueue.maxConcurrent == 5 && test.cache.data.store.disk?.sizeLimit == 1 << 30)
        #expect(!test.cache.hasImage(for: a) && test.cache.data.data(for: CacheKey("key")) == nil)
        #expect(!test.cache.hasImage(for: url("kept")))
        #expect(await settle { test.cache.data.queueCounts == QueueCounts() })
        await test.cache.shutdown()
    }

    @Test("a file is played")
    func playing() async throws {
        let view = Stage()
        let player = try ImageXGuide.play(try picture.png, view)
        #expect(await settle { view.images.first?.pixels == picture.pixels })
        player.stop()
    }
}
