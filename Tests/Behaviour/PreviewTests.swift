import FaultServer
import TestSupport
import Testing

@Suite("Previews of pictures that arrive", .timeLimit(.minutes(2)))
struct PreviewTests {
    private let test = TestImageCache()
    private let a = url("photo.jpg")
    private let file = ProgressivePhoto.file
    private let lengths = ProgressivePhoto.previewLengths
    private let whole: Image
    private var previewed: ImageRequest { ImageRequest(a).with(\.showsPreviews, true) }

    init() throws { whole = try CodecRegistry.standard.decode(ProgressivePhoto.file) }

    private func asked(_ test: TestImageCache) async throws -> (ImageTask, Box<[Image]>, ScriptedTransfer) {
        let previews = Box<[Image]>([])
        let task = test.cache.getImage(previewed).onPreview { preview in previews.update { $0.append(preview) } }
        return (task, previews, try await test.transport.nextTransfer())
    }

    private func show(_ length: Int, _ transfer: ScriptedTransfer, of file: Data = ProgressivePhoto.file) {
        transfer.hold(TransferResponse(body: file.prefix(length)))
        transfer.send(progress: length, of: file.count)
    }

    private static func noise(_ side: Int, seed: UInt64 = 1) throws -> Image {
        var random = SeededRandom(seed)
        let pixels = (0..<side * side).flatMap { _ -> [UInt8] in
            let word = random.next()
            return [0, 8, 16].map { UInt8(truncatingIfNeeded: word >> $0) } + [255]
        }
        return try #require(Image(size: PixelSize(width: side, height: side), premultiplied: pixels))
    }

