import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper
@testable import DipperData

@Suite("Pictures that were added are the originals from then on", .timeLimit(.minutes(5)))
struct AddedPictureTests {
    private let a = url("a")
    private let old = Image.sample(seed: 3)
    private let added = Image.sample(seed: 90)

    /// The picture with inverted colours.
    private func inverted(_ image: Image) throws -> [UInt8] {
        try Inverting().process(image, ProcessingContext(limits: DecodeLimits())).pixels
    }

    /// An encoder that waits until the test releases it.
    private func slow(_ gate: DispatchSemaphore) -> ImageSerializer {
        ImageSerializer { image, _, codecs throws(DipperError) in
            gate.wait()
            return try codecs.encode(image, as: .png)
        }
    }

    @Test("processors are applied to a picture just added, not to the server's bytes, while it waits to be written")
    func beforeItIsWritten() async throws {
        let gate = DispatchSemaphore(value: 0)
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 2 }
        test.transport.script(a, [.body(try old.png)])
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(added, for: ImageRequest(a).with(\.serializer, slow(gate)))
        let thumbnail = ImageRequest(a).processed(by: Inverting())
        #expect(try await test.cache.getImage(thumbnail).value.pixels == inverted(added))
        #expect(test.cache.image(for: thumbnail)?.pixels == (try inverted(added)))
        test.cache.clearMemory()
        #expect(test.cache.image(for: a)?.pixels == added.pixels)
        #expect(test.cache.cachedTier(for: a) != nil)
        #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
        gate.signal()
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
        #expect(try await test.cache.getImage(thumbnail).value.pixels == inverted(added))
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("processors are applied to a picture that was added to a cache without a folder")
    func inMemory() async throws {
        let test = TestImageCache()
        try test.cache.addImage(added, for: a)
        let thumbnail = ImageRequest(a).processed(by: Inverting())
        #expect(test.cache.image(for: thumbnail)?.pixels == (try inverted(added)))
        #expect(try await test.cache.getImage(thumbnail.processed(by: Inverting("again"))).value.pixels == added.pixels)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a picture that was added with its bytes is there for processors at once, also as bytes")
    func withBytes() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try old.png)])
        _ = try await test.cache.getImage(ImageRequest(a).processed(by: Inverting())).value
        try test.cache.addImage(added, bytes: try added.png, for: a)
        test.cache.clearMemory()
        #expect(
            try await test.cache.getImage(ImageRequest(a).processed(by: Inverting())).value.pixels == inverted(added))
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("what was being fetched when a picture was added goes to who asked for it, and does not take its place")
    func whileFetched() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        // It looks at the disk first, and then at the network: only now both wait for the same bytes.
        let made = test.cache.getImage(ImageRequest(a).processed(by: Inverting()))
        let transfer = try await test.transport.nextTransfer()
        let before = test.cache.getImage(a)
        try test.cache.addImage(added, for: a)
        transfer.finish(with: try old.png)
        #expect(try await before.value.pixels == old.pixels)
        #expect(try await made.value.pixels == inverted(old))
        #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
        #expect(
            try await test.cache.getImage(ImageRequest(a).processed(by: Inverting())).value.pixels == inverted(added))
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(try await test.cache.getImage(a).value.pixels == added.pixels)
        #expect(
            try await test.cache.getImage(ImageRequest(a).processed(by: Inverting())).value.pixels == inverted(added))
        await test.cache.shutdown()
    }

    @Test("a picture that was added while the disk was asked for a processed one is what is processed")
    func whileLookedFor() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let gate = DispatchSemaphore(value: 0)
        for _ in 0..<2 { _ = test.cache.data.store.read("held up", .init(.fast, .normal)) { _ in gate.wait() } }
        let made = test.cache.getImage(ImageRequest(a).processed(by: Inverting()))
        try test.cache.addImage(added, for: ImageRequest(a).with(\.serializer, .never))
        for _ in 0..<2 { gate.signal() }
        #expect(try await made.value.pixels == inverted(added))
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a picture that cannot be written takes the place of the server's bytes all the same")
    func unwritable() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try old.png), .body(try old.png)])
        _ = try await test.cache.getImage(a).value
        try test.cache.addImage(added, for: ImageRequest(a).with(\.serializer, .never))
        await test.cache.synchronize()
        #expect(test.cache.image(for: a)?.pixels == added.pixels)
        #expect(!test.cache.data.hasData(for: a))
        await test.cache.shutdown()
    }
}

extension ImageSerializer {
    /// An encoder that encodes nothing.
    fileprivate static var never: ImageSerializer {
        ImageSerializer { _, _, _ throws(DipperError) in throw .unencodable }
    }
}
