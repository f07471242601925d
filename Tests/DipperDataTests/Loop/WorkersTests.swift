import Foundation
import Testing

@testable import DipperData

@Suite("Workers have threads for as long as there is work", .timeLimit(.minutes(1)))
struct WorkersTests {
    /// Calls a closure when the thread ends that it was set on.
    private final class ThreadEnd: Sendable {
        private static let key: pthread_key_t = {
            var key = pthread_key_t()
            pthread_key_create(&key) { if let box = $0 { Unmanaged<ThreadEnd>.fromOpaque(box).release() } }
            return key
        }()
        private let onEnd: @Sendable () -> Void

        init(_ onEnd: @escaping @Sendable () -> Void) { self.onEnd = onEnd }
        deinit { onEnd() }

        func set() { pthread_setspecific(Self.key, Unmanaged.passRetained(self).toOpaque()) }
    }

    /// Returns the number of the thread that did the work, after that has ended.
    private func useAndLoseThread(_ workers: Workers) async -> pthread_t {
        await withCheckedContinuation { continuation in
            #expect(
                workers.run {
                    let thread = pthread_self()
                    ThreadEnd { continuation.resume(returning: thread) }.set()
                })
        }
    }

    @Test("a thread that has had no work for a while ends, and the next work begins another")
    func rest() async {
        let workers = Workers(name: "rest", threads: 2, rest: 0.01)
        for _ in 1...3 { _ = await useAndLoseThread(workers) }
        await workers.shutdown()
        #expect(!workers.run { Issue.record("done after the end") })
    }

    @Test("no more threads begin than work needs, and no more than are allowed")
    func count() async {
        let workers = Workers(name: "count", threads: 2, rest: 60)
        func thread() async -> pthread_t {
            await withCheckedContinuation { continuation in
                #expect(workers.run { continuation.resume(returning: pthread_self()) })
            }
        }
        let door = DispatchSemaphore(value: 0)
        let (entered, other) = AsyncStream.makeStream(of: pthread_t.self)
        for _ in 1...3 {
            #expect(
                workers.run {
                    other.yield(pthread_self())
                    door.wait()
                })
        }
        var iterator = entered.makeAsyncIterator()
        let threads = [await iterator.next(), await iterator.next()]
        #expect(threads[0] != threads[1])
        door.signal()
        #expect(threads.contains(await iterator.next()), "the third piece waits for one of them")
        for _ in 1...2 { door.signal() }
        #expect(threads.contains(await thread()))
        await workers.shutdown()
    }

    @Test("the next piece begins when the one before is taken, not when its thread has nothing more to do")
    func taken() async {
        let workers = Workers(name: "taken", threads: 1, rest: 60)
        let (order, tell) = AsyncStream.makeStream(of: String.self)
        var iterator = order.makeAsyncIterator()
        for _ in 1...200 {
            let take = await withCheckedContinuation { continuation in
                _ = workers.add(.init(.fast, .normal), untilTaken: { continuation.resume(returning: $0) })
            }
            #expect(workers.run { tell.yield("next") })
            tell.yield("taken")
            take()
            #expect(await iterator.next() == "taken")
            #expect(await iterator.next() == "next")
        }
        await workers.shutdown()
    }

    @Test("work that was added before the end is done")
    func end() async {
        let workers = Workers(name: "end", threads: 1)
        let (done, other) = AsyncStream.makeStream(of: Int.self)
        for number in 1...100 { workers.run { other.yield(number) } }
        await workers.shutdown()
        other.finish()
        #expect(await done.reduce(into: []) { $0.append($1) } == Array(1...100))
    }
}
