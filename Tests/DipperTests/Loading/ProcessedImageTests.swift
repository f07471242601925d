import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Processed pictures, on disk and in memory", .timeLimit(.minutes(5)))
struct ProcessedImageTests {
    private let a = url("a.png")
    private let picture = Image.sample(40, 30)
    private let translucent = Image.sample(40, 30, alpha: 90)

    @Test("the result of the processors is kept on disk beside the original, and used without processing again")
    func derived() async throws {
        let folder = TemporaryFolder()
        let invert = Inverting()
        let request = ImageRequest(a).processed(by: invert)
        let one = TestImageCache(folder: folder)
        one.transport.script(a, [.body(try translucent.png)])
        let first = try await one.cache.getImage(request).value
        await one.cache.synchronize()
        #expect(one.cache.hasProcessedImage(for: request) && one.cache.data.diskCount == 2)
        #expect(!one.cache.hasProcessedImage(for: ImageRequest(a).processed(by: Inverting("other"))))
        await one.cache.shutdown()

        let two = TestImageCache(folder: folder)
        let response = try await two.cache.getImage(request).response
        #expect(response.source == .disk && response.status == 200)
        // Nothing is lost of it, alpha neither.
        let difference = Difference(response.image.pixels, first.pixels)
        #expect(difference.largest <= 1 && response.image.size == first.size)
        #expect(invert.count.value == 1 && two.transport.transfers.isEmpty)
        two.cache.clearMemory()
        #expect(Difference(try #require(two.cache.image(for: request)).pixels, first.pixels).largest <= 1)
        #expect(invert.count.value == 1)
        await two.cache.shutdown()
    }

    @Test("a miss of the processed picture and a hit of the original: processed, not downloaded")
    func originalHit() async throws {
        let folder = TemporaryFolder()
        let one = TestImageCache(folder: folder)
        one.transport.script(a, [.body(try picture.png)])
        _ = try await one.cache.getImage(a).value
        await one.cache.shutdown()
        let invert = Inverting()
        let two = TestImageCache(folder: folder)
        let response = try await two.cache.getImage(ImageRequest(a).processed(by: invert)).response
        #expect(response.source == .disk && invert.count.value == 1 && two.transport.transfers.isEmpty)
        #expect(two.cache.image(for: ImageRequest(a).processed(by: Inverting("peek")))?.pixels == response.image.pixels)
        await two.cache.shutdown()
    }

    @Test("a processed picture whose original has been confirmed is not processed again; of a new original it is")
    func revalidated() async throws {
        let folder = TemporaryFolder()
        let invert = Inverting()
        let request = ImageRequest(a).processed(by: invert)
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=60"]
        let date = ManualDate()
        let test = TestImageCache(folder: folder, date: date)
        let newer = Image.sample(40, 30, seed: 77)
        test.transport.script(
            a,
            [
                .response(TransferResponse(headers: headers, body: try picture.png)),
                .response(TransferResponse(status: 304, headers: headers, body: Data())),
                .response(TransferResponse(headers: ["ETag": "\"2\""], body: try newer.png)),
            ])
        let first = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        // Fresh: no question.
        _ = try await test.cache.getImage(request).value
        #expect(test.transport.transfers.count == 1)

        date.advance(by: 100)
        test.cache.clearMemory()
        let second = try await test.cache.getImage(request).response
        #expect(second.source == .revalidated && second.image.pixels == first.pixels)
        #expect(invert.count.value == 1 && test.transport.transfers.count == 2)
        await test.cache.synchronize()

        // It is fresh again, on disk as well.
        test.cache.clearMemory()
        #expect(try await test.cache.getImage(request).response.source == .disk)
        #expect(test.transport.transfers.count == 2)

        date.advance(by: 100)
        let third = try await test.cache.getImage(request).response
        #expect(third.source == .network && invert.count.value == 2)
        #expect(third.image.pixels != first.pixels)
        await test.cache.shutdown()
    }

