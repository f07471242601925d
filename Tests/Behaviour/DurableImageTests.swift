import TestSupport
import Testing

@Suite("Calls for pictures that wait for the disk", .timeLimit(.minutes(2)))
struct DurableImageTests {
    private let a = url("a.png")
    private let codec = DoorCodec()
    private let test: TestImageCache
    private let invert = Inverting()

    init() throws {
        test = TestImageCache(folder: TemporaryFolder()) { [codec] in $0.data.recordCodec = codec }
        try test.script(a, .sample(40, 30))
    }

    private var processed: ImageRequest { ImageRequest(a).processed(by: invert) }

    private func waiting(_ request: ImageRequest, isDurable: Bool = false) -> ImageRequest {
        let request = request.with(\.waitsForDiskWrite, true)
        return isDurable ? request.with(\.durability, .durable) : request
    }

    @Test(
        "the file of a picture, which may be processed or no longer in memory, is waited for while it is being written",
        arguments: [(false, true), (true, true), (true, false)], [false, true])
    func beingWritten(_ picture: (isProcessed: Bool, isInMemory: Bool), isDurable: Bool) async throws {
        if picture.isProcessed { _ = try await test.cache.getImage(waiting(ImageRequest(a))).value }
        let request = picture.isProcessed ? processed : ImageRequest(a)
        codec.shut()
        _ = try await test.cache.getImage(request).value
        try await codec.waitForWrite()
        if !picture.isInMemory { test.cache.clearMemory() }
        let order = Box<[String]>([])
        let task = test.cache.getImage(waiting(request, isDurable: isDurable))
            .onEnd { _ in order.update { $0.append("ended") } }
        // A call that does not wait is answered meanwhile.
        _ = try await test.cache.getImage(request).value
        order.update { $0.append("written") }
        codec.open()
        #expect(await task.error == nil)
        try await order.wait { $0.count == 2 }
        #expect(order.value == ["written", "ended"])
        #expect(test.cache.data.diskCount == (picture.isProcessed ? 2 : 1))
        #expect(invert.count.value == (picture.isProcessed ? 1 : 0))
    }

    @Test("a call that waits finds the original and the processed picture on disk; what only memory has is written")
    func written() async throws {
        _ = try await test.cache.getImage(waiting(processed)).value
        #expect(test.cache.data.diskCount == 2)
        test.cache.removeVariant(for: processed, from: .disk)
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 1)
        _ = try await test.cache.getImage(waiting(processed, isDurable: true)).value
        #expect(test.cache.data.diskCount == 2 && invert.count.value == 1 && test.transport.transfers.count == 1)
    }

    @Test("what is in memory, and on disk already, is answered at once from memory", arguments: [false, true])
    func atOnce(isProcessed: Bool) async throws {
        let request = waiting(isProcessed ? processed : ImageRequest(a))
        _ = try await test.cache.getImage(request).value
        for policy in [DataRequest.CachePolicy.useCache, .fromMemoryOrRefresh] {
            let task = test.cache.getImage(request.with(\.cachePolicy, policy))
            #expect(task.outcome != nil)
            #expect(try await task.response.source == .memory)
        }
        let screen = Screen(test.cache)
        screen.set(request)
        #expect(screen.told.count == 1 && screen.told.first?.hasPrefix("image") == true)
        #expect(test.transport.transfers.count == 1)
        // What the disk has lost is written again.
        test.cache.clearDisk()
        await test.cache.idle()
        _ = try await test.cache.getImage(request).value
        if isProcessed { #expect(test.cache.data.diskCount > 0) }
    }

    @Test("a value in memory whose bytes are on disk is answered at once")
    func value() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(Data("7".utf8))])
        let request = DataRequest(a).with(\.waitsForDiskWrite, true)
        #expect(try await test.cache.getValue(Int.self, from: request).value == 7)
        let task = test.cache.getValue(Int.self, from: request)
        #expect(task.outcome != nil)
        #expect(try await task.value == 7)
    }

    @Test("removed while it is encoded, a durable picture is an error, and any other is not", arguments: [false, true])
    func removed(isDurable: Bool) async throws {
        let (cache, plain) = (test.cache, processed)
        var request = waiting(plain, isDurable: isDurable)
        request.options.serializer = ImageSerializer { image, _, codecs throws(DipperError) in
            cache.removeVariant(for: plain)
            return try codecs.encode(image, as: .png)
        }
        #expect(await test.error(request) == (isDurable ? .notWritten : nil))
        await cache.idle()
        #expect(cache.data.diskCount == 1)
    }

    @Test("a serializer that keeps originals alone fails no durable call")
    func originalsAlone() async throws {
        var request = waiting(processed, isDurable: true)
        request.options.serializer = .original
        #expect(await test.error(request) == nil)
        #expect(test.cache.data.diskCount == 1)
    }
}
