import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Calls for pictures that wait for the disk", .timeLimit(.minutes(2)))
struct DurableImageTests {
    private let a = url("a.png")
    private let codec: HeldCodec
    private let test: TestImageCache
    private let invert = Inverting()

    init() throws {
        let codec = HeldCodec()
        self.codec = codec
        test = TestImageCache(folder: TemporaryFolder()) { $0.data.recordCodec = codec }
        try test.script(a, .sample(40, 30))
    }

    private var processed: ImageRequest { ImageRequest(a).processed(by: invert) }

    private func waiting(_ request: ImageRequest, isDurable: Bool = false) -> ImageRequest {
        let request = request.with(\.waitsForDiskWrite, true)
        return isDurable ? request.with(\.durability, .durable) : request
    }

    /// Makes a call that must end after the disk has written what waits for the codec.
    private func expectWaits(_ request: ImageRequest) async throws {
        let order = Box<[String]>([])
        let task = test.cache.getImage(request).onEnd { _ in order.update { $0.append("ended") } }
        // A call that does not wait is answered meanwhile.
        _ = try await test.cache.getImage(request.with(\.waitsForDiskWrite, false)).value
        order.update { $0.append("written") }
        codec.open()
        #expect(await task.error == nil)
        try await order.wait { $0.count == 2 }
        #expect(order.value == ["written", "ended"])
    }

    @Test("a picture in memory whose file is still being written is waited for", arguments: [false, true])
    func inMemory(isDurable: Bool) async throws {
        codec.close()
        _ = try await test.cache.getImage(a).value
        try await codec.waitForWrite()
        try await expectWaits(waiting(ImageRequest(a), isDurable: isDurable))
        #expect(test.cache.data.diskCount == 1)
        await test.cache.shutdown()
    }

    @Test("so is the file of a processed picture, in memory or not", arguments: [false, true], [false, true])
    func processed(isInMemory: Bool, isDurable: Bool) async throws {
        _ = try await test.cache.getImage(waiting(ImageRequest(a))).value
        codec.close()
        _ = try await test.cache.getImage(processed).value
        try await codec.waitForWrite()
        if !isInMemory { test.cache.clearMemory() }
        try await expectWaits(waiting(processed, isDurable: isDurable))
        #expect(test.cache.data.diskCount == 2 && invert.count.value == 1)
        await test.cache.shutdown()
    }

    @Test("a call that waits finds the original and the processed picture on disk; what only memory has is written")
    func written() async throws {
        _ = try await test.cache.getImage(waiting(processed)).value
        #expect(test.cache.data.diskCount == 2)
        test.cache.removeImage(for: processed, from: .disk)
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 1)
        _ = try await test.cache.getImage(waiting(processed, isDurable: true)).value
        #expect(test.cache.data.diskCount == 2 && invert.count.value == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("removed while it is encoded, a durable picture is an error, and any other is not", arguments: [false, true])
    func removed(isDurable: Bool) async throws {
        let (cache, plain) = (test.cache, processed)
        var request = waiting(plain, isDurable: isDurable)
        request.options.serializer = ImageSerializer { image, _, codecs throws(DipperError) in
            cache.removeImage(for: plain)
            return try codecs.encode(image, as: .png)
        }
        #expect(await cache.getImage(request).error == (isDurable ? .notWritten : nil))
        await cache.idle()
        #expect(cache.data.diskCount == 1)
        await cache.shutdown()
    }

    @Test("a serializer that keeps originals alone fails no durable call")
    func originalsAlone() async throws {
        var request = waiting(processed, isDurable: true)
        request.options.serializer = .original
        _ = try await test.cache.getImage(request).value
        #expect(test.cache.data.diskCount == 1)
        await test.cache.shutdown()
    }
}
