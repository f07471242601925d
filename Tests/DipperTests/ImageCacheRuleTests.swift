import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

/// A barrier that blocks its callers until the test opens it.
private final class Gate: Sendable {
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
    private let a = url("a.png")
    private let b = url("b.png")
    private let picture = Image.sample()

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
        let gate = Gate()
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
        let gate = Gate()
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
        let first = Gate()
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
        let gate = Gate()
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
        _ = await test.transport.nextTransfer()
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
        let transfer = await two.transport.nextTransfer()
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
        for _ in 0..<1 { (await test.transport.nextTransfer()).finish(with: try picture.png) }
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

    @Test("what a shared fetch of processed pictures wants on disk is there, whoever came first")
    func derivedShared() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(a).processed(by: Inverting())
        let one = test.cache.getImage(request.with(\.cachePolicy, .memoryOnly))
        let transfer = await test.transport.nextTransfer()
        let two = test.cache.getImage(request.with(\.waitsForDiskWrite, true))
        #expect(await settle { two.state == .transferring })
        transfer.finish(with: try picture.png)
        _ = try await one.value
        _ = try await two.value
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 2, "\(test.cache.data.diskCount)")
        await test.cache.shutdown()
    }

    @Test("a bypass that brings rubbish does not remove what the cache has")
    func bypassRubbish() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png), .body(Data("rubbish".utf8))])
        _ = try await test.cache.getImage(a).value
        await test.cache.synchronize()
        #expect(await test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .bypass)).error == .unsupportedFormat)
        await test.cache.synchronize()
        #expect(test.cache.data.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("a local file that is asked for anew is not copied to the disk tier; names are not answered from there")
    func localFileOnDisk() async throws {
        let icons = TemporaryFolder(), folder = TemporaryFolder()
        let file = icons.url.appendingPathComponent("home.png")
        try picture.png.write(to: file)
        let one = TestImageCache(folder: folder) { $0.resourceFolders = [icons.url] }
        _ = try await one.cache.getRemoteImage(ImageRequest(FileProvider(file))).value
        await one.cache.synchronize()
        #expect(one.cache.data.diskCount == 0)
        await one.cache.shutdown()
        let newer = Image.sample(seed: 90)
        try newer.png.write(to: file)
        let two = TestImageCache(folder: folder) { $0.resourceFolders = [icons.url] }
        #expect(two.cache.imageNamed("home")?.pixels == newer.pixels)
        await two.cache.shutdown()
    }

    @Test("on a constrained network a picture that memory has is not fetched in its small form")
    func lowDataMemory() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        test.transport.script(b, [.body(try Image.sample(4, 4).png)])
        let request = ImageRequest(a).with(\.lowDataURL, b)
        _ = try await test.cache.getImage(request).value
        test.cache.data.clearMemory()
        test.network.setConditions(.init(isConstrained: true))
        #expect(try await test.cache.getImage(request).response.source == .memory)
        #expect(test.transport.transfers(of: b).isEmpty)
        await test.cache.shutdown()
    }

    @Test("the small form is never kept as the picture itself")
    func lowDataRefetch() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        test.transport.script(b, [.body(try Image.sample(4, 4).png)])
        let request = ImageRequest(a).with(\.lowDataURL, b)
        try await test.cache.data.addDataAndWait(Data("rubbish".utf8), for: CacheKey(a))
        test.network.setConditions(.init(isConstrained: true))
        _ = try await test.cache.getImage(request).value
        test.network.setConditions(.init(isConstrained: false))
        #expect(try await test.cache.getImage(request).value.size == picture.size)
        await test.cache.shutdown()
    }

    @Test("a call for the small form is cancelled and moved by the request it was made with")
    func lowDataCancel() async throws {
        let test = TestImageCache()
        test.network.setConditions(.init(isConstrained: true))
        let request = ImageRequest(a).with(\.lowDataURL, b)
        let task = test.cache.getImage(request)
        _ = await test.transport.nextTransfer()
        test.cache.moveTaskToSlowQueue(request)
        #expect(task.queue == .slow)
        test.cache.cancel(request)
        #expect(task.state == .failed(.cancelled))
        test.cache.cancelAll()
        await test.cache.shutdown()
    }

    @Test("cache only: a processed picture that is out of date answers, also without its original")
    func cacheOnlyStale() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date)
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=60"]
        test.transport.script(a, [.response(TransferResponse(headers: headers, body: try picture.png))])
        let request = ImageRequest(a).processed(by: Inverting()).with(\.keepsOriginal, false)
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        date.advance(by: 100)
        let cacheOnly = request.with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getImage(cacheOnly).error == nil, "in memory")
        test.cache.clearMemory()
        #expect(test.cache.hasImage(for: request))
        #expect(await test.cache.getImage(cacheOnly).error == nil, "on disk")
        await test.cache.shutdown()
    }

    @Test("cache only: no revalidation is begun that cannot be")
    func cacheOnlyRevalidation() async throws {
        let date = ManualDate()
        let test = TestImageCache(date: date)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600"]
        test.transport.script(a, [.response(TransferResponse(headers: headers, body: try picture.png))])
        _ = try await test.cache.getImage(a).value
        date.advance(by: 100)
        let response = try await test.cache.getImage(ImageRequest(a).with(\.cachePolicy, .cacheOnly)).response
        #expect(response.revalidation == nil)
        await test.cache.shutdown()
    }

    @Test("no tier keeps a picture longer than its expiration says: decoded")
    func expirationDecoded() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date) { $0.data.diskExpiration = .seconds(100) }
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.getImage(a).value
        await test.cache.synchronize()
        test.cache.clearMemory()
        date.advance(by: 90)
        #expect(try await test.cache.getImage(a).response.source == .disk)
        date.advance(by: 20)
        #expect(!test.cache.hasImage(for: a))
        #expect(try await test.cache.getImage(a).response.source == .network)
        await test.cache.shutdown()
    }

    @Test("no tier keeps a picture longer than its expiration says: processed")
    func expirationProcessed() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date) { $0.data.diskExpiration = .seconds(100) }
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.getImage(a).value
        await test.cache.synchronize()
        date.advance(by: 90)
        let request = ImageRequest(a).processed(by: Inverting())
        #expect(try await test.cache.getImage(request).response.source == .disk)
        await test.cache.synchronize()
        test.cache.clearMemory()
        date.advance(by: 20)
        #expect(try await test.cache.getImage(request).response.source == .network)
        await test.cache.shutdown()
    }

    @Test("flush removes what was stored before, also where it was decoded since")
    func flushDecoded() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date)
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.getImage(a).value
        await test.cache.synchronize()
        test.cache.clearMemory()
        date.advance(by: 100)
        _ = try await test.cache.getImage(a).value
        test.cache.flush(olderThan: .seconds(50))
        await test.cache.synchronize()
        #expect(!test.cache.hasImage(for: a))
        await test.cache.shutdown()
    }

    @Test("a file added by hand takes the place of what was decoded of the old one")
    func addBytes() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: Inverting())
        _ = try await test.cache.getImage(a).value
        let old = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        let newer = Image.sample(seed: 66)
        try test.cache.addImage(bytes: try newer.png, for: a)
        #expect(try await test.cache.getImage(a).value.pixels == newer.pixels)
        #expect(try await test.cache.getImage(request).value.pixels != old.pixels)
        await test.cache.shutdown()
    }

    @Test("what was asked for anew is anew for every processor")
    func remoteThenProcessed() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png), .body(try Image.sample(seed: 66).png)])
        let request = ImageRequest(a).processed(by: Inverting())
        let old = try await test.cache.getImage(request).value
        _ = try await test.cache.getRemoteImage(a).value
        #expect(try await test.cache.getImage(request).value.pixels != old.pixels)
        await test.cache.shutdown()
    }

    @Test("a processed picture does not get worse with each confirmation")
    func generations() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date)
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=60"]
        test.transport.script(
            a,
            [
                .response(TransferResponse(headers: headers, body: try Pictures.data("jpeg/large.jpg"))),
                .response(TransferResponse(status: 304, headers: headers, body: Data())),
            ])
        let request = ImageRequest(a).processed(by: .downsample(width: 100, height: 100))
        let task = test.cache.getImage(request)
        let first = try await task.value
        await test.cache.synchronize()
        let file = try #require(test.cache.data.data(for: task.imageKey))
        for _ in 0..<10 {
            date.advance(by: 100)
            test.cache.clearMemory()
            #expect(try await test.cache.getImage(request).response.source == .revalidated)
            await test.cache.synchronize()
        }
        let last = try #require(test.cache.data.data(for: task.imageKey))
        #expect(last == file)
        test.cache.clearMemory()
        let difference = Difference(try await test.cache.getImage(request).value.pixels, first.pixels)
        #expect(difference.largest <= 60)
        await test.cache.shutdown()
    }

    @Test("a late hook hears no preview after the picture")
    func latePreview() async throws {
        let test = TestImageCache()
        let task = test.cache.getImage(a)
        let transfer = await test.transport.nextTransfer()
        task.tellPreview(.sample(2, 2))
        transfer.finish(with: try picture.png)
        _ = try await task.value
        let shown = Box<[PixelSize]>([])
        task.then { image in shown.update { $0.append(image.size) } }
            .onPreview { image in shown.update { $0.append(image.size) } }
        #expect(await settle { shown.value.contains(picture.size) })
        #expect(await stays { shown.value.last == picture.size }, "\(shown.value)")
        await test.cache.shutdown()
    }

    @Test("what is added by hand is found after a restart, whatever the cache's defaults")
    func addWithFlags() async throws {
        let folder = TemporaryFolder()
        let one = TestImageCache(folder: folder) { $0.options.firstFrameOnly = true }
        try one.cache.addImage(picture, for: a)
        await one.cache.synchronize()
        await one.cache.shutdown()
        let two = TestImageCache(folder: folder) { $0.options.firstFrameOnly = true }
        two.transport.script(a, [.status(404)])
        #expect(two.cache.hasImage(for: a))
        #expect(two.cache.image(for: a) != nil)
        #expect(await two.cache.getImage(a).error == nil)
        await two.cache.shutdown()
    }

    @Test("the file of a picture is found also where only the first frame is decoded")
    func fileWithFlags() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let bytes = try Pictures.data("jpeg/large.jpg")
        try #require(bytes.count > 4_096)
        test.transport.script(a, [.body(bytes)])
        let request = ImageRequest(a).with(\.firstFrameOnly, true)
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        let file: URL = try #require(test.cache.file(for: ImageRequest(a)))
        #expect(test.cache.file(for: request) == file)
        await test.cache.shutdown()
    }

    @Test("one picture is removed also where only the first frame is decoded")
    func removeWithFlags() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).with(\.firstFrameOnly, true)
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        test.cache.removeImage(for: request)
        #expect(!test.cache.hasImage(for: request))
        await test.cache.shutdown()
    }

    @Test("a chain is the same picture however it is put together")
    func chainKeys() async throws {
        let test = TestImageCache()
        let one = ImageRequest(a).processed(by: Inverting("1") |> Inverting("2"))
        let two = ImageRequest(a).processed(by: Inverting("1")).processed(by: Inverting("2"))
        #expect(test.cache.getImage(one).imageKey == test.cache.getImage(two).imageKey)
        test.cache.cancelAll()
        await test.cache.shutdown()
    }

    @Test("what the server does not want stored any more is not shown")
    func noStoreLater() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date)
        test.transport.script(
            a,
            [
                .response(TransferResponse(headers: ["Cache-Control": "max-age=60"], body: try picture.png)),
                .response(
                    TransferResponse(headers: ["Cache-Control": "no-store"], body: try Image.sample(seed: 66).png)),
            ])
        _ = try await test.cache.getImage(a).value
        date.advance(by: 100)
        _ = try await test.cache.getImage(a).value
        await test.cache.synchronize()
        #expect(!test.cache.data.hasData(for: a))
        #expect(test.cache.image(for: a) == nil)
        await test.cache.shutdown()
    }

    @Test("who joins a decode hears of the attempts as well")
    func joinerAttempts() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        test.transport.script(a, [.body(try picture.png)])
        let one = test.cache.getImage(a)
        #expect(await settle { test.decoder.decodes == 1 })
        let two = test.cache.getImage(a)
        test.decoder.release()
        let (first, second) = (try await one.response, try await two.response)
        #expect(first.attempts == 1 && second.source == .network && second.attempts == 1, "\(second.attempts)")
        await test.cache.shutdown()
    }

    @Test("without a folder no tier is called disk")
    func tierWithoutDisk() async throws {
        let test = TestImageCache()
        try test.cache.addImage(bytes: try picture.png, for: a)
        #expect(test.cache.cachedTier(for: a) == .memory)
        await test.cache.shutdown()
    }

    @Test("bytes that are in memory alone are not called on disk")
    func tierOfBytesInMemory() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.memoryLimit = 1 << 20 }
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.data.getData(DataRequest(a).with(\.cachePolicy, .memoryOnly)).value
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.cache.cachedTier(for: a) == .memory)
        await test.cache.shutdown()
    }

    @Test("fields of a processed picture from disk are those of the server")
    func derivedFields() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(
            a,
            [
                .response(
                    TransferResponse(
                        headers: [
                            "Cache-Control": "max-age=60", "Content-Type": "image/png", "Connection": "X-Hop",
                            "X-Hop": "1",
                        ], body: try picture.png))
            ])
        let request = ImageRequest(a).processed(by: Inverting())
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        test.cache.clearMemory()
        let response = try await test.cache.getImage(request).response
        #expect(response.source == .disk)
        #expect(response.headers["Dipper-Made-Of"] == nil)
        #expect(response.headers["X-Hop"] == nil)
        await test.cache.shutdown()
    }

    @Test("prefetches wait for the decoder, so that what waits for it stays bounded")
    func backpressure() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        // Ten megabytes that are no picture behind the picture.
        let file = try picture.png + Data(count: 10 << 20)
        for index in 0..<40 {
            test.transport.script(url("\(index)"), [.body(file)])
            test.cache.slowGetImage(url("\(index)"))
        }
        #expect(await settle { test.decoder.decodes > 0 })
        #expect(await stays { test.transport.transfers.count < 10 }, "\(test.transport.transfers.count)")
        // With the decoder they go on.
        for _ in 0..<40 { test.decoder.release() }
        #expect(await settle { test.transport.transfers.count == 40 && test.cache.loader.live.all.isEmpty })
        await test.cache.shutdown()
    }

    @Test("what is to be written stays bounded, whatever is decoded meanwhile")
    func boundedWrites() async throws {
        let gate = Gate()
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.decodingThreads = 1
            $0.options.serializer = gate.serializer
        }
        let tasks = try (0..<20).map { index -> ImageTask in
            test.transport.script(url("\(index)"), [.body(try picture.png)])
            return test.cache.getImage(ImageRequest(url("\(index)")).processed(by: Inverting()))
        }
        // The one thread encodes when too much waits.
        #expect(await settle { gate.entered.value == 1 })
        #expect(await stays { tasks.count { $0.state == .finished } < 12 })
        gate.open(20)
        for task in tasks { _ = try await task.value }
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 40)
        await test.cache.shutdown()
    }

    @Test("adding many pictures does not wait for the encoder")
    func addMany() async throws {
        let gate = Gate()
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.decodingThreads = 1
            $0.options.serializer = gate.serializer
        }
        let added = Box(0)
        Thread.detachNewThread { [picture, cache = test.cache] in
            for number in 0..<12 {
                try? cache.addImage(picture, for: url("\(number)"))
                added.update { $0 += 1 }
            }
        }
        #expect(await settle { added.value == 12 })
        gate.open(12)
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 12)
        await test.cache.shutdown()
    }

    // MARK: Shutdown

    @Test("shutdown waits for a picture that a queue of the program's own is writing")
    func waitsForWrite() async throws {
        let folder = TemporaryFolder()
        let gate = Gate()
        let test = TestImageCache(folder: folder) { $0.options.serializer = gate.serializer }
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: Inverting())
            .with(\.processingQueue, .dispatch(DispatchQueue(label: "own"))).with(\.waitsForDiskWrite, true)
        let task = test.cache.getImage(request)
        try #require(await settle { gate.entered.value == 1 })
        let hasEnded = Box(false)
        let cache = test.cache
        let end = Task {
            await cache.shutdown()
            hasEnded.update { $0 = true }
        }
        #expect(await task.error == .cancelled)
        #expect(await stays { !hasEnded.value })
        gate.open()
        await end.value
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasProcessedImage(for: request))
        await again.cache.shutdown()
    }

    @Test("a shared data cache outlives one of two image caches; shutting down twice at once is fine")
    func sharedOriginals() async throws {
        let transport = ScriptedTransport()
        let folder = TemporaryFolder()
        var configuration = DataCache.Configuration(directory: folder.url)
        configuration.transport = transport
        configuration.callbackQueue = .inPlace
        let data = DataCache(configuration)
        transport.script(a, [.body(try picture.png)])
        let one = TestImageCache { $0.originals = data }, two = TestImageCache { $0.originals = data }
        _ = try await one.cache.getImage(ImageRequest(a).processed(by: Inverting())).value
        let open = one.cache.getImage(b)
        let cache = one.cache
        async let first: Void = cache.shutdown()
        async let second: Void = cache.shutdown()
        _ = await (first, second)
        #expect(await open.error == .cancelled)
        #expect(await one.cache.getImage(a).error == .shutDown)
        #expect(try await two.cache.getImage(a).value.pixels == picture.pixels)
        await data.synchronize()
        #expect(data.diskCount == 2)
        await two.cache.shutdown()
        await data.shutdown()
    }

    @Test("everything goes with the last reference to the cache, also with tasks and pictures held")
    func freed() async throws {
        // A picture that moves holds its decoder.
        let hasGIF = CodecRegistry.standard.readable.contains(.gif)
        let moving = try Pictures.data(hasGIF ? "gif/keep.gif" : "jpeg/420.jpg")
        weak var loader: ImageLoader?
        weak var weakTask: ImageTask?
        var held: [Image] = []
        var tasks: [ImageTask] = []
        do {
            let test = TestImageCache(folder: TemporaryFolder())
            loader = test.cache.loader
            test.transport.script(a, [.body(try picture.png)])
            test.transport.script(b, [.body(moving)])
            for address in [a, b] {
                let task = test.cache.getImage(ImageRequest(address).with(\.showsPreviews, true))
                held.append(try await task.value)
                tasks.append(task)
                let other = test.cache.getImage(ImageRequest(address).processed(by: Inverting()))
                _ = try await other.value
                weakTask = other
            }
            tasks.append(test.cache.getImage(url("open")))
            tasks.append(test.cache.slowGetImage(url("later")))
        }
        #expect(await settle { loader == nil && weakTask == nil })
        #expect(await tasks[2].error == .cancelled)
        #expect(await tasks[3].error == .cancelled)
        #expect(!held.isEmpty)
    }

    // MARK: Stress

    @Test("many tasks over few pictures, with everything that can happen to them: each ends once, and queues are free")
    func stress() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date) { $0.decodingThreads = 3 }
        let (cache, clock) = (test.cache, test.clock)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600", "ETag": "\"1\""]
        let files = try (0..<8).map { try Image.sample(20, 20, seed: UInt8($0 + 1)).png }
        for index in 0..<8 {
            let good = ScriptedTransport.Step.response(TransferResponse(headers: headers, body: files[index]))
            let steps: [ScriptedTransport.Step] =
                switch index {
                case 0: [.status(503), good, .status(503), good]
                case 1: [.body(Data("rubbish".utf8)), good, .body(Data("rubbish".utf8)), good]
                case 2: [.failure(.connectionLost), good]
                case 3: [.status(404), good]
                default: [good]
                }
            test.transport.script(url("s\(index)"), steps)
        }
        let running = Box(true)
        let ticker = Task {
            while running.value {
                _ = clock.advanceToNextSleeper()
                await Task.yield()
            }
        }
        let ends = Box<[Int: Int]>([:])
        let told = Box(0)
        let all = Box<[ImageTask]>([])
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    var random = SystemRandomNumberGenerator()
                    for step in 0..<400 {
                        let address = url("s\(Int.random(in: 0..<8, using: &random))")
                        var request = ImageRequest(address)
                        if Bool.random(using: &random) { request = request.processed(by: Inverting("s")) }
                        if Int.random(in: 0..<4, using: &random) == 0 {
                            request = request.processed(by: .downsample(width: 10, height: 10))
                        }
                        if Int.random(in: 0..<6, using: &random) == 0 { request.waitsForDiskWrite = true }
                        if Int.random(in: 0..<8, using: &random) == 0 {
                            request.cachePolicy = DataRequest.CachePolicy.allCases.randomElement(using: &random)
                        }
                        switch Int.random(in: 0..<40, using: &random) {
                        case 0: cache.clear()
                        case 1: cache.clearMemory()
                        case 2: cache.removeImage(for: address)
                        case 3: cache.removeImage(for: request)
                        case 4: date.advance(by: 50)
                        case 5: _ = cache.image(for: request)
                        case 6: cache.moveTaskToSlowQueue(address)
                        case 7: cache.cancel(address)
                        case 8: all.value.randomElement(using: &random)?.priority = .high
                        default: break
                        }
                        let number = worker * 1_000 + step
                        let task =
                            switch Int.random(in: 0..<5, using: &random) {
                            case 0, 1: cache.slowGetImage(request)
                            case 2: cache.getRemoteImage(request)
                            default: cache.getImage(request)
                            }
                        task.onEnd { _ in ends.update { $0[number, default: 0] += 1 } }
                        task.onFail { _, isFatal in if isFatal { told.update { $0 += 1 } } }
                        all.update { $0.append(task) }
                        switch Int.random(in: 0..<8, using: &random) {
                        case 0: task.cancel()
                        case 1: task.moveToSlowQueue()
                        case 2: all.value.randomElement(using: &random)?.cancel()
                        case 3: all.value.randomElement(using: &random)?.moveToSlowQueue()
                        default: break
                        }
                        if step % 20 == 0 { await Task.yield() }
                    }
                }
            }
        }
        #expect(await settle { ends.value.count == 1_600 })
        let stuck = all.value.filter { $0.state != .finished && !$0.hasEnded }
        #expect(ends.value.count == 1_600, "stuck: \(stuck.map { "\($0.key) \($0.state) \($0.queue)" })")
        #expect(ends.value.values.allSatisfy { $0 == 1 })
        #expect(await settle { cache.data.queueCounts == QueueCounts() && cache.loader.live.all.isEmpty })
        #expect(cache.data.queueCounts == QueueCounts(), "\(cache.data.queueCounts)")
        #expect(cache.loader.live.all.isEmpty)
        test.transport.script(url("after"), [.body(files[0])])
        let after = cache.slowGetImage(ImageRequest(url("after")).processed(by: Inverting("after")))
        #expect(await settle { after.state == .finished })
        #expect(after.state == .finished, "\(after.state)")
        // What is there is right.
        for index in 4..<8 {
            let image = try await cache.getImage(url("s\(index)")).value
            #expect(image.pixels == Image.sample(20, 20, seed: UInt8(index + 1)).pixels)
        }
        running.update { $0 = false }
        await ticker.value
        await cache.shutdown()
    }

    @Test("shutting down in the middle of everything: all tasks end")
    func stressShutdown() async throws {
        for round in 0..<15 {
            let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 1 + round % 4 }
            let cache = test.cache
            let file = try Image.sample(60, 60).png
            for index in 0..<6 { test.transport.script(url("s\(index)"), [.body(file)]) }
            let ends = Box(0)
            let tasks = Box<[ImageTask]>([])
            await withTaskGroup(of: Void.self) { group in
                for worker in 0..<3 {
                    group.addTask {
                        for step in 0..<60 {
                            var request = ImageRequest(url("s\((step + worker) % 6)"))
                            if step % 2 == 0 { request = request.processed(by: Inverting("\(step)")) }
                            if step % 5 == 0 { request.waitsForDiskWrite = true }
                            let task = step % 3 == 0 ? cache.slowGetImage(request) : cache.getImage(request)
                            task.onEnd { _ in ends.update { $0 += 1 } }
                            tasks.update { $0.append(task) }
                            if step % 7 == 0 { await Task.yield() }
                        }
                    }
                }
                group.addTask {
                    for _ in 0..<round * 20 { await Task.yield() }
                    await cache.shutdown()
                }
            }
            #expect(await settle { ends.value == 180 })
            #expect(ends.value == 180, "round \(round): \(ends.value)")
        }
    }
}

// MARK: Previews

/// A transport that shows as much of a body as the test sets.
private final class ShowingTransport: Transport {
    final class Moving: Transfer {
        let request: TransferRequest
        let receive: @Sendable (TransferEvent) -> Void
        let shown = Box(Data())
        init(_ request: TransferRequest, _ receive: @escaping @Sendable (TransferEvent) -> Void) {
            self.request = request
            self.receive = receive
        }
        func cancel() { receive(.finished(.failure(.cancelled))) }
        func setThrottled(_ isThrottled: Bool) {}
        func setQueue(_ queue: FetchQueue) {}
        func copyBody(_ reply: @escaping @Sendable (Data, Int) -> Void) { reply(shown.value, request.offset) }
        func show(_ data: Data) {
            shown.update { $0 = data }
            receive(.progress(received: data.count, expected: nil))
        }
    }

    let transfers = Box<[Moving]>([])
    func start(_ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void) -> any Transfer {
        let moving = Moving(request, receive)
        transfers.update { $0.append(moving) }
        return moving
    }
    func shutdown() async {}
}
