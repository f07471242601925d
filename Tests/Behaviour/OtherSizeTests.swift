import TestSupport
import Testing

@Suite("Another size of a picture, shown until the picture is there", .timeLimit(.minutes(2)))
struct OtherSizeTests {
    private let test = TestImageCache()
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample(400, 300)
    private var thumbnail: ImageRequest { ImageRequest(a).processed(by: .resize(width: 40)) }
    private var large: ImageRequest { ImageRequest(a).processed(by: .resize(width: 200)) }

    /// A cache that has a thumbnail in memory, and whose server has other bytes by now.
    private func thumbnailInMemory() async throws -> TestImageCache {
        try test.cache.addImage(.sample(40, 30), for: thumbnail)
        await test.cache.idle()
        return test
    }

    @Test("memory's comes before the call returns, in place of the placeholder, and nothing more is fetched for it")
    func memory() async throws {
        let test = try await thumbnailInMemory()
        let screen = Screen(test.cache)
        screen.set(large)
        #expect(screen.told == ["preview 40x30", "activity"])
        try await test.transport.nextTransfer().finish(with: try picture.png)
        try await screen.waits(forEnds: 1)
        #expect(screen.told.filter { !$0.hasSuffix("%") }.suffix(2) == ["no activity", "image 200x150"])
        #expect(screen.ends.value == ["200x150"] && test.transport.transfers.count == 1)
    }

    @Test("is the smallest that is large enough, or else the largest")
    func best() async throws {
        for width in [10, 300, 90, 250] {
            let request = ImageRequest(a).processed(by: .resize(width: width))
            try test.cache.addImage(.sample(width, width / 2), for: request)
        }
        let screen = Screen(test.cache)
        screen.set(large)
        #expect(screen.told.first == "preview 250x125")
        screen.set(ImageRequest(a).processed(by: .resize(width: 1_000)))
        #expect(screen.told.last { $0.hasPrefix("preview") } == "preview 300x150")
        screen.set(ImageRequest(a))
        #expect(screen.told.last { $0.hasPrefix("preview") } == "preview 300x150")
    }

    @Test("differs in size alone: other processors, another URL and other header fields make another picture")
    func alike() async throws {
        try test.cache.addImage(.sample(40, 30), for: thumbnail.processed(by: .circle))
        try test.cache.addImage(.sample(30, 30), for: ImageRequest(b).processed(by: .resize(width: 30)))
        try test.cache.addImage(.sample(20, 20), for: thumbnail.with(\.headers, ["Accept": "image/png"]))
        let screen = Screen(test.cache)
        screen.set(large)
        #expect(screen.told.first == "placeholder 000000ff")
        screen.set(large.processed(by: .circle))
        #expect(screen.told.last { !$0.contains("activity") } == "preview 40x30")
    }

    @Test("the disk's comes while the picture is fetched, is made of one file and is not kept in memory")
    func disk() async throws {
        let first = TestImageCache(folder: TemporaryFolder())
        try first.script(a, picture)
        try await first.load(thumbnail.with(\.keepsOriginal, false))
        let test = await first.reopened()
        let screen = Screen(test.cache)
        screen.set(large.with(\.keepsOriginal, false))
        let transfer = try await test.transport.nextTransfer()
        try await screen.waits(for: "preview 40x30")
        #expect(test.cache.memoryCount == 0 && test.decoder.decodes == 1)
        transfer.finish(with: try picture.png)
        try await screen.waits(forEnds: 1)
        #expect(screen.ends.value == ["200x150"] && test.transport.transfers.count == 1)
    }

    @Test("another URL of the picture serves too, from memory and from disk")
    func otherURL() async throws {
        let request = ImageRequest(widths: [100: b, 400: a])
        let first = TestImageCache(folder: TemporaryFolder())
        try first.script(b, .sample(100, 75))
        try await first.load(request.processed(by: .resize(width: 80)))
        func expect(_ text: String, in test: TestImageCache, fetches: Int = 0) async throws {
            let screen = Screen(test.cache)
            screen.set(request.processed(by: .downsample(width: 200, height: 200)))
            try await screen.waits(for: text)
            try await test.transport.waitForTransfers(1, of: a)
            #expect(test.transport.transfers(of: b).count == fetches)
        }
        try await expect("preview 80x60", in: first, fetches: 1)
        first.cache.cancelAll()
        // The stored form of the other size, or the file of the other URL.
        let test = await first.reopened()
        try await expect("preview 80x60", in: test)
        test.cache.removeVariant(for: ImageRequest(b).processed(by: .resize(width: 80)))
        test.cache.cancelAll()
        await test.cache.synchronize()
        try await expect("preview 100x75", in: await test.reopened())
    }

