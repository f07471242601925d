import Dispatch
import Foundation
import Synchronization

/// A thread of our own, for work that blocks. It ends when its body returns, and can be waited for.
package final class JoinableThread: Sendable {
    private let handle: pthread_t
    private let isJoined = Atomic(false)

    private final class Body {
        let name: String
        let run: () -> Void
        init(name: String, run: @escaping () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// - Parameter name: shown by `top -H` and debuggers; at most 15 bytes count.
    package init(name: String, _ run: @escaping @Sendable () -> Void) {
        let body = Unmanaged.passRetained(Body(name: name, run: run))
        var handle = pthread_t()
        let result = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                let body = Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                Thread.current.name = body.name
                body.run()
                return nil
            }, body.toOpaque())
        precondition(result == 0, "the system gives no thread: error \(result)")
        self.handle = handle
    }

    /// A name that shows whose thread it is, and what it does, in the 15 bytes that the system keeps.
    package static func name(_ owner: String, _ role: String) -> String {
        "\(owner.prefix(14 - role.utf8.count))-\(role)"
    }

    deinit {
        if !isJoined.load(ordering: .acquiring) { pthread_detach(handle) }
    }

    /// Returns when the thread has ended. To be called once.
    package func join() async {
        isJoined.store(true, ordering: .releasing)
        let handle = handle
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            // Waiting blocks, which a thread of Swift's concurrency must not.
            DispatchQueue.global().async {
                pthread_join(handle, nil)
                continuation.resume()
            }
        }
    }
}
