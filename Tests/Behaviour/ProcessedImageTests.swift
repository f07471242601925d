import TestSupport
import Testing

@Suite("Processed pictures, on disk and in memory", .timeLimit(.minutes(2)))
struct ProcessedImageTests {
    private let a = url("a.png")
    private let picture = Image.sample(40, 30)
    private let test = TestImageCache(folder: TemporaryFolder())

    @Test("the result of the processors is kept on disk beside the original, which serves other processors")
    func kept() async throws {
        let invert = Inverting()
        let request = ImageRequest(a).processed(by: invert)
        try test.script(a, .sample(40, 30, alpha: 90))
        let first = try await test.load(request)
        #expect(test.cache.hasProcessedImage(for: request) && test.cache.data.diskCount == 2)
        #expect(!test.cache.hasProcessedImage(for: ImageRequest(a).processed(by: Inverting("other"))))
        let two = await test.reopened()
        let response = try await two.cache.getImage(request).response
        #expect(response.source == .disk && response.status == 200 && response.image.size == first.size)
        // Colours that are not opaque are rounded once in the file.
        func isSame(_ image: Image?) -> Bool {
            zip(image?.pixels ?? [], first.pixels).allSatisfy { abs(Int($0) - Int($1)) <= 1 } && image != nil
        }
        #expect(isSame(response.image))
        two.cache.clearMemory()
        #expect(isSame(two.cache.readImage(for: request)))
        #expect(invert.count.value == 1)

        let other = try await two.cache.getImage(ImageRequest(a).processed(by: Inverting("other"))).response
        #expect(other.source == .disk && isSame(other.image))
        #expect(isSame(two.cache.readImage(for: ImageRequest(a).processed(by: Inverting("peek")))))
        #expect(two.transport.transfers.isEmpty)
    }

    @Test(
        "a size without pixels fails, and the picture is not decoded in its own size instead",
        arguments: [(0, 0), (0, 100), (-5, 10), (100, Int.min)])
    func withoutPixels(width: Int, height: Int) async throws {
        try test.script(a, picture)
        let processors: [any ImageProcessor] = [
            .downsample(width: width, height: height), .downsample(width: width, height: height, .fill),
            .fitting(width: width, height: height),
        ]
        for processor in processors {
            #expect(await test.cache.getImage(ImageRequest(a).processed(by: processor)).error == .processingFailed)
            let later = ImageRequest(a).processed(by: Inverting()).processed(by: processor)
            #expect(await test.cache.getImage(later).error == .processingFailed)
        }
        #expect(test.transport.transfers.count == 1, "the bytes are good")
    }

    @Test("a processed file that does not decode is made anew of the original")
    func broken() async throws {
        let invert = Inverting()
        let request = ImageRequest(a).processed(by: invert)
        try test.script(a, picture)
        let task = test.cache.getImage(request)
        _ = try await task.value
        await test.cache.idle()
        try await test.cache.data.addDataAndWait(Data("broken".utf8), for: task.imageKey)
        test.cache.clearMemory()
        #expect(try await test.pixels(request) == picture.inverted)
        #expect(invert.count.value == 2 && test.transport.transfers.count == 1)
    }

    @Test("a processed picture on disk is peeked at as it is, not decoded to the first processor's size again")
    func peek() async throws {
        try test.script(a, picture)
        let request = ImageRequest(a).processed(by: .downsample(width: 8, height: 6))
            .processed(by: .resize(width: 32, height: 24))
        let size = PixelSize(width: 32, height: 24)
        #expect(try await test.cache.getImage(request).value.size == size)
        await test.forgetMemory()
        #expect(test.cache.readImage(for: request)?.size == size)
        #expect(try await test.cache.getImage(request).value.size == size, "what the peek left in memory")
    }

