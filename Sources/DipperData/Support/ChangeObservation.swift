/// An observation of changes, which ends when nobody holds it any more.
///
/// ```swift
/// let monitor = NetlinkMonitor.shared
/// // Keep the observation while you want the closure to be called.
/// let observation = monitor.observe { print(monitor.canReach("example.org") ? "online" : "offline") }
/// ```
public final class ChangeObservation: Sendable {
    private let onEnd: @Sendable () -> Void

    /// Creates an observation.
    /// - Parameter onEnd: called once, when nobody holds the observation any more.
    public init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit { onEnd() }
}

/// The closures to call at a change. A value: its owner locks it, and calls and frees the closures outside the lock.
package struct Observers {
    package typealias Callback = @Sendable () -> Void

    private var callbacks: [Int: Callback] = [:]
    private var next = 0

    package init() {}

    package var count: Int { callbacks.count }
    package var all: [Callback] { Array(callbacks.values) }

    /// Adds a closure, and returns the number by which it is removed.
    package mutating func add(_ call: @escaping Callback) -> Int {
        next += 1
        callbacks[next] = call
        return next
    }

    package mutating func remove(_ number: Int) -> Callback? { callbacks.removeValue(forKey: number) }
}
