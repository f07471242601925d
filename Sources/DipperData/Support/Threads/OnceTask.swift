import Synchronization

/// Work that is done once, however many callers wait for its end.
package final class OnceTask: Sendable {
    private let task = Mutex<Task<Void, Never>?>(nil)

    package init() {}

    /// Begins the work, unless an earlier call has, and returns at its end.
    package func run(_ work: @escaping @Sendable () async -> Void) async {
        let task = task.withLock { present in
            let task = present ?? Task { await work() }
            present = task
            return task
        }
        await task.value
    }
}
