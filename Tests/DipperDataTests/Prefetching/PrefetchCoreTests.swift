import Dispatch
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("What a prefetcher does with queues and calls", .timeLimit(.minutes(1)))
struct PrefetchCoreTests {
    private typealias Core = PrefetchCore<Int>

    @Test("closures that take long let the queue's other work have its turn")
    func turns() async {
        let queue = DispatchQueue(label: "test")
        let (count, told) = (20, DispatchSemaphore(value: 0))
        // Each request is looked at when progress is being told, so that there is always more to tell.
        let core = Core(
            Array(0..<count), maxOutstanding: 1,
            .init(
                run: { work in DispatchQueue.global().async(execute: work) },
                isCached: { _ in
                    told.wait()
                    return true
                }, call: { _, _ in {} }, callbackQueue: .dispatch(queue)))
        let order = Box<[String]>([])
        let result = await withCheckedContinuation { continuation in
            core.onProgress { [unowned core] progress in
                if progress.finished == 0 { queue.async { order.update { $0.append("other") } } }
                told.signal()
                while progress.finished < count, core.progress.finished == progress.finished { sched_yield() }
            }
            core.onEnd { result in
                order.update { $0.append("end") }
                continuation.resume(returning: result)
            }
            core.start()
        }
        #expect(result.skipped.count == count && order.value == ["other", "end"])
    }

    @Test("who awaits the end does not wait for the queue of closures")
    func value() async {
        let queue = DispatchQueue(label: "test")
        queue.suspend()
        let ends = Box(0)
        let core = Core(
            [1, 2], maxOutstanding: 1,
            .init(
                run: { work in DispatchQueue.global().async(execute: work) }, isCached: { _ in true },
                call: { _, _ in {} }, callbackQueue: .dispatch(queue)))
        core.onEnd { _ in ends.update { $0 += 1 } }
        core.start()
        #expect(await core.value.skipped == [1, 2])
        #expect(await core.value.skipped == [1, 2] && ends.value == 0)
        queue.resume()
        await withCheckedContinuation { continuation in core.onEnd { _ in continuation.resume() } }
        #expect(ends.value == 1)
    }

    /// Calls that the test ends, each at once where it is made.
    private final class Calls: Sendable {
        let made = Box<[(request: Int, tell: @Sendable (Core.News) -> Void)]>([])

        func core(_ count: Int, maxOutstanding: Int) -> Core {
            Core(
                Array(0..<count), maxOutstanding: maxOutstanding,
                .init(
                    run: { $0() }, isCached: { _ in false },
                    call: { request, tell in
                        self.made.update { $0.append((request, tell)) }
                        return {}
                    }, callbackQueue: .inPlace))
        }

        var requests: [Int] { made.value.map(\.request) }
        func tell(_ request: Int, _ news: Core.News) { made.value.first { $0.request == request }?.tell(news) }
    }

    @Test("while it pauses nothing begins, whatever ends")
    func pause() {
        let calls = Calls()
        let core = calls.core(4, maxOutstanding: 2)
        core.start()
        core.pause()
        calls.tell(0, .ended(nil))
        #expect(calls.requests == [0, 1] && core.progress.completed == 1)
        core.resume()
        #expect(calls.requests == [0, 1, 2])
        core.stop()
    }

    @Test("closures that run in place are told of the beginning before anything is looked at")
    func inPlace() {
        let calls = Calls()
        let core = calls.core(1, maxOutstanding: 1)
        let first = Box<[Int]?>(nil)
        core.onProgress { _ in first.update { if $0 == nil { $0 = calls.requests } } }
        core.start()
        #expect(first.value == [] && calls.requests == [0])
        calls.tell(0, .ended(.timedOut))
        #expect(core.progress.failed == 1)
    }

    @Test("what cancels a call is let go of once the call has ended, where no lock is held")
    func letGo() {
        final class Owner: Sendable {
            let core: Box<Core?>
            init(_ core: Box<Core?>) { self.core = core }
            // Would wait for ever under the lock.
            deinit { _ = core.value?.progress }
        }
        let place = Box<Core?>(nil)
        let ends = Box<(@Sendable (Core.News) -> Void)?>(nil)
        let core = Core(
            [1], maxOutstanding: 1,
            .init(
                run: { $0() }, isCached: { _ in false },
                call: { _, tell in
                    ends.update { $0 = tell }
                    let owner = Owner(place)
                    return { _ = owner }
                }, callbackQueue: .inPlace))
        place.update { $0 = core }
        core.start()
        ends.value?(.ended(nil))
        #expect(core.progress.completed == 1)
        place.update { $0 = nil }
        ends.update { $0 = nil }
    }
}
