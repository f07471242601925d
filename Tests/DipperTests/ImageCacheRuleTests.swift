import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

/// A barrier that blocks its callers until the test opens it.
final class EncodingGate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    let entered = Box(0)
    func pass() {
        entered.update { $0 += 1 }
        semaphore.wait()
    }
    func open(_ count: Int = 1) { for _ in 0..<count { semaphore.signal() } }
    var serializer: ImageSerializer {
        ImageSerializer { [self] image, _, codecs throws(DipperError) in
            pass()
            return try codecs.encode(image, as: .png)
        }
    }
}

@Suite("Pictures that come, go and change at the same time", .timeLimit(.minutes(5)))
struct ImageCacheRuleTests {
    let a = url("a.png")
    let b = url("b.png")
    let picture = Image.sample()

    @Test("the scale of one request is not that of the next, which says nothing")
    func scaleLeaks() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        #expect(try await test.cache.getImage(ImageRequest(a).with(\.scale, 2)).value.scale == 2)
        #expect(try await test.cache.getImage(a).value.scale == 1)
        await test.cache.shutdown()
    }

    @Test("a processed picture on disk is peeked at as it is, not decoded to the first processor's size again")
    func peekDerived() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: .downsample(width: 8, height: 6))
            .processed(by: .resize(width: 32, height: 24, allowsUpscaling: true))
        #expect(try await test.cache.getImage(request).value.size == PixelSize(width: 32, height: 24))
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.image(for: request)?.size == PixelSize(width: 32, height: 24))
        // And what the peek left in memory is what calls are answered with.
        #expect(try await test.cache.getImage(request).value.size == PixelSize(width: 32, height: 24))
        await test.cache.shutdown()
    }

    @Test("what was added and then removed does not come back")
    func addThenRemove() async throws {
        let gate = EncodingGate()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.options.serializer = gate.serializer }
        try test.cache.addImage(picture, for: a)
        test.cache.removeImage(for: a)
        gate.open(5)
        await test.cache.synchronize()
        #expect(!test.cache.hasImage(for: a))
        await test.cache.shutdown()
    }

    @Test("clear also clears what was processed before and is still being written")
    func clearBeforeWrite() async throws {
        let gate = EncodingGate()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.options.serializer = gate.serializer }
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: Inverting())
        _ = try await test.cache.getImage(request).value
        test.cache.clear()
        gate.open(5)
        await test.cache.synchronize()
        #expect(!test.cache.hasProcessedImage(for: request) && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("removal while a picture is decoded: it does not come back in memory")
    func removeWhileDecoding() async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        test.transport.script(a, [.body(try picture.png)])
        let task = test.cache.getImage(a)
        #expect(await settle { test.decoder.decodes == 1 })
        test.cache.clear()
        test.decoder.release()
        _ = try await task.value
        #expect(!test.cache.hasImage(for: a))
        await test.cache.shutdown()
    }

    @Test("of two pictures added one after the other the later one is on disk")
    func addOrder() async throws {
        let first = EncodingGate()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 4 }
        let newer = Image.sample(seed: 50)
        try test.cache.addImage(picture, for: ImageRequest(a).with(\.serializer, first.serializer))
        #expect(await settle { first.entered.value == 1 })
        try test.cache.addImage(newer, for: a)
        first.open()
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.image(for: a)?.pixels == newer.pixels)
        await test.cache.shutdown()
    }

    @Test("synchronize waits for what is being encoded, with any number of threads")
    func synchronizeWaits() async throws {
        let gate = EncodingGate()
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.decodingThreads = 4
            $0.options.serializer = gate.serializer
        }
        try test.cache.addImage(picture, for: a)
        #expect(await settle { gate.entered.value == 1 })
        let done = Box(false)
        let cache = test.cache
        Task {
            await cache.synchronize()
            done.update { $0 = true }
        }
        #expect(await stays { !done.value })
        gate.open()
        await test.cache.shutdown()
    }

    @Test("to cancel one's own revalidation leaves those of others")
    func revalidationCancel() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600"]
        test.transport.script(
            a, [.response(TransferResponse(headers: headers, body: try picture.png)), .silence])
        _ = try await test.cache.getImage(a).value
        await test.cache.synchronize()
        test.cache.clearMemory()
        date.advance(by: 100)
        // Both are answered by one look at the disk.
        let urgent = test.cache.getImage(b)
        _ = try await test.transport.nextTransfer()
        let one = test.cache.slowGetImage(a), two = test.cache.slowGetImage(a)
        urgent.cancel()
        let (first, second) = (try await one.response.revalidation, try await two.response.revalidation)
        let (mine, yours) = (try #require(first), try #require(second))
        #expect(mine !== yours)
        mine.cancel()
        #expect(await stays { yours.state != .failed(.cancelled) }, "\(yours.state)")
        test.cache.cancelAll()
        await test.cache.shutdown()
    }

    @Test("stale-while-revalidate comes to an end also if prefetches stay out of memory")
    func staleForEver() async throws {
        let date = ManualDate()
        let test = TestImageCache(date: date)
        let newer = Image.sample(seed: 77)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600"]
        test.transport.script(
            a,
            [
                .response(TransferResponse(headers: headers, body: try picture.png)),
                .response(TransferResponse(headers: headers, body: try newer.png)),
            ])
        let request = ImageRequest(a).with(\.prefetchesToMemory, false)
        _ = try await test.cache.getImage(request).value
        date.advance(by: 100)
        let response = try await test.cache.getImage(request).response
        #expect(response.source == .stale)
        _ = try await response.revalidation?.value
        #expect(try await test.cache.getImage(request).value.pixels == newer.pixels)
        await test.cache.shutdown()
    }

    @Test("a processed picture on disk is read and decoded once for all who ask at the same time")
    func derivedDedup() async throws {
        let folder = TemporaryFolder()
        let request = ImageRequest(a).processed(by: Inverting())
        let one = TestImageCache(folder: folder)
        one.transport.script(a, [.body(try picture.png)])
        _ = try await one.cache.getImage(request).value
        await one.cache.shutdown()
        let two = TestImageCache(folder: folder)
        let tasks = (0..<20).map { _ in two.cache.getImage(request) }
        var storages: Set<ObjectIdentifier> = []
        var images: [Image] = []
        for task in tasks { images.append(try await task.value) }
        for image in images { storages.insert(ObjectIdentifier(image.storage)) }
        #expect(two.decoder.decodes == 1, "\(two.decoder.decodes)")
        #expect(storages.count == 1, "\(storages.count)")
        await two.cache.shutdown()
    }

    @Test("a prefetch of a processed picture on disk waits for urgent work, as that of a plain one does")
    func derivedPrefetch() async throws {
        let folder = TemporaryFolder()
        let request = ImageRequest(a).processed(by: Inverting())
        let one = TestImageCache(folder: folder)
        one.transport.script(a, [.body(try picture.png)])
        one.transport.script(b, [.body(try picture.png)])
        _ = try await one.cache.getImage(request).value
        _ = try await one.cache.getImage(b).value
        await one.cache.shutdown()
        let two = TestImageCache(folder: folder)
        let urgent = two.cache.getImage(url("urgent"))
        let transfer = try await two.transport.nextTransfer()
        let plain = two.cache.slowGetImage(b)
        let processed = two.cache.slowGetImage(request)
        #expect(await stays { plain.state == .waiting && processed.state == .waiting }, "\(processed.state)")
        transfer.finish(with: try picture.png)
        _ = try await urgent.value
        _ = try await plain.value
        _ = try await processed.value
        await two.cache.shutdown()
    }

    @Test("one who does not want the original beside the processed picture does not take it from one who does")
    func keepsOriginalShared() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let processed = test.cache.getImage(ImageRequest(a).processed(by: Inverting()).with(\.keepsOriginal, false))
        let plain = test.cache.getImage(a)
        for _ in 0..<1 { (try await test.transport.nextTransfer()).finish(with: try picture.png) }
        _ = try await plain.value
        _ = try await processed.value
        await test.cache.synchronize()
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.data.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("who joins the decode of a bypass has the picture kept")
    func bypassJoined() async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        test.transport.script(a, [.body(try picture.png)])
        let one = test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .bypass))
        #expect(await settle { test.decoder.decodes == 1 })
        let two = test.cache.getImage(a)
        #expect(await settle { two.state == .decoding })
        test.decoder.release()
        test.decoder.release()
        _ = try await one.value
        _ = try await two.value
        await test.cache.synchronize()
        #expect(test.cache.hasImage(for: a))
        await test.cache.shutdown()
    }
}
