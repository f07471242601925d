import Dispatch

/// A thread of Dispatch that is not one of Swift's tasks. It runs closures one after the other.
///
/// Work that blocks would hold up the program's tasks, and a program that keeps all of Swift's threads busy would hold
/// up the cache. Dispatch's global queues share their threads with Swift's tasks; a serial queue does not.
///
/// An owner with recurring work keeps one instance, because Dispatch starts a thread for each queue that is busy.
package struct SeparateThread: Sendable {
    let queue = DispatchQueue(label: "dipper")
    /// Runs the code of the program's own that follows from the work, so that it holds up neither the next work nor
    /// timers.
    private let hooks = DispatchQueue(label: "dipper.hooks")

    package init() {}

    package func run(_ work: @escaping @Sendable () -> Void) { queue.async { carryOut(work) } }

    /// Returns when the closures so far, and the code of the program's own that follows from them, have run.
    func finish() async {
        await withCheckedContinuation { continuation in
            queue.async { [hooks] in hooks.async { continuation.resume() } }
        }
    }

    /// Does work of this thread, on the calling thread.
    func carryOut(_ work: () -> Void) {
        let steps = Afterwards.collect(work)
        if !steps.isEmpty { hooks.async { for step in steps { step() } } }
    }
}
