/// Ends what it was given for when it is let go of.
public final class ChangeObservation: Sendable {
    private let onEnd: @Sendable () -> Void

    /// - Parameter onEnd: called once, when nobody holds the observation any more.
    public init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit { onEnd() }
}

/// Who is to be called at a change. A value; its owner locks it, and calls and frees outside the lock.
package struct Observers {
    package typealias Call = @Sendable () -> Void

    private var calls: [Int: Call] = [:]
    private var next = 0

    package init() {}

    package var count: Int { calls.count }
    package var all: [Call] { Array(calls.values) }

    /// The number to take it out by.
    package mutating func add(_ call: @escaping Call) -> Int {
        next += 1
        calls[next] = call
        return next
    }

    package mutating func remove(_ number: Int) -> Call? { calls.removeValue(forKey: number) }
}
