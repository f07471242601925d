import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures that are shown while they are revalidated", .timeLimit(.minutes(5)))
struct RevalidatedPictureTests {
    private let a = url("a")
    private let headers: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600"]

    @Test("a thousand looks at a picture that is out of date start one revalidation, which all of them can follow")
    func once() async throws {
        let date = ManualDate()
        let test = TestImageCache(date: date)
        let (old, new) = (Image.sample(seed: 1), Image.sample(seed: 2))
        let first = test.cache.getImage(a)
        try await test.transport.nextTransfer().finish(with: try old.png, headers: headers)
        _ = try await first.value
        date.advance(by: 100)
        var last: ImageResponse?
        for _ in 0..<1_000 {
            last = try await test.cache.getImage(a).response
            #expect(last?.source == .stale)
        }
        #expect(test.cache.objects.requestCount() == 1)
        let revalidation = try #require(last?.revalidation)
        // The same one each time that it is asked for.
        #expect(revalidation === last?.revalidation)
        try await test.transport.nextTransfer().finish(with: try new.png, headers: headers)
        #expect(try await revalidation.value.pixels == new.pixels)
        #expect(test.transport.transfers.count == 2)
        #expect(try await test.cache.getImage(a).value.pixels == new.pixels)
        #expect(await settle { test.cache.objects.requestCount() == 0 })
        await test.cache.shutdown()
    }

    @Test("the server is not asked again while the newer picture is being decoded")
    func decoding() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        let first = test.cache.getImage(a)
        try await test.transport.nextTransfer().finish(with: try Image.sample(seed: 1).png, headers: headers)
        test.decoder.release()
        _ = try await first.value
        test.date.advance(by: 100)
        #expect(try await test.cache.getImage(a).response.source == .stale)
        try await test.transport.nextTransfer().finish(with: try Image.sample(seed: 2).png, headers: headers)
        #expect(await settle { test.decoder.decodes == 2 })
        for _ in 0..<10 { #expect(try await test.cache.getImage(a).response.source == .stale) }
        #expect(test.transport.transfers.count == 2 && test.cache.objects.requestCount() == 1)
        test.decoder.release()
        #expect(await settle { test.cache.objects.requestCount() == 0 })
        #expect(try await test.cache.getImage(a).response.source == .memory)
        await test.cache.shutdown()
    }

    @Test("what a revalidation has brought does not come back after a removal, however late it is asked for")
    func removedAfterwards() async throws {
        let test = TestImageCache()
        let first = test.cache.getImage(a)
        try await test.transport.nextTransfer().finish(with: try Image.sample(seed: 1).png, headers: headers)
        _ = try await first.value
        test.date.advance(by: 100)
        let response = try await test.cache.getImage(a).response
        try await test.transport.nextTransfer().finish(with: try Image.sample(seed: 2).png, headers: headers)
        #expect(await settle { test.cache.objects.requestCount() == 0 })
        test.cache.removeImage(for: a)
        let late = try #require(response.revalidation)
        _ = try await late.value
        #expect(await stays { !test.cache.hasImage(for: a) })
        await test.cache.shutdown()
    }

    @Test("the revalidation of a picture ends as cancelled when all calls are cancelled")
    func cancelled() async throws {
        let date = ManualDate()
        let test = TestImageCache(date: date)
        let first = test.cache.getImage(a)
        try await test.transport.nextTransfer().finish(with: try Image.sample().png, headers: headers)
        _ = try await first.value
        date.advance(by: 100)
        let response = try await test.cache.getImage(a).response
        let revalidation = try #require(response.revalidation)
        test.cache.cancelAll()
        #expect(await revalidation.error == .cancelled)
        #expect(await settle { test.cache.objects.requestCount() == 0 })
        await test.cache.shutdown()
    }
    @Test("an answer that is out of date keeps neither its call nor the caches alive", arguments: [false, true])
    func freed(isOnDisk: Bool) async throws {
        weak var objects: ImageObjects?
        weak var data: DataCache?
        weak var weakTask: ImageTask?
        let held: ImageResponse
        do {
            let test = TestImageCache(folder: isOnDisk ? TemporaryFolder() : nil)
            objects = test.cache.objects
            data = test.cache.data
            let first = test.cache.getImage(a)
            try await test.transport.nextTransfer().finish(with: try Image.sample().png, headers: headers)
            _ = try await first.value
            if isOnDisk {
                await test.cache.synchronize()
                test.cache.clearMemory()
            }
            test.date.advance(by: 100)
            let task = test.cache.getImage(a)
            held = try await task.response
            weakTask = task
        }
        #expect(held.source == .stale)
        #expect(await settle { objects == nil && data == nil && weakTask == nil })
        #expect(await held.revalidation?.error == .shutDown)
    }

    @Test("the call of an answer that is out of date is released once the newer picture is there")
    func callFreed() async throws {
        let test = TestImageCache()
        let (old, new) = (Image.sample(seed: 1), Image.sample(seed: 2))
        weak var weakTask: ImageTask?
        do {
            let first = test.cache.getImage(a)
            try await test.transport.nextTransfer().finish(with: try old.png, headers: headers)
            _ = try await first.value
            test.date.advance(by: 100)
            let task = test.cache.getImage(a)
            #expect(try await task.response.source == .stale)
            weakTask = task
            try await test.transport.nextTransfer().finish(with: try new.png, headers: headers)
        }
        #expect(await settle { weakTask == nil && test.cache.objects.requestCount() == 0 })
        #expect(try await test.cache.getImage(a).value.pixels == new.pixels)
        await test.cache.shutdown()
    }
}