    @Test("a progressive picture is shown coarse while its bytes arrive, finer with each, then whole")
    func previews() async throws {
        let (task, previews, transfer) = try await asked(test)
        for (number, length) in lengths.enumerated() {
            show(length, transfer)
            test.clock.advance(by: .seconds(1))
            try await previews.wait { $0.count == number + 1 }
        }
        transfer.finish(with: file)
        #expect(try await task.value.pixels == whole.pixels)
        let seen = previews.value
        #expect(seen.count >= 2 && seen.allSatisfy { $0.size == whole.size })
        let errors = seen.map { zip($0.pixels, whole.pixels).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) } }
        #expect(errors == errors.sorted(by: >) && errors[0] > 0, "\(errors)")
        #expect(test.cache.readImage(for: a)?.pixels == whole.pixels, "previews are not kept")
    }

    @Test("of a bitmap the rows are shown that have come, which are the lower ones")
    func bitmap() async throws {
        let (task, previews, transfer) = try await asked(test)
        // 100 × 100 pixels of 32 bits.
        let header: [UInt8] =
            Array("BM".utf8) + [0, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0]
            + [40, 0, 0, 0, 100, 0, 0, 0, 100, 0, 0, 0, 1, 0, 32, 0] + Array(repeating: 0, count: 24)
        let file = Data(header + Array(repeating: [3, 2, 1, 0] as [UInt8], count: 10_000).flatMap(\.self))
        show(54 + 50 * 400, transfer, of: file)
        test.clock.advance(by: .seconds(1))
        try await previews.wait { $0.count == 1 }
        let half = Array(repeating: [1, 2, 3, 255] as [UInt8], count: 5_000).flatMap(\.self)
        #expect(previews.value[0].pixels == Array(repeating: 0, count: 20_000) + half)
        transfer.finish(with: file)
        #expect(try await task.value.pixels == half + half)
    }

    @Test("a closure for previews and their sequence need no option; asked for late, they begin with the bytes so far")
    func askedForByTask() async throws {
        let previews = Box<[Image]>([])
        let task = test.cache.getImage(a)
        let transfer = try await test.transport.nextTransfer()
        show(lengths[0], transfer)
        task.onPreview { preview in previews.update { $0.append(preview) } }
        test.clock.advance(by: .seconds(1))
        try await previews.wait { $0.count == 1 }
        var sequence = task.previews.makeAsyncIterator()
        #expect(await sequence.next()?.pixels == previews.value[0].pixels)
        show(lengths[1], transfer)
        test.clock.advance(by: .seconds(1))
        #expect(await sequence.next()?.size == whole.size)
        try await previews.wait { $0.count == 2 }
        transfer.finish(with: file)
        #expect(try await task.value.pixels == whole.pixels)
        #expect(await sequence.next() == nil)
        #expect(previews.value.count == 2)
    }

    @Test(
        "other pictures are shown row by row: the rows that have come, and nothing below them",
        arguments: CodecRegistry.standard.writable.filter { $0 != .avif })
    func rows(format: ImageFormat) async throws {
        let file = try CodecRegistry.standard.encode(Self.noise(480), as: format)
        let whole = try CodecRegistry.standard.decode(file)
        let (task, previews, transfer) = try await asked(test)
        let quarter = file.count / 4
        try #require(quarter >= 16 << 10)
        for (number, part) in [(length: quarter, rows: 48), (length: 2 * quarter, rows: 120)].enumerated() {
            show(part.length, transfer, of: file)
            test.clock.advance(by: .seconds(1))
            try await previews.wait { $0.count == number + 1 }
            let preview = previews.value[number]
            let bytes = part.rows * whole.width * 4
            #expect(preview.size == whole.size && preview.pixels.prefix(bytes) == whole.pixels.prefix(bytes))
            #expect(preview.pixels.suffix(48 * whole.width * 4).allSatisfy { $0 == 0 })
        }
        transfer.finish(with: file)
        #expect(try await task.value.pixels == whole.pixels)
        await test.cache.idle()
        #expect(previews.value.count == 2)
    }

    @Test(
        "of an animation the first frame is shown",
        arguments: CodecRegistry.standard.writable.intersection([.gif, .webp]))
    func animation(format: ImageFormat) async throws {
        let frames = try (1...3).map { try AnimationFrame(image: Self.noise(240, seed: $0), duration: .seconds(1)) }
        let encoder = try CodecRegistry.standard.encoder(for: format)
        let file = try encoder.encode(frames, loopCount: 0, EncodeOptions())
        let whole = try CodecRegistry.standard.decode(file)
        let (task, previews, transfer) = try await asked(test)
        show(file.count * 3 / 4, transfer, of: file)
        try await previews.wait { $0.count == 1 }
        #expect(previews.value[0].pixels == whole.pixels && previews.value[0].animation == nil)
        transfer.finish(with: file)
        #expect(try await task.value.animation?.frameCount == 3)
    }

    @Test(
        "who begins to look while nothing comes sees what has come before, and how much, for a picture or for bytes",
        arguments: [false, true])
    func latecomer(isOfBytes: Bool) async throws {
        let first: any FetchTask = isOfBytes ? test.cache.data.getData(a) : test.cache.getImage(a)
        let transfer = try await test.transport.nextTransfer()
        show(lengths[0], transfer)
        let (previews, received) = (Box(0), Box(0))
        let second = test.cache.getImage(previewed).onPreview { _ in previews.update { $0 += 1 } }
            .onProgress { progress in received.update { $0 = progress.received } }
        try await previews.wait { $0 == 1 }
        try await received.wait { $0 == lengths[0] }
        transfer.finish(with: file)
        _ = try await second.value
        await test.cache.idle()
        #expect(first.state == .finished)
    }

    @Test("what comes while a preview is being made is previewed afterwards, even if nothing more comes")
    func meanwhile() async throws {
        let decoder = CountingDecoder(JPEGDecoder(), isHeld: true)
        let test = TestImageCache(decoder: decoder)
        let (task, previews, transfer) = try await asked(test)
        show(lengths[0], transfer)
        try await decoder.waitForDecodes(1)
        test.clock.advance(by: .seconds(1))
        show(try #require(lengths.last), transfer)
        test.clock.advance(by: .seconds(1))
        for count in 1...2 {
            decoder.release()
            try await previews.wait { $0.count == count }
        }
        decoder.releaseAll()
        transfer.finish(with: file)
        _ = try await task.value
    }

    @Test("previews are processed, and come over a real connection that stands still")
    func realServer() async throws {
        let server = try await FaultServer.start(files: ["/photo.jpg": file])
        var configuration = ImageCache.Configuration()
        configuration.data.logger.logLevel = .critical
        let cache = ImageCache(configuration)
        let target = server.url("/photo.jpg?stall=\(lengths[lengths.count / 2] + 2)&etag=1&times=1")
        let request = ImageRequest(target).with(\.showsPreviews, true).processed(by: .downsample(width: 20, height: 20))
        let sizes = Box<[PixelSize]>([])
        let task = cache.getImage(request).onPreview { image in sizes.update { $0.append(image.size) } }
        try await sizes.wait { !$0.isEmpty }
        #expect(sizes.value[0] == TargetSize(width: 20, height: 20).size(for: whole.size))
        task.cancel()
        #expect(await task.error == .cancelled)
        await cache.shutdown()
        await server.stop()
    }

    @Test("who wants the same made of the same bytes shares the decoding; a latecomer sees the last preview at once")
    func shared() async throws {
        let test = TestImageCache(decoder: CountingDecoder(JPEGDecoder()))
        let seen = Box<[String: [Image]]>([:])
        let ask: @Sendable (String, ImageRequest) -> ImageTask = { name, request in
            test.cache.getImage(request).onPreview { image in seen.update { $0[name, default: []].append(image) } }
        }
        let tasks = [
            ask("first", previewed), ask("second", previewed.with(\.scale, 2)),
            ask("processed", previewed.processed(by: Inverting())),
        ]
        let transfer = try await test.transport.nextTransfer()
        show(lengths[0], transfer)
        try await seen.wait { $0.values.map(\.count) == [1, 1, 1] }
        #expect(test.decoder.decodes == 2, "one for both, and one for the other")
        let first = try #require(seen.value["first"]?.first), second = try #require(seen.value["second"]?.first)
        #expect(first.storage === second.storage && first.scale == 1 && second.scale == 2)
        #expect(seen.value["processed"]?.first?.pixels != first.pixels)

        let late = ask("late", previewed)
        test.clock.advance(by: .seconds(1))
        show(lengths[0], transfer)
        try await seen.wait { $0["late"]?.count == 1 }
        #expect(seen.value["late"]?.first?.storage === first.storage && test.decoder.decodes == 2)

        // To leave takes nothing from the others.
        tasks[0].cancel()
        test.clock.advance(by: .seconds(1))
        show(try #require(lengths.last), transfer)
        try await seen.wait { $0["second"]?.count == 2 && $0["late"]?.count == 2 }
        transfer.finish(with: file)
        for task in tasks[1...] + [late] { _ = try await task.value }
        #expect(seen.value["first"]?.count == 1)

        // A later call makes its previews again.
        test.cache.removeImage(for: a)
        let count = test.decoder.decodes
        let again = ask("again", previewed)
        show(lengths[0], try await test.transport.nextTransfer())
        try await seen.wait { $0["again"]?.count == 1 }
        #expect(test.decoder.decodes == count + 1)
        again.cancel()
    }

    @Test(
        "small files, broken bytes, and requests that want none, have no previews",
        arguments: CodecRegistry.standard.writable)
    func none(format: ImageFormat) async throws {
        let test = TestImageCache { $0.decodingThreads = 1 }
        let previews = Box(0)
        var tasks: [ImageTask] = []
        let small = try CodecRegistry.standard.encode(whole, as: format)
        // The format can be told, and nothing else.
        let broken = small.prefix(13) + Data(count: 1 << 16)
        for (body, shows) in [(small, true), (broken, true), (file, false)] {
            tasks.append(test.cache.getImage(ImageRequest(url("\(tasks.count)")).with(\.showsPreviews, shows)))
            tasks.last?.onPreview { _ in previews.update { $0 += 1 } }
            show(body.count - 20, try await test.transport.nextTransfer(), of: body)
        }
        // The only thread has looked at the bytes of the others when it has made a preview of these.
        let (last, seen, transfer) = try await asked(test)
        show(lengths[0], transfer)
        try await seen.wait { $0.count == 1 }
        for sent in test.transport.transfers { sent.finish(with: file) }
        for task in tasks + [last] { _ = try await task.value }
        await test.cache.idle()
        #expect(previews.value == 0)
    }

    @Test(
        "bytes that are continued are put behind those there were; a start anew is taken as such",
        arguments: [206, 200])
    func continued(status: Int) async throws {
        let first = lengths[0] / 2
        let (task, previews, broken) = try await asked(test)
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Content-Length": "\(file.count)"]
        broken.interrupt(with: TransferResponse(headers: headers, body: file.prefix(first)))
        try await test.cache.waitForParked(1)
        test.clock.advance(by: .seconds(60))
        let next = try await test.transport.nextTransfer()
        #expect(next.request.offset == first)
        let bytes = status == 206 ? file[first..<lengths[0]] : file.prefix(lengths[0])
        next.hold(TransferResponse(status: status, body: Data(bytes)))
        next.send(progress: bytes.count, of: file.count)
        try await previews.wait { $0.count == 1 }
        task.cancel()
        #expect(await task.error == .cancelled)
    }

    @Test("a hook that is added after the end hears the picture last")
    func lateHook() async throws {
        let (task, previews, transfer) = try await asked(test)
        show(lengths[0], transfer)
        try await previews.wait { $0.count == 1 }
        transfer.finish(with: file)
        _ = try await task.value
        let told = Box<[String]>([])
        task.then { _ in told.update { $0.append("picture") } }
            .onPreview { _ in told.update { $0.append("preview") } }
        await test.cache.idle()
        #expect(told.value.last == "picture")
    }
}