    @Test("a call shows it as a preview, if that is asked for; it is never the answer")
    func calls() async throws {
        let test = try await thumbnailInMemory()
        let silent = test.cache.getImage(large)
        let shown = Box<[PixelSize]>([])
        silent.onPreview { image in shown.update { $0.append(image.size) } }
        let transfer = try await test.transport.nextTransfer()
        let task = test.cache.getImage(large.with(\.showsOtherSizes, true))
        var previews = task.previews.makeAsyncIterator()
        #expect(await previews.next()?.size == PixelSize(width: 40, height: 30))
        transfer.finish(with: Data(), status: 404)
        #expect(await task.error == .status(404))
        #expect(await silent.error == .status(404))
        await test.cache.idle()
        #expect(shown.value.isEmpty && test.cache.imageInMemory(for: large) == nil)
    }

    @Test(
        "is not shown if that is refused, or where the present picture is to stay, or if the tiers are not to be asked")
    func refused() async throws {
        let test = try await thumbnailInMemory()
        let screen = Screen(test.cache)
        screen.set(large.with(\.showsOtherSizes, false))
        screen.set(large.with(\.cachePolicy, .ignoreCache))
        #expect(!screen.told.contains { $0.hasPrefix("preview") })
        try test.cache.addImage(.sample(), for: b)
        screen.set(ImageRequest(b))
        screen.set(large, options: DisplayOptions().with(\.keepsCurrentImage, true))
        #expect(!screen.told.contains { $0.hasPrefix("preview") })
    }

    @Test("a picture that the server must be asked about is not shown before it has answered")
    func outdated() async throws {
        try test.script(a, picture, headers: ["Cache-Control": "max-age=10, must-revalidate"])
        try await test.load(thumbnail)
        let screen = Screen(test.cache)
        screen.set(large.with(\.showsOtherSizes, true))
        #expect(screen.told.first == "preview 40x30")
        screen.set(nil)
        test.cache.cancelAll()
        await test.cache.idle()
        test.date.advance(by: 60)
        screen.display.forget()
        screen.set(large)
        #expect(screen.told.first == "placeholder 000000ff")
    }

    // MARK: Reading the disk

    private func thumbnail(_ url: URL, _ width: Int = 40) -> ImageRequest {
        ImageRequest(url).processed(by: .resize(width: width)).with(\.keepsOriginal, false)
    }
    private func large(_ url: URL) -> ImageRequest {
        ImageRequest(url).processed(by: .resize(width: 200)).with(\.keepsOriginal, false)
    }

    /// A cache that has thumbnails on disk, and decodes with a decoder of the test's.
    private func thumbnailsOnDisk(
        _ thumbnails: ImageRequest..., headers: HTTPHeaders = [:], decoder: any ImageDecoder = CountingDecoder(),
        threads: Int = 1, _ change: (inout ImageCache.Configuration) -> Void = { _ in }
    ) async throws -> TestImageCache {
        let first = TestImageCache(folder: TemporaryFolder())
        for request in thumbnails {
            try first.script(request.url ?? a, picture, headers: headers)
            try await first.load(request)
        }
        return await first.reopened {
            $0.codecs.register(decoder)
            $0.decodingThreads = threads
            change(&$0)
        }
    }

    @Test("is not decoded for a call that has been cancelled or demoted", arguments: [true, false])
    func gone(isCancelled: Bool) async throws {
        let decoder = CountingDecoder(isHeld: true)
        let test = try await thumbnailsOnDisk(thumbnail(a), thumbnail(b), decoder: decoder)
        let (first, second) = (Screen(test.cache), Screen(test.cache))
        first.set(large(a))
        // The only thread is busy.
        try await decoder.waitForDecodes(1)
        second.set(large(b))
        second.perform { if isCancelled { $0.cancel() } else { $0.didDisappear() } }
        try await test.passThrough()
        decoder.releaseAll()
        try await first.waits(for: "preview 40x30")
        try test.script(url("c.png"), picture)
        _ = try await test.cache.getImage(url("c.png")).value
        #expect(decoder.decodes == 2 && !second.told.contains { $0.hasPrefix("preview") })
        test.cache.cancelAll()
    }

    @Test("is decoded in the order of the calls' priorities")
    func priority() async throws {
        let (c, decoder) = (url("c.png"), CountingDecoder(isHeld: true))
        let test = try await thumbnailsOnDisk(thumbnail(a), thumbnail(b), thumbnail(c, 60), decoder: decoder)
        let shown = Box<[PixelSize]>([])
        func get(_ url: URL, _ priority: Priority) {
            test.cache.getImage(large(url).with(\.showsOtherSizes, true).with(\.priority, priority))
                .onPreview { image in shown.update { $0.append(image.size) } }
        }
        get(a, .normal)
        try await decoder.waitForDecodes(1)
        get(b, .low)
        get(c, .high)
        try await test.passThrough()
        // One after the other: the closures of several tasks may overtake one another.
        for count in 1...3 {
            decoder.release()
            try await shown.wait { $0.count == count }
        }
        #expect(shown.value.map(\.width) == [40, 60, 40])
        test.cache.cancelAll()
    }

