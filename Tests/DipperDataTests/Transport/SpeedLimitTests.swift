import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Transfers that are too slow", .timeLimit(.minutes(5)))
struct SpeedLimitTests {
    private func limit(rate: Int = 100, longest: Duration? = nil) -> SpeedLimit {
        var limit = SpeedLimit(rate: rate, window: .seconds(60), longest: longest)
        limit.run(at: .zero)
        return limit
    }

    @Test("the average over the window counts, whatever the bursts")
    func average() {
        var steady = limit()
        var dripping = limit()
        var bursting = limit()
        var tooSlowAt: Int?
        for second in 0...3_600 {
            let now = Duration.seconds(second)
            let verdicts = [
                steady.check(at: now, bytes: second * 101), bursting.check(at: now, bytes: second / 20 * 2_400),
            ]
            #expect(verdicts == [.fine, .fine])
            if tooSlowAt == nil, dripping.check(at: now, bytes: second * 65) == .tooSlow { tooSlowAt = second }
        }
        #expect(tooSlowAt.map { (60...65).contains($0) } ?? false, "\(tooSlowAt as Any)")
    }

    @Test("a good beginning buys no time for a drip")
    func goodBeginning() {
        var limit = limit()
        let end = (0...600).first { limit.check(at: .seconds($0), bytes: 10_000_000 + $0 * 65) == .tooSlow }
        #expect(end.map { $0 <= 130 } ?? false, "\(end as Any)")
    }

    @Test("time in which the transfer is held back does not count")
    func heldBack() {
        var limit = limit(longest: .seconds(100))
        var verdicts = [limit.check(at: .zero, bytes: 0)]
        limit.hold(at: .seconds(10))
        verdicts.append(limit.check(at: .seconds(5_000), bytes: 0))
        limit.run(at: .seconds(5_000))
        verdicts.append(limit.check(at: .seconds(5_040), bytes: 0))
        verdicts.append(limit.check(at: .seconds(5_051), bytes: 0))
        verdicts.append(limit.check(at: .seconds(5_090), bytes: 9_999_999))
        #expect(verdicts == [.fine, .fine, .fine, .tooSlow, .tooLong])
    }

    @Test("a server that drips is given up, with a failure that may pass, and what has come is kept")
    func drip() async throws {
        let server = try await FaultServer.start()
        var configuration = DataCache.Configuration()
        configuration.logger.logLevel = .critical
        configuration.retryPolicy = .fixed(.zero, retries: 1)
        configuration.network.minimumRate = 50_000
        // On a busy machine it takes a while until something has come.
        configuration.network.minimumRateWindow = .seconds(2)
        let cache = DataCache(configuration)
        let task = cache.getData(server.url("/bytes/1000000/a?drip=1000,100&etag=v"))
        #expect(await task.error == .timedOut)
        #expect(DipperError.timedOut.mayPass)
        #expect(server.requests.count == 2)
        #expect(server.requests.last?.header("Range")?.hasPrefix("bytes=") == true)
        await cache.shutdown()
        await server.stop()
    }

    @Test("no transfer takes longer than the limit")
    func timeLimit() async throws {
        let server = try await FaultServer.start()
        var configuration = DataCache.Configuration()
        configuration.logger.logLevel = .critical
        configuration.retryPolicy = .never
        configuration.network.transferTimeLimit = .milliseconds(300)
        let cache = DataCache(configuration)
        #expect(await cache.getData(server.url("/bytes/100000000/a?drip=60000,50")).error == .timedOut)
        await cache.shutdown()
        await server.stop()
    }
}