    @Test("a chain is the same picture however it is put together; lengths in points make a picture for each scale")
    func keys() async throws {
        func isSame(_ one: ImageRequest, _ two: ImageRequest) -> Bool {
            test.cache.getImage(one).imageKey == test.cache.getImage(two).imageKey
        }
        let plain = ImageRequest(a)
        #expect(
            isSame(
                plain.processed(by: Inverting("1") |> Inverting("2")),
                plain.processed(by: Inverting("1")).processed(by: Inverting("2"))))
        let crop = plain.processed(by: .crop(width: 5, height: 5))
        let round = plain.processed(by: .roundedCorners(radius: .points(2)))
        #expect(isSame(crop, crop.with(\.scale, 2)) && !isSame(round, round.with(\.scale, 2)))
        test.cache.cancelAll()
    }

    @Test("lengths in points follow the scale of the request")
    func scale() async throws {
        try test.script(a, picture)
        let round = ImageRequest(a).processed(by: .roundedCorners(radius: .points(2)))
        for scale in [1.0, 2] {
            let image = try await test.cache.getImage(round.with(\.scale, scale)).value
            let expected = try ImageProcessors.RoundedCorners(radius: .pixels(2 * scale)).process(picture, .init())
            #expect(image.pixels == expected.pixels && image.scale == scale)
        }
        #expect(test.transport.transfers.count == 1)
    }

    @Test("sizes in points follow the scale of the request, in the decoder and after other processors")
    func sizesInPoints() async throws {
        try test.script(a, .sample(64, 48))
        let small = ImageRequest(a).processed(by: .downsample(width: 10, height: 8, .stretch).points)
        let after = ImageRequest(a).processed(by: .flip(.horizontal), .fitting(width: 10, height: 8).points)
        let sharper = small.processed(by: .crop(width: 4, height: 3).points)
        for scale in [1, 2] {
            for request in [small, after] {
                let image = try await test.cache.getImage(request.with(\.scale, Double(scale))).value
                #expect(image.size == PixelSize(width: 10 * scale, height: 8 * scale) && image.scale == Double(scale))
            }
            let image = try await test.cache.getImage(sharper.with(\.scale, Double(scale))).value
            #expect(image.size == PixelSize(width: 4 * scale, height: 3 * scale))
        }
        #expect(test.transport.transfers.count == 1)
    }

    @Test("the fields of a processed picture from disk are those of the server, without those of the connection")
    func fields() async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60", "Connection": "X-Hop", "X-Hop": "1", "X-Own": "2"]
        try test.script(a, picture, headers: headers)
        let request = ImageRequest(a).inverted
        try await test.load(request)
        test.cache.clearMemory()
        let response = try await test.cache.getImage(request).response
        #expect(response.source == .disk && response.headers["X-Own"] == "2" && response.headers["X-Hop"] == nil)
        #expect(!response.headers.fields.contains { $0.name.lowercased().hasPrefix("dipper") })
    }

    #if GIF
        @Test("a picture that moves keeps moving when it is processed, also after a look at the disk")
        func moving() async throws {
            var test = self.test
            let request = ImageRequest(a).processed(by: .downsample(width: 8, height: 8))
            let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(40)) }
            try test.transport.script(a, [.animation(frames)])
            for _ in 0..<2 {
                let image = try await test.cache.getImage(request).value
                let decoder = try #require(image.animation).makeFrameDecoder()
                #expect(try decoder.next()?.image.size == image.size && image.width == 8)
                test = await test.reopened()
            }
        }

        @Test(
            "the frames of a moving picture are written no further once it is removed, or the cache is shut down",
            .timeLimit(.minutes(1)), arguments: ["remove", "shutdown"])
        func stopsWriting(how: String) async throws {
            let test = TestImageCache(folder: TemporaryFolder())
            let frames = (1...20).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(40)) }
            try test.transport.script(a, [.animation(frames)])
            let seen = Box(0)
            let watched = ImageProcessors.Custom("watched") { image, context in
                seen.update { $0 += 1 }
                // The first is the picture of the call, and the others are written.
                let end = ContinuousClock.now + .seconds(20)
                while seen.value == 4, !context.isCancelled(), .now < end { usleep(1000) }
                return image
            }
            _ = try await test.cache.getImage(ImageRequest(a).processed(by: watched)).value
            try await seen.wait { $0 == 4 }
            if how == "remove" { test.cache.removeImage(for: a) } else { await test.cache.shutdown() }
            await test.cache.idle()
            #expect(seen.value == 4)
        }
    #endif
}
