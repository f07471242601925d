import Dispatch

/// A thread of Dispatch that is not one of Swift's tasks. It runs closures one after the other.
///
/// Work that blocks would hold up the program's tasks, and a program that keeps all of Swift's threads busy would hold
/// up the cache. Dispatch's global queues share their threads with Swift's tasks; a serial queue does not.
///
/// An owner with recurring work keeps one instance, because Dispatch starts a thread for each queue that is busy.
package struct SeparateThread: Sendable {
    let queue = DispatchQueue(label: "dipper")

    package init() {}

    package func run(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }
}