    @Test("counts in the memory for decoding")
    func budget() async throws {
        let decoder = WatchedDecoder()
        let test = try await thumbnailsOnDisk(thumbnail(a), thumbnail(b), decoder: decoder, threads: 2) {
            $0.decodingMemory = 1
        }
        let screens = [Screen(test.cache), Screen(test.cache)]
        for (screen, url) in zip(screens, [a, b]) { screen.set(large(url)) }
        try await decoder.began.wait { $0.count == 1 }
        try await test.passThrough()
        decoder.releaseAll()
        for screen in screens { try await screen.waits(for: "preview 40x30") }
        #expect(decoder.most == 1)
        test.cache.cancelAll()
    }

    @Test(
        "is shown to a request that chooses it, if the answer depends on the request's fields",
        arguments: [false, true])
    func variants(isOtherURL: Bool) async throws {
        let stored = isOtherURL ? ImageRequest(b) : thumbnail(a)
        func inLanguage(_ request: ImageRequest, _ language: String) -> ImageRequest {
            let request = request.with(\.headers, ["Accept-Language": language])
            return isOtherURL ? request : request.with(\.key, "key")
        }
        let test = try await thumbnailsOnDisk(
            inLanguage(stored, "de"), headers: ["Vary": "Accept-Language", "Cache-Control": "max-age=100"])
        let request =
            isOtherURL ? ImageRequest(widths: [100: b, 400: a]).processed(by: .resize(width: 200)) : large(a)
        let (german, french) = (Screen(test.cache), Screen(test.cache))
        french.set(inLanguage(request, "fr"))
        german.set(inLanguage(request, "de"))
        try await german.waits(for: isOtherURL ? "preview 200x150" : "preview 40x30")
        #expect(!french.told.contains { $0.hasPrefix("preview") })
        test.cache.cancelAll()
    }

    @Test("of a call does not take the place of a better preview that has come before it")
    func late() async throws {
        let decoder = CountingDecoder(isHeld: true)
        let test = try await thumbnailsOnDisk(thumbnail(a, 24), decoder: decoder, threads: 2)
        let (shown, made) = (Box<[PixelSize]>([]), Box<[PixelSize]>([]))
        let note: @Sendable (Image) -> Image = { image in
            made.update { $0.append(image.size) }
            return image
        }
        let request = ImageRequest(a).with(\.showsOtherSizes, true).with(\.imageModifier, note)
        let task = test.cache.getImage(request).onPreview { image in shown.update { $0.append(image.size) } }
        let transfer = try await test.transport.nextTransfer()
        try await decoder.waitForDecodes(1)
        let length = ProgressivePhoto.previewLengths[0]
        transfer.hold(TransferResponse(body: ProgressivePhoto.file.prefix(length)))
        transfer.send(progress: length, of: ProgressivePhoto.file.count)
        try await shown.wait { $0.map(\.width) == [32] }
        decoder.releaseAll()
        try await made.wait { $0.last?.width == 24 }
        try await test.passThrough()
        transfer.finish(with: ProgressivePhoto.file)
        _ = try await task.value
        #expect(shown.value.map(\.width) == [32])
    }

    @Test("a failure takes its place")
    func failure() async throws {
        let test = try await thumbnailInMemory()
        let screen = Screen(test.cache)
        screen.set(large, options: DisplayOptions().with(\.failure, .color(.white)))
        try await test.transport.nextTransfer().finish(with: Data(), status: 404)
        try await screen.waits(forEnds: 1)
        #expect(screen.told.last == "failure ffffffff")
    }

    @Test("a partial preview of the arriving bytes does not take its place, a coarse one does")
    func previews() async throws {
        let test = try await thumbnailInMemory()
        let screen = Screen(test.cache)
        screen.set(ImageRequest(a).with(\.showsPreviews, true))
        #expect(screen.told.first == "preview 40x30")
        let transfer = try await test.transport.nextTransfer()
        let length = ProgressivePhoto.previewLengths[0]
        transfer.hold(TransferResponse(body: ProgressivePhoto.file.prefix(length)))
        transfer.send(progress: length, of: ProgressivePhoto.file.count)
        try await screen.waits(for: "preview 32x24")
        transfer.finish(with: ProgressivePhoto.file)
        try await screen.waits(for: "image")
    }
}
