import DipperTesting
import FaultServer
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Previews of progressive pictures", .timeLimit(.minutes(5)))
struct PreviewTests {
    private let a = url("photo.jpg")

    /// The offsets at which the scans of a progressive file end.
    private func scanEnds(_ file: Data) -> [Int] {
        var progressive = ProgressiveJPEG()
        var ends: [Int] = []
        for length in 1...file.count {
            _ = progressive.preview(in: file.prefix(length))
            if progressive.usableLength != ends.last ?? 0 { ends.append(progressive.usableLength) }
        }
        return ends
    }

    @Test("a progressive picture is shown coarse while its bytes arrive, finer with each, then whole")
    func previews() async throws {
        let file = try Pictures.data("jpeg/progressive.jpg")
        let whole = try CodecRegistry.standard.decode(file)
        let ends = scanEnds(file)
        try #require(ends.count >= 3)
        let test = TestImageCache()
        let previews = Box<[Image]>([])
        let task = test.cache.getImage(ImageRequest(a).with(\.showsPreviews, true))
        task.onPreview { preview in previews.update { $0.append(preview) } }
        let transfer = try await test.transport.nextTransfer()
        var progressive = ProgressiveJPEG()
        for end in ends {
            let seen = previews.value.count
            transfer.hold(TransferResponse(body: file.prefix(end + 1)))
            transfer.send(progress: end + 1, of: file.count)
            test.clock.advance(by: .seconds(1))
            if progressive.preview(in: file.prefix(end + 1)) != nil {
                #expect(await settle { previews.value.count > seen })
            }
        }
        transfer.finish(with: file)
        let last = try await task.value
        #expect(last.pixels == whole.pixels)
        let seen = previews.value
        #expect(seen.count >= 2 && seen.allSatisfy { $0.size == whole.size })
        let errors = seen.map { Difference($0.pixels, whole.pixels).mean }
        #expect(errors == errors.sorted(by: >) && errors[0] > 0, "\(errors)")
        // Previews are not kept: memory has the whole one.
        #expect(test.cache.image(for: a)?.pixels == whole.pixels)
        await test.cache.shutdown()
    }

    @Test("who begins to look while nothing comes sees what has come before")
    func latecomer() async throws {
        let file = try Pictures.data("jpeg/progressive.jpg")
        let test = TestImageCache()
        let first = test.cache.getImage(a)
        let transfer = try await test.transport.nextTransfer()
        let end = scanEnds(file)[2] + 1
        transfer.hold(TransferResponse(body: file.prefix(end)))
        transfer.send(progress: end, of: file.count)
        let previews = Box(0)
        let second = test.cache.getImage(ImageRequest(a).with(\.showsPreviews, true))
            .onPreview { _ in previews.update { $0 += 1 } }
        #expect(await settle { previews.value == 1 })
        transfer.finish(with: file)
        _ = try await (first.value, second.value)
        await test.cache.shutdown()
    }

    @Test("what comes while a preview is being made is previewed afterwards, even if nothing more comes")
    func meanwhile() async throws {
        let file = try Pictures.data("jpeg/progressive.jpg")
        let ends = scanEnds(file)
        let decoder = CountingDecoder(JPEGDecoder(), isHeld: true)
        let test = TestImageCache(decoder: decoder)
        let previews = Box(0)
        let task = test.cache.getImage(ImageRequest(a).with(\.showsPreviews, true))
            .onPreview { _ in previews.update { $0 += 1 } }
        let transfer = try await test.transport.nextTransfer()
        for end in [ends[1], ends[ends.count - 2]] {
            transfer.hold(TransferResponse(body: file.prefix(end + 1)))
            transfer.send(progress: end + 1, of: file.count)
            #expect(await settle { decoder.decodes == 1 })
            test.clock.advance(by: .seconds(1))
        }
        #expect(previews.value == 0)
        for count in 1...2 {
            decoder.release()
            #expect(await settle { previews.value == count })
        }
        decoder.release()
        transfer.finish(with: file)
        _ = try await task.value
        await test.cache.shutdown()
    }

