import Dispatch
import Foundation
import Synchronization

// Each lock is taken alone, but for these: DiskTier.staged is held while DiskTier.accesses and the condition of Workers
// are taken; TaskFeed.log and AnimatedImage.player, while an `AsyncStream` takes an element, AnimatedImage.player also
// while frames are freed; the writer of an EntryIndex, during a transaction.

/// A thread for work that blocks.
package final class JoinableThread: Sendable {
    private let handle: pthread_t
    private let isJoined = Atomic(false)

    /// - Parameter name: for `top -H` and debuggers; at most 15 bytes count.
    package init(name: String, _ run: @escaping @Sendable () -> Void) {
        var handle = pthread_t()
        let code = Self.start(&handle, name, run)
        precondition(code == 0, "the system gives no thread: error \(code)")
        self.handle = handle
    }

    /// Starts a thread that nobody waits for; `false` if the system gives none.
    static func startDetached(name: String, _ run: @escaping @Sendable () -> Void) -> Bool {
        var handle = pthread_t()
        guard start(&handle, name, run) == 0 else { return false }
        pthread_detach(handle)
        return true
    }

    private final class Body {
        let run: () -> Void

        init(_ run: @escaping () -> Void) { self.run = run }
    }

    private static func start(_ handle: inout pthread_t, _ name: String, _ run: @escaping () -> Void) -> CInt {
        let body = Unmanaged.passRetained(
            Body {
                Thread.current.name = name
                run()
            })
        let code = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
                return nil
            }, body.toOpaque())
        if code != 0 { body.release() }
        return code
    }

    /// Returns a name of at most 15 bytes, all that the system keeps.
    package static func name(_ owner: String, _ role: String) -> String {
        "\(owner.prefix(14 - role.utf8.count))-\(role)"
    }

    deinit {
        if !isJoined.load(ordering: .acquiring) { pthread_detach(handle) }
    }

    /// Returns when the thread has ended. To be called once.
    package func join() async {
        guard !isJoined.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let handle = handle
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            // Swift's cooperative threads must not block.
            DispatchQueue(label: "dipper.join").async {
                pthread_join(handle, nil)
                continuation.resume()
            }
        }
    }
}

/// A thread of Dispatch that runs closures one after the other and is none of Swift's.
///
/// Blocking work would hold up the program's tasks, and busy tasks the cache. Dispatch's global queues share their
/// threads with Swift's tasks; a serial queue does not. An owner with recurring work keeps one instance, because
/// Dispatch starts a thread for each busy queue.
package struct SeparateThread: Sendable {
    package let queue = DispatchQueue(label: "dipper")
    /// For code of the program, which holds up neither the next work nor timers.
    private let hooks = DispatchQueue(label: "dipper.hooks")

    package init() {}

    package func run(_ work: @escaping @Sendable () -> Void) { queue.async { carryOut(work) } }

    /// Returns when the closures so far, and code of the program that follows from them, have run.
    func finish() async {
        await withCheckedContinuation { continuation in
            queue.async { [hooks] in hooks.async { continuation.resume() } }
        }
    }

    package func carryOut(_ work: () -> Void) {
        let steps = Afterwards.steps(after: work)
        if !steps.isEmpty { hooks.async { for step in steps { step() } } }
    }
}

package final class OnceTask: Sendable {
    private let task = Mutex<Task<Void, Never>?>(nil)

    package init() {}

    package func run(_ work: @escaping @Sendable () async -> Void) async {
        let task = task.withLock { present in
            let task = present ?? Task { await work() }
            present = task
            return task
        }
        await task.value
    }
}

/// Code of the program, such as hooks, that a thread runs once it has stopped carrying out actions. It may be slow, and
/// may wait for the thread's next actions.
// Only the thread that carries out the actions uses it.
package final class Afterwards: @unchecked Sendable {
    package typealias Step = @Sendable () -> Void

    var steps: [Step] = []
    /// Steps that wake others and return at once, with their queues. Together they wake a waiting thread only once.
    private var wakes: [(queue: DispatchQueue?, step: Step)] = []

    var isEmpty: Bool { steps.isEmpty && wakes.isEmpty }

    func wake() {
        if wakes.isEmpty { return }
        var rest = exchange(&wakes, with: [])[...]
        while let (queue, step) = rest.popFirst() {
            guard let queue else {
                step()
                continue
            }
            let same = rest.prefix { $0.queue === queue }
            rest = rest.dropFirst(same.count)
            queue.async {
                step()
                for (_, step) in same { step() }
            }
        }
    }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private static var present: Afterwards? {
        pthread_getspecific(key).map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    static func begin(_ list: Afterwards) { pthread_setspecific(key, Unmanaged.passUnretained(list).toOpaque()) }

    static func end() { pthread_setspecific(key, nil) }

    /// Runs a step when this thread has stopped carrying out actions; at once if it carries out none.
    package static func run(_ step: @escaping Step) {
        if let present { present.steps.append(step) } else { step() }
    }

    /// Wakes others at the time of ``run(_:)``. Without a queue, the step must return at once.
    static func wake(on queue: DispatchQueue? = nil, _ step: @escaping Step) {
        if let present {
            present.wakes.append((queue, step))
        } else if let queue {
            queue.async(execute: step)
        } else {
            step()
        }
    }

    /// - Returns: the steps for the caller to run; none if this thread carries out other actions around these.
    static func steps(after body: () -> Void) -> [Step] {
        if present != nil {
            body()
            return []
        }
        let list = Afterwards()
        begin(list)
        body()
        end()
        list.wake()
        return list.steps
    }
}
