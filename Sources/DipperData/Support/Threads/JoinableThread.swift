import Foundation
import Synchronization

/// A thread for work that blocks. It ends when its body returns, and callers can wait for that.
package final class JoinableThread: Sendable {
    private let handle: pthread_t
    private let isJoined = Atomic(false)

    /// Starts the thread.
    /// - Parameter name: the thread's name, shown by `top -H` and debuggers; at most 15 bytes count.
    package init(name: String, _ run: @escaping @Sendable () -> Void) {
        switch SystemThread.start(name: name, run) {
        case .success(let handle): self.handle = handle
        case .failure(let refusal): preconditionFailure("the system gives no thread: error \(refusal.code)")
        }
    }

    /// Returns a name that shows the thread's owner and its role, in the 15 bytes that the system keeps.
    package static func name(_ owner: String, _ role: String) -> String {
        "\(owner.prefix(14 - role.utf8.count))-\(role)"
    }

    deinit {
        if !isJoined.load(ordering: .acquiring) { pthread_detach(handle) }
    }

    /// Returns when the thread has ended. Call this method once.
    package func join() async {
        guard !isJoined.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let handle = handle
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            // Waiting blocks, and Swift's cooperative threads must not.
            SeparateThread().run {
                pthread_join(handle, nil)
                continuation.resume()
            }
        }
    }
}
