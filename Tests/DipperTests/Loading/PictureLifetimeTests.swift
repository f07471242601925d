import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("How long pictures stay in memory", .timeLimit(.minutes(5)))
struct PictureLifetimeTests {
    private let a = url("a.png")
    private let picture = Image.sample(64, 48)

    @Test("as long as they are told to, shorter or longer than their files on disk; untold, as long as the files")
    func memoryExpiration() async throws {
        let cases: [(memory: TimeInterval?, disk: TimeInterval, later: ResponseSource?)] = [
            (1_000, 10, .memory), (10, 1_000, .disk), (nil, 10, nil), (nil, 1_000, .memory),
        ]
        for (memory, disk, later) in cases {
            for isAdded in [true, false] {
                let test = TestImageCache(folder: TemporaryFolder())
                var request = ImageRequest(a).with(\.diskExpiration, .seconds(disk))
                request.memoryExpiration = memory.map { .seconds($0) }
                if isAdded {
                    try test.cache.addImage(picture, for: request)
                } else {
                    test.transport.script(a, [.body(try picture.png)])
                    _ = try await test.cache.getImage(request).value
                }
                await test.cache.synchronize()
                test.date.advance(by: 20)
                #expect(test.cache.cachedTier(for: a) == later, "\(String(describing: memory)) \(disk) \(isAdded)")
                await test.cache.shutdown()
            }
        }
    }

    @Test(
        "a picture that was removed by a clear while it was fetched or made does not come back",
        arguments: [true, false])
    func clearedMeanwhile(isFetched: Bool) async throws {
        let folder = TemporaryFolder()
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(folder: folder, decoder: decoder)
        let task = test.cache.getImage(ImageRequest(a).processed(by: Inverting()))
        let transfer = try await test.transport.nextTransfer()
        if isFetched {
            transfer.finish(with: try picture.png)
            #expect(await settle { decoder.decodes == 1 })
            test.cache.data.clear()
        } else {
            test.cache.data.clear()
            transfer.finish(with: try picture.png)
        }
        decoder.release()
        _ = try await task.value
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("a picture made of a file that was flushed meanwhile is not kept")
    func flushedMeanwhile() async throws {
        let folder = TemporaryFolder()
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(folder: folder, decoder: decoder)
        try await test.cache.data.addDataAndWait(try picture.png, for: DataRequest(a))
        test.date.advance(by: 100)
        let task = test.cache.getImage(ImageRequest(a).processed(by: Inverting()))
        #expect(await settle { decoder.decodes == 1 })
        test.cache.flush(olderThan: .seconds(50))
        decoder.release()
        _ = try await task.value
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }
}