    @Test("a picture in memory that is out of date is asked about, and not decoded again if it still holds")
    func memoryRevalidated() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date)
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=60"]
        test.transport.script(
            a,
            [
                .response(TransferResponse(headers: headers, body: try picture.png)),
                .response(TransferResponse(status: 304, headers: headers, body: Data())),
            ])
        let first = try await test.cache.getImage(a).value
        date.advance(by: 100)
        let second = try await test.cache.getImage(a).response
        #expect(second.source == .revalidated && second.image.storage === first.storage)
        #expect(test.decoder.decodes == 1)
        #expect(try await test.cache.getImage(a).response.source == .memory)
        await test.cache.shutdown()
    }

    @Test("stale-while-revalidate: the old picture at once, the new one on onRevalidate and from then on")
    func staleWhileRevalidate() async throws {
        let date = ManualDate()
        let test = TestImageCache(date: date)
        let newer = Image.sample(40, 30, seed: 77)
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600"]
        test.transport.script(
            a,
            [
                .response(TransferResponse(headers: headers, body: try picture.png)),
                .response(TransferResponse(headers: headers, body: try newer.png)),
            ])
        _ = try await test.cache.getImage(a).value
        date.advance(by: 100)
        let told = Box<[UInt8]?>(nil)
        let task = test.cache.getImage(a)
        task.onRevalidate { result in told.update { $0 = (try? result.get())?.image.pixels } }
        let response = try await task.response
        #expect(response.source == .stale && response.image.pixels == picture.pixels)
        _ = try await response.revalidation?.value
        #expect(await settle { told.value == newer.pixels })
        let again = try await test.cache.getImage(a).response
        #expect(again.source == .memory && again.image.pixels == newer.pixels)
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("what must not be stored is neither kept as picture nor as processed picture")
    func noStore() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(a).processed(by: Inverting())
        test.transport.script(
            a, [.response(TransferResponse(headers: ["Cache-Control": "no-store"], body: try picture.png))])
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("private pictures are never shown to whoever asks with other headers")
    func headers() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png), .body(try Image.sample(seed: 3).png)])
        let mine = ImageRequest(a).with(\.headers, ["Authorization": "me"])
        let yours = ImageRequest(a).with(\.headers, ["Authorization": "you"])
        let one = try await test.cache.getImage(mine).value
        let two = try await test.cache.getImage(yours).value
        #expect(one.pixels != two.pixels && test.transport.transfers.count == 2)
        #expect(test.cache.image(for: mine)?.pixels == one.pixels)
        #expect(test.cache.image(for: a) == nil)
        await test.cache.shutdown()
    }

    @Test("the original goes if it is not wanted beside the processed picture")
    func withoutOriginal() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(a).processed(by: Inverting()).with(\.keepsOriginal, false)
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.getImage(request).value
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 1 && !test.cache.data.hasData(for: a))
        #expect(test.cache.hasProcessedImage(for: request))
        await test.cache.shutdown()
    }

    @Test("a processed file that does not decode is made anew of the original")
    func brokenDerived() async throws {
        let folder = TemporaryFolder()
        let invert = Inverting()
        let request = ImageRequest(a).processed(by: invert)
        let test = TestImageCache(folder: folder)
        test.transport.script(a, [.body(try picture.png)])
        let task = test.cache.getImage(request)
        let first = try await task.value
        await test.cache.synchronize()
        try await test.cache.data.addDataAndWait(Data("broken".utf8), for: task.imageKey)
        test.cache.clearMemory()
        #expect(try await test.cache.getImage(request).value.pixels == first.pixels)
        #expect(invert.count.value == 2 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("removing: one variant, or all of a url, in memory and on disk")
    func remove() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let requests = [
            ImageRequest(a), ImageRequest(a).processed(by: Inverting("1")),
            ImageRequest(a).processed(by: Inverting("2")),
        ]
        for request in requests { _ = try await test.cache.getImage(request).value }
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 3 && test.cache.memoryCount == 3)
        test.cache.removeImage(for: requests[1])
        #expect(!test.cache.hasProcessedImage(for: requests[1]) && test.cache.hasProcessedImage(for: requests[2]))
        test.cache.removeImage(for: a)
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 0 && test.cache.memoryCount == 0)
        for request in requests { #expect(!test.cache.hasImage(for: request)) }
        await test.cache.shutdown()
    }

    @Test("pictures added by hand are there at once, and on disk with the file given or an encoded one")
    func add() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache(folder: folder)
        try test.cache.addImage(translucent, for: a)
        let file = try picture.png
        try test.cache.addImage(picture, bytes: file, for: url("b"))
        try test.cache.addImage(picture, for: ImageRequest(url("c")).processed(by: Inverting()))
        #expect(test.cache.image(for: a)?.storage === translucent.storage)
        await test.cache.shutdown()
        let again = TestImageCache(folder: folder)
        #expect(Difference(try await again.cache.getImage(a).value.pixels, translucent.pixels).largest <= 1)
        #expect(again.cache.data.data(for: url("b")) == file)
        #expect(again.cache.hasProcessedImage(for: ImageRequest(url("c")).processed(by: Inverting())))
        #expect(!again.cache.hasImage(for: url("c")))
        #expect(again.transport.transfers.isEmpty)
        await again.cache.shutdown()
    }

    @Test("lengths in points follow the scale, which is then a part of the key; what has none is shared")
    func scale() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let round = ImageRequest(a).processed(by: .roundedCorners(radius: .points(2)))
        let one = try await test.cache.getImage(round).value
        let two = try await test.cache.getImage(round.with(\.scale, 2)).value
        #expect(one.pixels == (try ImageProcessors.RoundedCorners(radius: 2).process(picture, .init()).pixels))
        #expect(
            two.pixels == (try ImageProcessors.RoundedCorners(radius: 4).process(picture, .init()).pixels)
                && two.scale == 2)
        let crop = ImageRequest(a).processed(by: .crop(width: 5, height: 5))
        let keys = [crop, crop.with(\.scale, 2)].map { test.cache.getImage($0).imageKey }
        #expect(keys[0] == keys[1] && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    #if GIF
        @Test("a picture that moves keeps moving when it is processed, also after a look at the disk")
        func moving() async throws {
            let folder = TemporaryFolder()
            let request = ImageRequest(a).processed(by: .downsample(width: 8, height: 8))
            for _ in 0..<2 {
                let test = TestImageCache(folder: folder)
                test.transport.script(a, [.body(try Pictures.data("gif/keep.gif"))])
                let image = try await test.cache.getImage(request).value
                let frames = try #require(image.animation).makeFrameDecoder()
                #expect(try frames.next()?.image.size == image.size && image.width <= 8)
                await test.cache.synchronize()
                await test.cache.shutdown()
            }
        }
    #endif

    @Test("waiting for the disk write waits for the processed picture as well")
    func waitsForDisk() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: Inverting()).with(\.waitsForDiskWrite, true)
        _ = try await test.cache.getImage(request).value
        #expect(test.cache.data.diskCount == 2)
        await test.cache.shutdown()
    }
}
