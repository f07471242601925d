import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper
@testable import DipperData

@Suite("Calls for pictures that wait for the disk", .timeLimit(.minutes(5)))
struct DurablePictureTests {
    private let a = url("a.png")
    private let picture = Image.sample(40, 30)
    private let test = TestImageCache(folder: TemporaryFolder())

    private func waiting(_ request: ImageRequest) -> ImageRequest {
        request.with(\.waitsForDiskWrite, true)
    }

    private func durable(_ request: ImageRequest) -> ImageRequest {
        waiting(request).with(\.durability, .durable)
    }

    /// Keeps the disk's thread, which may still be looking for the next write, until the door is opened.
    private func stall() async throws -> Door {
        let door = Door()
        try #require(test.cache.data.store.disk).writer.run { door.pass() }
        try #require(await settle { door.arrivals == 1 })
        return door
    }

    /// Whether a call does not end while the disk writes nothing, and ends as soon as it does.
    private func expectWaits(_ request: ImageRequest, until stall: Door) async throws {
        let file = request.resolved(test.cache.defaults).fileKey(request.data.cacheKey)
        let disk = try #require(test.cache.data.store.disk)
        func listeners() -> Int? { disk.staged.withLock { $0.area[file]?.whenDone.count } }
        #expect(await settle { listeners() != nil })
        let before = try #require(listeners())
        let hasEnded = Box(false)
        let task = test.cache.getImage(request).onEnd { _ in hasEnded.update { $0 = true } }
        #expect(await settle { listeners() ?? 0 > before })
        #expect(!hasEnded.value)
        stall.open()
        _ = try await task.value
    }

    @Test("a picture in memory whose file is still being written is waited for", arguments: [false, true])
    func inMemory(isDurable: Bool) async throws {
        test.transport.script(a, [.body(try picture.png)])
        let stall = try await stall()
        _ = try await test.cache.getImage(a).value
        let request = isDurable ? durable(ImageRequest(a)) : waiting(ImageRequest(a))
        try await expectWaits(request, until: stall)
        #expect(test.cache.data.diskCount == 1)
        await test.cache.shutdown()
    }

    @Test("so is the file of a processed picture, in memory or not", arguments: [false, true], [false, true])
    func processed(isInMemory: Bool, isDurable: Bool) async throws {
        test.transport.script(a, [.body(try picture.png)])
        let invert = Inverting()
        let request = ImageRequest(a).processed(by: invert)
        _ = try await test.cache.getImage(waiting(ImageRequest(a))).value
        let stall = try await stall()
        _ = try await test.cache.getImage(request).value
        if !isInMemory { test.cache.clearMemory() }
        try await expectWaits(isDurable ? durable(request) : waiting(request), until: stall)
        #expect(test.cache.data.diskCount == 2 && invert.count.value == 1)
        await test.cache.shutdown()
    }

    @Test("a processed picture that only memory has is written")
    func memoryAlone() async throws {
        test.transport.script(a, [.body(try picture.png)])
        let invert = Inverting()
        let request = ImageRequest(a).processed(by: invert)
        _ = try await test.cache.getImage(waiting(request)).value
        test.cache.removeImage(for: request, from: .disk)
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 1)
        _ = try await test.cache.getImage(durable(request)).value
        #expect(test.cache.data.diskCount == 2 && invert.count.value == 1)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("removed while it is encoded, a durable picture is an error, and any other is not", arguments: [false, true])
    func removed(isDurable: Bool) async throws {
        test.transport.script(a, [.body(try picture.png)])
        let cache = test.cache
        let plain = ImageRequest(a).processed(by: Inverting())
        let removing = ImageSerializer { image, _, codecs throws(DipperError) in
            cache.removeImage(for: plain)
            return try codecs.encode(image, as: .png)
        }
        var request = isDurable ? durable(plain) : waiting(plain)
        request.options.serializer = removing
        let task = cache.getImage(request)
        #expect(await task.error == (isDurable ? .notWritten : nil))
        await cache.synchronize()
        #expect(cache.data.diskCount == 1)
        await cache.shutdown()
    }

    @Test("a serializer that keeps originals alone fails no durable call")
    func originalsAlone() async throws {
        test.transport.script(a, [.body(try picture.png)])
        var request = durable(ImageRequest(a).processed(by: Inverting()))
        request.options.serializer = .original
        _ = try await test.cache.getImage(request).value
        #expect(test.cache.data.diskCount == 1)
        await test.cache.shutdown()
    }
}
