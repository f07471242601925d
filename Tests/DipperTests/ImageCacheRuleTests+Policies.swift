import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

extension ImageCacheRuleTests {
    @Test("what a shared fetch of processed pictures wants on disk is there, whoever came first")
    func derivedShared() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(a).processed(by: Inverting())
        let one = test.cache.getImage(request.with(\.cachePolicy, .memoryOnly))
        let transfer = try await test.transport.nextTransfer()
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
        _ = try await test.transport.nextTransfer()
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
        #expect(try await test.cache.getImage(request).response.source == .memory)
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
        let transfer = try await test.transport.nextTransfer()
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
}
