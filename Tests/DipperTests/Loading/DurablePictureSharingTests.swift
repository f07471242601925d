import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Calls that wait for the disk, beside calls that keep nothing there", .timeLimit(.minutes(5)))
struct DurablePictureSharingTests {
    private let picture = Image.sample()

    @Test("a call that waits for the disk has its bytes there, though others are making the picture already")
    func ownBytes() async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        let request = ImageRequest(url("a"))
        test.transport.script(url("a"), [.body(try picture.png), .body(try picture.png)])
        let passing = test.cache.getImage(request.with(\.cachePolicy, .memoryOnly))
        #expect(await settle { test.decoder.decodes == 1 })
        let kept = test.cache.getImage(request.with(\.waitsForDiskWrite, true).with(\.durability, .durable))
        #expect(await settle { kept.state != .waiting })
        for _ in 0..<2 { test.decoder.release() }
        _ = try await passing.value
        _ = try await kept.value
        #expect(test.cache.data.diskCount == 1)
        await test.cache.shutdown()
    }

    @Test("of two sizes of one picture that is not kept itself, both are kept")
    func twoSizes() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(url("a"), [.body(try picture.png)])
        let requests = [2, 3].map { size in
            ImageRequest(url("a")).processed(by: .downsample(width: size, height: size)).with(\.keepsOriginal, false)
                .with(\.waitsForDiskWrite, true).with(\.durability, .durable)
        }
        let tasks = requests.map { test.cache.getImage($0) }
        for task in tasks { _ = try await task.value }
        await test.cache.synchronize()
        for request in requests { #expect(test.cache.hasProcessedImage(for: request)) }
        #expect(test.cache.data.diskCount == 2)
        await test.cache.shutdown()
    }
}
