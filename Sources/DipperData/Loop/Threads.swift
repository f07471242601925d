import Dispatch
import Foundation
import Synchronization

// Each lock is taken alone, except that a thread that holds DiskTier.staged may take the condition of Workers.
// TaskFeed.log and AnimatedImage.player are held while an `AsyncStream` takes an element, AnimatedImage.player also
// while frames are freed, and the writer of an EntryIndex during a transaction.

/// A thread for work that blocks. It ends when its body returns, and callers can wait for that.
package final class JoinableThread: Sendable {
    private let handle: pthread_t
    private let isJoined = Atomic(false)

    /// - Parameter name: shown by `top -H` and debuggers; at most 15 bytes count.
    package init(name: String, _ run: @escaping @Sendable () -> Void) {
        var handle = pthread_t()
        let code = Self.start(&handle, name, run)
        precondition(code == 0, "the system gives no thread: error \(code)")
        self.handle = handle
    }

    /// Starts a thread that nobody waits for, for work that may never end.
    /// - Returns: `false` if the system gives no thread; the body then does not run.
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

    /// - Returns: the error of `pthread_create`; zero if the thread has started.
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
            DispatchQueue(label: "dipper.join").async {
                pthread_join(handle, nil)
                continuation.resume()
            }
        }
    }
}

/// A thread of Dispatch that is not one of Swift's tasks. It runs closures one after the other.
///
/// Work that blocks would hold up the program's tasks, and a program that keeps all of Swift's threads busy would hold
/// up the cache. Dispatch's global queues share their threads with Swift's tasks; a serial queue does not.
///
/// An owner with recurring work keeps one instance, because Dispatch starts a thread for each queue that is busy.
package struct SeparateThread: Sendable {
    package let queue = DispatchQueue(label: "dipper")
    /// The program's own code that follows from the work holds up neither the next work nor timers here.
    private let hooks = DispatchQueue(label: "dipper.hooks")

    package init() {}

    package func run(_ work: @escaping @Sendable () -> Void) { queue.async { carryOut(work) } }

    /// Returns when the closures so far, and the program's own code that follows from them, have run.
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

/// Work that is done once, however many callers wait for its end.
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

/// Code of the program's own, such as hooks, that a thread runs once it has stopped carrying out actions. Such code may
/// be slow, and may wait for the thread's next actions.
///
/// A thread may carry out actions of several engines, one inside the other. It runs the code after all of them.
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

    /// The list of each thread; `nil` on a thread that carries out no actions.
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

    /// Wakes others when this thread has stopped carrying out actions; at once if it carries out none.
    /// - Parameter queue: `nil` for a step that returns at once.
    static func wake(on queue: DispatchQueue? = nil, _ step: @escaping Step) {
        if let present {
            present.wakes.append((queue, step))
        } else if let queue {
            queue.async(execute: step)
        } else {
            step()
        }
    }

    /// - Returns: the steps that the caller runs next; none if this thread carries out other actions around these,
    ///   whose end they wait for.
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
