import Dispatch
package import Testing

/// Runs a test on a thread that no other test uses: for one that waits thousands of times for its turn, each time behind
/// all tests that run beside it.
package struct OwnThread: TestTrait, TestScoping {
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadOfTest()) { try await body() }
    }
}

extension Trait where Self == OwnThread {
    /// A thread that no other test uses.
    package static var ownThread: Self { OwnThread() }
}

private final class ThreadOfTest: TaskExecutor {
    private let queue = DispatchQueue(label: "a test's own thread")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
