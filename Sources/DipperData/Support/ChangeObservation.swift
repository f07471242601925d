/// Ends what it was given for when it is let go of.
public final class ChangeObservation: Sendable {
    private let onEnd: @Sendable () -> Void

    /// - Parameter onEnd: called once, when nobody holds the observation any more.
    public init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit { onEnd() }
}

/// Who is to be called at a change. A value; its owner locks it, and callbacks and frees outside the lock.
package struct Observers {
    package typealias Callback = @Sendable () -> Void

    private var callbacks: [Int: Callback] = [:]
    private var next = 0

    package init() {}

    package var count: Int { callbacks.count }
    package var all: [Callback] { Array(callbacks.values) }

    /// The number to take it out by.
    package mutating func add(_ call: @escaping Callback) -> Int {
        next += 1
        callbacks[next] = call
        return next
    }

    package mutating func remove(_ number: Int) -> Callback? { callbacks.removeValue(forKey: number) }
}
