import Dispatch

/// Threads of Dispatch that are not those of Swift's tasks.
///
/// Work that blocks would hold up the program's tasks, and a program that keeps all of Swift's threads busy would hold
/// up the cache. Dispatch's global queues share their threads with Swift's tasks; a serial queue does not.
package enum SeparateThread {
    package static func run(_ work: @escaping @Sendable () -> Void) { queue().async(execute: work) }

    static func queue() -> DispatchQueue { DispatchQueue(label: "dipper") }
}
