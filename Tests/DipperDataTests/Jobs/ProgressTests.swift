import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Progress of downloads that stand still", .timeLimit(.minutes(5)))
struct ProgressTests {
    private func progress(_ event: DataTask.Event) -> Int? {
        if case .progress(let progress) = event { progress.received } else { nil }
    }

    @Test("who begins to listen while nothing comes hears how far the transfer has come")
    func lateListeners() async throws {
        let test = TestCache { $0.progressInterval = .zero }
        let task = test.cache.getData(url("a"))
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: 40, of: 100)
        #expect(await task.reaches { self.progress($0) == 40 }, "a stream")
        let heard = Box<[TaskProgress]>([])
        task.onProgress { progress in heard.update { $0.append(progress) } }
        #expect(heard.value.last == TaskProgress(received: 40, expected: 100), "a hook")
        transfer.finish(with: Data(count: 100))
        _ = try await task.value
        await test.cache.shutdown()
    }

    @Test("the bytes that come just before the flow stops are told of when the interval is over")
    func lastBytes() async throws {
        let test = TestCache { $0.progressInterval = .seconds(1) }
        let heard = Box<[Int]>([])
        let task = test.cache.getData(url("a")).onProgress { progress in
            heard.update { $0.append(progress.received) }
        }
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: 10, of: 100)
        transfer.send(progress: 20, of: 100)
        transfer.send(progress: 30, of: 100)
        #expect(heard.value == [10])
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        #expect(await settle { heard.value == [10, 30] })
        transfer.finish(with: Data(count: 100))
        _ = try await task.value
        await test.cache.shutdown()
    }

    @Test("a new attempt does not tell of the bytes of the one before")
    func newAttempt() async throws {
        let test = TestCache {
            $0.progressInterval = .zero
            $0.retryPolicy = .fixed(.zero)
        }
        let heard = Box<[Int]>([])
        let task = test.cache.getData(url("a"))
        let first = try await test.transport.nextTransfer()
        first.send(progress: 40, of: 100)
        first.fail(with: .connectionLost)
        let second = try await test.transport.nextTransfer()
        task.onProgress { progress in heard.update { $0.append(progress.received) } }
        #expect(heard.value.isEmpty)
        second.send(progress: 7, of: 100)
        second.finish(with: Data(count: 100))
        _ = try await task.value
        #expect(await settle { heard.value == [7] })
        await test.cache.shutdown()
    }

    @Test("bytes that come while others are being shown are shown as well, and so are those after them")
    func bytesMeanwhile() async throws {
        let test = TestCache { $0.progressInterval = .seconds(1) }
        let seen = Box<[Int]>([])
        let task = test.cache.getData(url("a"))
        let transfer = try await test.transport.nextTransfer()
        let bring: @Sendable (Int) -> Void = { count in
            test.clock.advance(by: .seconds(1))
            transfer.hold(TransferResponse(body: Data(count: count)))
            transfer.send(progress: count, of: 100)
        }
        task.onBytes { bytes in
            seen.update { $0.append(bytes.count) }
            if bytes.count == 10 { bring(20) }
        }
        bring(10)
        #expect(seen.value == [10, 20])
        bring(30)
        #expect(seen.value == [10, 20, 30])
        transfer.finish(with: Data(count: 100))
        _ = try await task.value
        await test.cache.shutdown()
    }

    @Test("what is told now and then is told by one at a time, the latest last")
    func pacing() {
        var pacing = Pacing()
        func ask(_ milliseconds: Int, isLast: Bool = false, isAgain: Bool = false) -> Pacing.Answer {
            pacing.ask(at: .milliseconds(milliseconds), interval: .seconds(1), isLast: isLast, isAgain: isAgain)
        }
        func told() -> Bool { pacing.told() }
        #expect(ask(0) == .now)
        #expect(ask(0, isLast: true) == .no, "somebody is telling")
        #expect(told(), "and tells once more")
        #expect(!told())
        #expect(ask(300) == .later(.milliseconds(700)))
        #expect(ask(400) == .no, "somebody will ask")
        #expect(ask(1_000, isAgain: true) == .now)
        #expect(!told())
    }
}
