import Foundation
import Synchronization

// Each lock is taken alone, but for these: DiskTier.state is held while those of Workers and of RemovalHistory are taken;
// a shard's of memory, while HeldObjects.state is; TaskFeed.state and AnimationPlayer.player, while an `AsyncStream` takes
// an element, AnimationPlayer.player also while frames are freed; Engine.revalidations while TaskFeed.state is taken.

/// A thread for work that blocks. It continues if it is released.
package final class JoinableThread: Sendable {
    private let handle: pthread_t
    private let isJoined = Atomic(false)

    /// `nil`, with the reason in `errno`, if the system gives no thread.
    /// - Parameter name: for `top -H` and debuggers; at most 15 bytes count.
    package init?(name: String, _ run: @escaping @Sendable () -> Void) {
        let body = Unmanaged.passRetained(
            Body {
                Thread.current.name = name
                run()
            })
        var handle = pthread_t()
        errno = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
                return nil
            }, body.toOpaque())
        guard errno == 0 else {
            body.release()
            return nil
        }
        self.handle = handle
    }

    private final class Body {
        let run: () -> Void

        init(_ run: @escaping () -> Void) { self.run = run }
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

extension DispatchQueue {
    func finish() async {
        await withCheckedContinuation { continuation in
            self.async { continuation.resume() }
        }
    }
}

/// Work that is done once, however many callers wait for it.
package actor OnceTask {
    private var task: Task<Void, Never>?

    package init() {}

    package func run(_ work: @escaping @Sendable () async -> Void) async {
        let task = task ?? Task { await work() }
        self.task = task
        await task.value
    }
}

/// Code of the program, such as hooks, that follows from what the loop does, and runs elsewhere. It may be slow, and may
/// wait for what the loop does next.
@Loop
package final class Afterwards {
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

    private static var present: Afterwards?

    nonisolated init() {}

    static var isUnderWay: Bool { present != nil }

    static func begin(_ list: Afterwards) { present = list }

    static func end() { present = nil }

    private nonisolated static func add(_ body: @Loop (Afterwards) -> Void) -> Bool {
        guard Loop.isCurrent else { return false }
        var isAdded = false
        Loop.run {
            guard let present else { return }
            body(present)
            isAdded = true
        }
        return isAdded
    }

    /// Runs a step after what the loop does now; at once on another thread.
    package nonisolated static func run(_ step: @escaping Step) {
        if !add({ $0.steps.append(step) }) { step() }
    }

    /// Lets another thread go on after the steps so far; with those that are woken if there are none.
    static func letGoOn(_ step: @escaping Step) {
        guard let present else { return step() }
        if present.steps.isEmpty { present.wakes.append((nil, step)) } else { present.steps.append(step) }
    }

    /// Wakes others at the time of ``run(_:)``. Without a queue, the step must return at once.
    nonisolated static func wake(on queue: DispatchQueue? = nil, _ step: @escaping Step) {
        if add({ $0.wakes.append((queue, step)) }) { return }
        if let queue { queue.async(execute: step) } else { step() }
    }
}
