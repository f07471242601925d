import DipperTesting
import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Caching, resuming and changes of mind all at once", .timeLimit(.minutes(5)))
struct HTTPStressTests {
    private static let resources: [String] = [
        "etag=a&cacheControl=max-age=5", "etag=b&cacheControl=max-age=5,stale-while-revalidate=20",
        "etag=c&cacheControl=no-cache", "etag=d&cacheControl=no-store",
        "etag=e&cacheControl=max-age=3,stale-if-error=50&status=503&times=2",
        "etag=f&cut=4000&times=3&cacheControl=max-age=4", "etag=g&cacheControl=max-age=2&drip=2000,1",
        "etag=h&reset=3000&times=2&cacheControl=max-age=4,must-revalidate", "cacheControl=max-age=1",
        "etag=i&cut=5000&times=1&norange=1", "status=404", "hops=2&etag=j&cacheControl=max-age=3",
        "etag=k&header=Vary:X-Kind&cacheControl=max-age=6",
    ]

    @Test(
        "a thousand calls at random over short-lived entries all end, each once, with the right bytes",
        arguments: [false, true])
    func storm(onDisk: Bool) async throws {
        let seed = UInt64.random(in: .min ... .max)
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let date = ManualDate()
        var configuration = DataCache.Configuration(directory: onDisk ? folder.url : nil)
        configuration.logger.logLevel = .critical
        configuration.retryPolicy = .exponential(base: .milliseconds(3), retries: 8)
        configuration.timeout = .seconds(60)
        configuration.now = { date.now }
        let cache = DataCache(configuration)
        let ends = Box<[Int: Int]>([:])
        let served = Box(0)
        let size = 10_000
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    var random = SeededRandom(seed &+ UInt64(worker))
                    for step in 0..<125 {
                        let resource = Int.random(in: 0..<Self.resources.count, using: &random)
                        let path = "/bytes/\(size)/r\(resource)-\(Int.random(in: 0..<2, using: &random))"
                        let target = server.url("\(path)?\(Self.resources[resource])")
                        var request = DataRequest(target).with(\.key, CacheKey(path))
                        switch Int.random(in: 0..<12, using: &random) {
                        case 0: request.headers = ["Cache-Control": "no-cache"]
                        case 1: request.headers = ["Cache-Control": "max-stale"]
                        case 2: request.cachePolicy = .cacheOnly
                        case 3: request.cachePolicy = .ignoreCache
                        case 4: request.headers = ["X-Kind": "\(step % 3)"]
                        case 5: request.waitsForDiskWrite = true
                        case 6: request.validation = .anyStatus
                        case 7: request.cachePolicy = .memoryOnly
                        default: break
                        }
                        let number = worker * 1_000 + step
                        let task =
                            Bool.random(using: &random) ? cache.getData(request) : cache.slowGetData(request)
                        task.onEnd { _ in ends.update { $0[number, default: 0] += 1 } }
                        switch Int.random(in: 0..<16, using: &random) {
                        case 0: task.cancel()
                        case 1: task.moveToSlowQueue()
                        case 2: cache.moveTaskToSlowQueue(key: CacheKey(path))
                        case 3: cache.removeData(for: CacheKey(path))
                        case 4: cache.clearMemory()
                        case 5: cache.clear()
                        case 6: cache.cancel(key: CacheKey(path))
                        case 7: cache.flush(olderThan: .seconds(2))
                        case 8: date.advance(by: 1)
                        case 9: cache.getData(request).moveToSlowQueue()
                        default: break
                        }
                        guard Int.random(in: 0..<3, using: &random) > 0, let response = try? await task.response,
                            response.status == 200
                        else { continue }
                        served.update { $0 += 1 }
                        #expect(response.data == FaultServer.body(of: path, size: size), "\(path), seed \(seed)")
                    }
                }
            }
        }
        // Nothing is left behind once all have ended; refreshes behind old bytes end as well.
        #expect(await settle { cache.queueCounts == QueueCounts() })
        #expect(served.value > 200, "\(served.value) of 1,000, seed \(seed)")
        await cache.shutdown()
        _ = await cache.getData(server.url("/end")).heard
        // A thread that has ended tasks may yet have to hand their closures to the queue.
        #expect(await settle { ends.value.count == 1_000 }, "seed \(seed)")
        #expect(ends.value.values.allSatisfy { $0 == 1 }, "seed \(seed)")
        await server.stop()
    }
}