    @Test("previews are processed, and come over a real connection that stands still")
    func realServer() async throws {
        let file = try Pictures.data("jpeg/progressive.jpg")
        let ends = scanEnds(file)
        let middle = ends[ends.count / 2] + 2
        let server = try await FaultServer.start(files: ["/photo.jpg": file])
        var configuration = ImageCache.Configuration()
        configuration.data.logger.logLevel = .critical
        let cache = ImageCache(configuration)
        let request = ImageRequest(server.url("/photo.jpg?stall=\(middle)&etag=1&times=1"))
            .with(\.showsPreviews, true).processed(by: .downsample(width: 20, height: 20))
        let preview = Box<Image?>(nil)
        let task = cache.getImage(request).onPreview { image in preview.update { $0 = image } }
        try #require(await settle { preview.value != nil })
        #expect(
            try #require(preview.value).size
                == TargetSize(PixelSize(width: 20, height: 20)).size(
                    for: ImageInfo(file).size ?? PixelSize(width: 1, height: 1)))
        task.cancel()
        #expect(await task.error == .cancelled)
        await cache.shutdown()
        await server.stop()
    }

    @Test(
        "who wants the same made of the same bytes shares the decoding; who comes later sees the last preview at once")
    func shared() async throws {
        let file = try Pictures.data("jpeg/progressive.jpg")
        let ends = scanEnds(file)
        let test = TestImageCache(decoder: CountingDecoder(JPEGDecoder()))
        let plain = ImageRequest(a).with(\.showsPreviews, true)
        let seen = Box<[String: [Image]]>([:])
        let ask: @Sendable (String, ImageRequest) -> ImageTask = { name, request in
            test.cache.getImage(request).onPreview { image in seen.update { $0[name, default: []].append(image) } }
        }
        let tasks = [
            ask("first", plain), ask("second", plain.with(\.scale, 2)),
            ask("processed", plain.processed(by: Inverting())),
        ]
        let transfer = try await test.transport.nextTransfer()
        let show: @Sendable (Int) -> Void = { end in
            transfer.hold(TransferResponse(body: file.prefix(end + 1)))
            transfer.send(progress: end + 1, of: file.count)
        }
        // A timer of the cache may show bytes as soon as the clock is advanced: they are there before.
        let showLater: @Sendable (Int) -> Void = { end in
            transfer.hold(TransferResponse(body: file.prefix(end + 1)))
            test.clock.advance(by: .seconds(1))
            transfer.send(progress: end + 1, of: file.count)
        }
        show(ends[1])
        #expect(await settle { seen.value.values.map(\.count) == [1, 1, 1] })
        // One for both, and one for the other.
        #expect(test.decoder.decodes == 2)
        let first = try #require(seen.value["first"]?.first)
        let second = try #require(seen.value["second"]?.first)
        #expect(first.storage === second.storage && first.scale == 1 && second.scale == 2)
        #expect(seen.value["processed"]?.first?.pixels != first.pixels)

        // The bytes that have come are shown to the late one, who needs no decoding of their own.
        let late = ask("late", plain)
        showLater(ends[1])
        #expect(await settle { seen.value["late"]?.count == 1 })
        #expect(seen.value["late"]?.first?.storage === first.storage && test.decoder.decodes == 2)

        // To leave takes nothing from the others.
        tasks[0].cancel()
        showLater(try #require(ends.last))
        #expect(await settle { seen.value["second"]?.count == 2 && seen.value["late"]?.count == 2 })
        #expect(seen.value["first"]?.count == 1)
        transfer.finish(with: file)
        for task in tasks[1...] + [late] { _ = try await task.value }

        // The next ones begin anew.
        test.cache.removeImage(for: a)
        let count = test.decoder.decodes
        let again = ask("again", plain)
        let next = try await test.transport.nextTransfer()
        next.hold(TransferResponse(body: file.prefix(ends[1] + 1)))
        next.send(progress: ends[1] + 1, of: file.count)
        #expect(await settle { seen.value["again"]?.count == 1 })
        #expect(test.decoder.decodes == count + 1)
        again.cancel()
        await test.cache.shutdown()
    }

    @Test("baseline pictures, and requests that want none, have no previews")
    func none() async throws {
        let test = TestImageCache()
        let baseline = try Pictures.data("jpeg/420.jpg")
        let progressive = try Pictures.data("jpeg/progressive.jpg")
        let previews = Box(0)
        for (file, shows) in [(baseline, true), (progressive, false)] {
            let task = test.cache.getImage(ImageRequest(url("\(shows)")).with(\.showsPreviews, shows))
            task.onPreview { _ in previews.update { $0 += 1 } }
            let transfer = try await test.transport.nextTransfer()
            transfer.hold(TransferResponse(body: file.dropLast(20)))
            transfer.send(progress: file.count - 20, of: file.count)
            transfer.finish(with: file)
            _ = try await task.value
        }
        #expect(await stays { previews.value == 0 })
        await test.cache.shutdown()
    }

    @Test("bytes that are continued are put behind those there were; a start anew is taken as such")
    func continued() async throws {
        let file = try Pictures.data("jpeg/progressive.jpg")
        let ends = scanEnds(file)
        let first = ends[0] / 2
        for status in [206, 200] {
            let test = TestImageCache()
            let headers: HTTPHeaders = ["ETag": "\"1\"", "Content-Length": "\(file.count)"]
            let previews = Box(0)
            let task = test.cache.getImage(ImageRequest(a).with(\.showsPreviews, true))
            task.onPreview { _ in previews.update { $0 += 1 } }
            let broken = try await test.transport.nextTransfer()
            broken.interrupt(with: TransferResponse(headers: headers, body: file.prefix(first)))
            #expect(await settle { test.clock.sleeperCount > 0 })
            while test.clock.advanceToNextSleeper() {}
            let next = try await test.transport.nextTransfer()
            #expect(next.request.offset == first)
            let bytes = status == 206 ? file[first..<ends[1] + 2] : file.prefix(ends[1] + 2)
            next.hold(TransferResponse(status: status, body: Data(bytes)))
            next.send(progress: bytes.count, of: file.count)
            #expect(await settle { previews.value == 1 })
            task.cancel()
            #expect(await task.error == .cancelled)
            await test.cache.shutdown()
        }
    }
}
