import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Code of the program's own that looks at the cache", .timeLimit(.minutes(5)))
struct CallersCodeTests {
    @Test("a validation may read its own task while a stored answer is confirmed")
    func validation() async throws {
        let test = TestCache()
        let a = url("a")
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, must-revalidate"]
        test.transport.script(a, [.text("1", fields), .status(304, fields)])
        _ = try await test.cache.getData(a).value
        test.date.advance(by: 20)
        let task = Box<DataTask?>(nil)
        let seen = Box<[Int]>([])
        let curious = ResponseValidation { _ in
            if let attempts = task.value?.attempts { seen.update { $0.append(attempts) } }
            return nil
        }
        test.network.isUp = false
        let parked = test.cache.getData(DataRequest(a).with(\.validation, curious))
        try #require(await settle { parked.state == .parked })
        task.update { $0 = parked }
        test.network.isUp = true
        let hasEnded = await settle {
            test.clock.advance(by: .milliseconds(10))
            return parked.state == .finished
        }
        try #require(hasEnded)
        #expect(try await parked.response.source == .revalidated)
        #expect(!seen.value.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a provider may look at the cache when it is asked whether it is local")
    func provider() async throws {
        struct Curious: DataProvider {
            let cache: DataCache
            let asked: Box<Int>
            var cacheKey: CacheKey { "curious" }
            var isLocal: Bool {
                asked.update { $0 += 1 }
                return cache.queueCounts.parked > 0
            }
            func data() async throws -> Data { Data("x".utf8) }
        }
        let test = TestCache()
        let asked = Box(0)
        let request = DataRequest(Curious(cache: test.cache, asked: asked)).with(\.cachePolicy, .ignoreCache)
        #expect(try await test.cache.getData(request).value == Data("x".utf8))
        #expect(asked.value > 0)
        await test.cache.shutdown()
    }
}
