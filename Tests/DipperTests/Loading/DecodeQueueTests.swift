import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("The queue of decoding threads, and the ends of threads", .timeLimit(.minutes(5)))
struct DecodeQueueTests {
    /// An object that calls a closure when it is released.
    private final class Token: Sendable {
        private let onRelease: @Sendable () -> Void

        init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }
        deinit { onRelease() }
    }

    @Test("work that is removed while its cost is measured is released without a lock")
    func removedWhileMeasured() async throws {
        let queue = MakingQueue(name: "test", threads: 1)
        let door = Door()
        let isReleased = Box(false)
        func add() -> Int? {
            let token = Token {
                queue.remove(0)
                isReleased.update { $0 = true }
            }
            let measure: @Sendable () -> Int = {
                withExtendedLifetime(token) { door.pass() }
                return 1
            }
            return queue.add(.init(rank: .urgent, priority: .normal), cost: measure) { withExtendedLifetime(token) {} }
        }
        let number = try #require(add())
        try #require(await settle { door.arrivals == 1 })
        queue.remove(number)
        #expect(!isReleased.value)
        door.open()
        // A queue whose thread waits for its own lock cannot be shut down.
        try #require(await settle { isReleased.value })
        await queue.shutdown()
    }

    @Test("the threads of a queue and of a pool end when their owner is released without an end")
    func released() async throws {
        func threads() -> Int {
            let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
            return tasks.count { task in
                let name = try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)
                return name?.hasPrefix("orphan-") == true
            }
        }
        do {
            let queue = MakingQueue(name: "orphan-queue", threads: 2)
            let pool = WorkerPool(name: "orphan-pool", threads: 2)
            try #require(await settle { threads() == 4 })
            withExtendedLifetime((queue, pool)) {}
        }
        #expect(await settle { threads() == 0 })
    }
}
