import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Prefetches of what is never on disk", .timeLimit(.minutes(5)))
struct MemoryPrefetchTests {
    private let picture = Image.sample()

    private func prefetch(_ requests: [ImageRequest], _ cache: ImageCache) async -> PrefetchResult<ImageRequest> {
        let prefetcher = ImagePrefetcher(cache, requests)
        prefetcher.start()
        return await prefetcher.value
    }

    @Test("a request that is kept in memory only is prefetched once, also in a cache with a folder")
    func memoryOnly() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(url("a"), [.body(try picture.png)])
        let request = ImageRequest(url("a")).with(\.cachePolicy, .memoryOnly)
        for round in 0..<3 {
            let result = await prefetch([request], test.cache)
            #expect(result.failed.isEmpty && result.skipped.count == (round == 0 ? 0 : 1), "\(round): \(result)")
        }
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.hasImage(for: request))
        await test.cache.shutdown()
    }

    @Test("what a provider brings that is not kept on disk is asked for once")
    func provider() async throws {
        struct Provider: DataProvider {
            let asked: Box<Int>
            let bytes: Data
            let cacheKey = CacheKey("provided")
            let isLocal = true
            func data() async throws -> Data {
                asked.update { $0 += 1 }
                return bytes
            }
        }
        let test = TestImageCache(folder: TemporaryFolder())
        let asked = Box(0)
        let request = ImageRequest(Provider(asked: asked, bytes: try picture.png))
        for _ in 0..<3 { _ = await prefetch([request], test.cache) }
        #expect(asked.value == 1)
        await test.cache.shutdown()
    }
}
