import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The cache against a real server", .timeLimit(.minutes(5)))
struct NetworkCacheTests {
    private func cache(_ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in })
        -> DataCache
    {
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.logger.logLevel = .critical
        configuration.retryPolicy = .exponential(base: .milliseconds(10))
        change(&configuration)
        return DataCache(configuration)
    }

    @Test("three urgent gets of one url and slow gets of it make one request")
    func dedup() async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        let target = server.url("/bytes/5000/a?delay=50")
        let tasks = [
            cache.slowGetData(target), cache.getData(target), cache.getData(target), cache.getData(target),
            cache.slowGetData(target),
        ]
        for task in tasks { #expect(try await task.value == FaultServer.body(of: "/bytes/5000/a", size: 5_000)) }
        #expect(server.requests.count == 1)
        await cache.shutdown()
        await server.stop()
    }

    @Test("no slow request starts before the last urgent one has ended, and slow ones never overlap")
    func queues() async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        let slow = (0..<5).map { cache.slowGetData(server.url("/bytes/1000/s\($0)?delay=20")) }
        // The first prefetch may be under way; the rest wait.
        let urgent = (0..<8).map { cache.getData(server.url("/bytes/1000/u\($0)?delay=2000")) }
        for task in urgent + slow { _ = try await task.value }
        let requests = server.requests
        let lastUrgent = requests.filter { $0.path.contains("/u") }.compactMap(\.end).max()!
        let slowOnes = requests.filter { $0.path.contains("/s") && !$0.path.hasSuffix("s0") }.sorted {
            $0.start < $1.start
        }
        #expect(slowOnes.count == 4)
        for request in slowOnes { #expect(request.start >= lastUrgent) }
        for (one, next) in zip(slowOnes, slowOnes.dropFirst()) { #expect(next.start >= one.end!) }
        let overlapping = requests.filter { $0.path.contains("/u") }
        #expect(overlapping.allSatisfy { $0.start < overlapping.compactMap(\.end).min()! }, "urgent ones run together")
        await cache.shutdown()
        await server.stop()
    }

    @Test("a 404 is requested once, a 503 twice is retried, a body cut short is fetched whole")
    func retries() async throws {
        let server = try await FaultServer.start()
        let cache = cache()
        #expect(await cache.getData(server.url("/nothing")).error == .status(404))
        #expect(server.requests(to: "/nothing").count == 1)
        let retried = try await cache.getData(server.url("/bytes/100/b?status=503&times=2")).response
        #expect(retried.attempts == 3)
        #expect(retried.data == FaultServer.body(of: "/bytes/100/b", size: 100))
        for fault in ["cut=50", "reset=50", "length=5000"] {
            let path = "/bytes/2000/\(fault.prefix(3))"
            let response = try await cache.getData(server.url("\(path)?\(fault)&times=1")).response
            #expect(response.data == FaultServer.body(of: path, size: 2_000))
            #expect(response.attempts == 2)
        }
        await cache.shutdown()
        await server.stop()
    }

    @Test("a second cache on the folder asks nothing of the network")
    func secondRun() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let targets = (0..<40).map { (server.url("/bytes/\($0 * 400)/x\($0)"), $0 * 400) }
        for run in 0..<2 {
            let cache = cache(folder)
            for (target, size) in targets {
                let response = try await cache.getData(target).response
                #expect(response.source == (run == 0 ? .network : .disk))
                #expect(response.data == FaultServer.body(of: target.path, size: size))
            }
            await cache.shutdown()
        }
        #expect(server.requests.count == 40)
        await server.stop()
    }

    @Test("a thousand calls at random, from many threads, all end, each once")
    func storm() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let cache = cache(folder) { $0.timeout = .seconds(60) }
        let ends = Box<[Int: Int]>([:])
        let served = Box(0)
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    var random = SystemRandomNumberGenerator()
                    for call in 0..<125 {
                        let faults = ["", "?status=503&times=1", "?cut=10&times=1", "?status=404", "?delay=3"]
                        let name = Int.random(in: 0..<40, using: &random)
                        let target = server.url("/bytes/3000/n\(name)\(faults[name % faults.count])")
                        let number = worker * 1_000 + call
                        let task = Bool.random(using: &random) ? cache.getData(target) : cache.slowGetData(target)
                        task.onEnd { _ in ends.update { $0[number, default: 0] += 1 } }
                        switch Int.random(in: 0..<8, using: &random) {
                        case 0: task.cancel()
                        case 1: cache.moveTaskToSlowQueue(target)
                        case 2: cache.removeData(for: target)
                        case 3: cache.clearMemory()
                        default: break
                        }
                        if let data = try? await task.value {
                            served.update { $0 += 1 }
                            #expect(data == FaultServer.body(of: "/bytes/3000/n\(name)", size: 3_000))
                        }
                    }
                }
            }
        }
        #expect(cache.queueCounts == QueueCounts())
        // One in eight is taken back, and one in five of the rest is not found.
        #expect(served.value > 500, "\(served.value) of 1,000")
        await cache.shutdown()
        // The last closures may still be on their way through the serial queue.
        let last = cache.getData(server.url("/end"))
        await withCheckedContinuation { continuation in last.onEnd { _ in continuation.resume() } }
        #expect(await settle { ends.value.count == 1_000 })
        #expect(ends.value.values.allSatisfy { $0 == 1 })
        await server.stop()
    }
}
