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
        await test.transport.nextTransfer().finish(with: try old.png, headers: headers)
        _ = try await first.value
        date.advance(by: 100)
        var last: ImageResponse?
        for _ in 0..<1_000 {
            last = try await test.cache.getImage(a).response
            #expect(last?.source == .stale)
        }
        #expect(test.cache.loader.live.all.count == 1)
        let revalidation = try #require(last?.revalidation)
        // The same one each time that it is asked for.
        #expect(revalidation === last?.revalidation)
        await test.transport.nextTransfer().finish(with: try new.png, headers: headers)
        #expect(try await revalidation.value.pixels == new.pixels)
        #expect(test.transport.transfers.count == 2)
        #expect(try await test.cache.getImage(a).value.pixels == new.pixels)
        #expect(await settle { test.cache.loader.live.all.isEmpty })
        await test.cache.shutdown()
    }

    @Test("the revalidation of a picture ends as cancelled when all calls are cancelled")
    func cancelled() async throws {
        let date = ManualDate()
        let test = TestImageCache(date: date)
        let first = test.cache.getImage(a)
        await test.transport.nextTransfer().finish(with: try Image.sample().png, headers: headers)
        _ = try await first.value
        date.advance(by: 100)
        let response = try await test.cache.getImage(a).response
        let revalidation = try #require(response.revalidation)
        test.cache.cancelAll()
        #expect(await revalidation.error == .cancelled)
        #expect(await settle { test.cache.loader.live.all.isEmpty })
        await test.cache.shutdown()
    }
}
