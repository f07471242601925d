import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

extension ImageCacheRuleTests {
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
        #expect(await settle { test.transport.transfers.count == 40 && test.cache.objects.requestCount() == 0 })
        await test.cache.shutdown()
    }

    @Test("what is to be written stays bounded, whatever is decoded meanwhile")
    func boundedWrites() async throws {
        let gate = EncodingGate()
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 1
            $0.options.serializer = gate.serializer
        }
        let tasks = try (0..<20).map { index -> ImageTask in
            test.transport.script(url("\(index)"), [.body(try picture.png)])
            return test.cache.getImage(ImageRequest(url("\(index)")).processed(by: Inverting()))
        }
        // All others wait for the one thread.
        #expect(await settle { test.cache.objects.queue.count == 19 })
        for _ in 0..<20 { test.decoder.release() }
        // The thread encodes when too much waits.
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
        let gate = EncodingGate()
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
}
