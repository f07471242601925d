import DequeModule
import Foundation
import Synchronization

/// A pool of a few threads that run closures in the order given. For work that blocks, such as files and SQLite.
package final class WorkerPool: Sendable {
    // Every access is made while holding `condition`.
    private final class Queue: @unchecked Sendable {
        let condition = NSCondition()
        var work = Deque<@Sendable () -> Void>()
        var isEnding = false

        func take() -> (@Sendable () -> Void)? {
            condition.lock()
            defer { condition.unlock() }
            while true {
                if let next = work.popFirst() { return next }
                if isEnding { return nil }
                condition.wait()
            }
        }
    }

    private let queue = Queue()
    private let threads: [JoinableThread]
    private let joining = OnceTask()

    package init(name: String, threads count: Int) {
        let queue = queue
        threads = (0..<count).map { _ in
            JoinableThread(name: name) {
                while let work = queue.take() { work() }
            }
        }
    }

    /// Ends the threads, which do not keep the pool.
    deinit { end() }

    /// Runs `work` on one of the threads. Once the pool is ending, returns `false` and runs nothing.
    @discardableResult
    package func run(_ work: @escaping @Sendable () -> Void) -> Bool {
        queue.condition.lock()
        let isEnding = queue.isEnding
        if !isEnding { queue.work.append(work) }
        queue.condition.unlock()
        queue.condition.signal()
        return !isEnding
    }

    /// Ends the threads after all work that has been given, without waiting for them.
    func end() {
        queue.condition.lock()
        queue.isEnding = true
        queue.condition.unlock()
        queue.condition.broadcast()
    }

    /// Ends the threads after all work that has been given, and returns when the threads have ended.
    package func shutdown() async {
        end()
        await joining.run { [threads] in for thread in threads { await thread.join() } }
    }
}
