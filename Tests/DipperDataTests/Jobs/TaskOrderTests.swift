import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The order of what a task tells", .timeLimit(.minutes(5)))
struct TaskOrderTests {
    private typealias Log = TaskLog<DataTask.Event>

    /// The news that hooks hear when they are added late.
    private func heard(_ log: inout Log) -> [String] {
        let heard = Box<[String]>([])
        log.add(.failure { _, isFatal in heard.update { $0.append("failure \(isFatal)") } })
        log.add(.retry { heard.update { $0.append("retry") } })
        log.add(.progress { progress in heard.update { $0.append("\(progress.received)") } })
        log.add(.end { _ in heard.update { $0.append("end") } })
        _ = log.claimDelivery()
        while let call = log.nextCall() { call() }
        return heard.value
    }

    @Test("progress of an attempt is told after the failure and the retry before it, also to hooks that come late")
    func secondAttempt() {
        var log = Log()
        _ = log.set(TaskProgress(received: 1, expected: nil))
        _ = log.append(.failure(.connectionLost, isFatal: false))
        _ = log.append(.retry)
        _ = log.set(TaskProgress(received: 2, expected: nil))
        #expect(heard(&log) == ["failure false", "retry", "2"])
        _ = log.append(.failure(.connectionLost, isFatal: false))
        _ = log.end(.failure(.timedOut))
        #expect(heard(&log).suffix(3) == ["failure false", "failure true", "end"])
    }

    @Test("progress is told before the failure that follows it")
    func beforeFailure() {
        var log = Log()
        _ = log.set(TaskProgress(received: 1, expected: nil))
        _ = log.append(.failure(.connectionLost, isFatal: false))
        #expect(heard(&log) == ["1", "failure false"])
    }

    @Test("a call that fails again and again remembers the last failures, and its end")
    func bounded() {
        var log = Log()
        for _ in 0..<100_000 {
            _ = log.append(.failure(.connectionLost, isFatal: false))
            _ = log.append(.retry)
        }
        _ = log.end(.failure(.timedOut))
        let all = heard(&log)
        #expect(all.count == Log.mostEntries && all.suffix(2) == ["failure true", "end"])
    }

    @Test("hooks on a queue that is held up hear of an attempt's progress after its retry")
    func heldUp() async throws {
        let queue = DispatchQueue(label: "held up")
        let test = TestCache { $0.callbackQueue = .dispatch(queue) }
        let told = Box<[String]>([])
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1))))
            .onProgress { progress in told.update { $0.append("\(progress.received)") } }
            .onFail { _, _ in told.update { $0.append("failure") } }
            .onRetry { told.update { $0.append("retry") } }
        let transfer = try await test.transport.nextTransfer()
        queue.suspend()
        transfer.send(progress: 1, of: 9)
        transfer.fail(with: .connectionLost)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        let second = try await test.transport.nextTransfer()
        second.send(progress: 5, of: 9)
        queue.resume()
        second.finish(with: Data(count: 9))
        await withCheckedContinuation { continuation in task.onEnd { _ in continuation.resume() } }
        #expect(told.value == ["failure", "retry", "5"])
        await test.cache.shutdown()
    }
}
