import Foundation
import Synchronization

/// An observation of changes, which ends when nobody holds it any more.
public final class ChangeObservation: Sendable {
    private let onEnd: @Sendable () -> Void

    /// Creates an observation.
    /// - Parameter onEnd: called once, at the end.
    public init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit { onEnd() }
}

/// The closures to call at a change. Its owner locks it, and calls and frees the closures outside the lock.
package struct Observers: Sendable {
    package typealias Callback = @Sendable () -> Void

    private var callbacks: [Int: Callback] = [:]
    private var next = 0

    package init() {}

    package var count: Int { callbacks.count }
    package var all: [Callback] { Array(callbacks.values) }

    package mutating func add(_ call: @escaping Callback) -> Int {
        next += 1
        callbacks[next] = call
        return next
    }

    package mutating func remove(_ number: Int) -> Callback? { callbacks.removeValue(forKey: number) }
}

// A closure written in a class of the main actor, or in a method of an actor, may use what the actor protects. Public
// parameters for closures are marked `@_inheritActorContext @isolated(any)`, so that such closures compile. Here they
// become closures for any thread: one of no actor runs in place, another on its actor; one of the main actor in the
// order of the calls, and in place on the main thread, which may serve another loop than the main queue's.

package func onItsActor<Value: Sendable>(
    _ body: @escaping @Sendable @isolated(any) (Value) -> Void
) -> @Sendable (Value) -> Void {
    let plain = unsafeBitCast(body, to: (@Sendable (Value) -> Void).self)
    guard let home = body.isolation else { return plain }
    return { value in run(on: home, { plain(value) }, from: { await body(value) }) }
}

package func onItsActor(_ body: @escaping @Sendable @isolated(any) () -> Void) -> @Sendable () -> Void {
    let plain = unsafeBitCast(body, to: (@Sendable () -> Void).self)
    guard let home = body.isolation else { return plain }
    return { run(on: home, plain, from: { await body() }) }
}

package func onItsActor<First: Sendable, Second: Sendable>(
    _ body: @escaping @Sendable @isolated(any) (First, Second) -> Void
) -> @Sendable (First, Second) -> Void {
    let plain = unsafeBitCast(body, to: (@Sendable (First, Second) -> Void).self)
    guard let home = body.isolation else { return plain }
    return { first, second in run(on: home, { plain(first, second) }, from: { await body(first, second) }) }
}

private func run(
    on actor: any Actor, _ plain: @escaping @Sendable () -> Void, from elsewhere: @escaping @Sendable () async -> Void
) {
    guard actor === MainActor.shared else {
        Task { await elsewhere() }
        return
    }
    if Thread.isMainThread { plain() } else { Task { @MainActor in plain() } }
}

/// Tells another thread that a task has been cancelled.
package final class Cancellation: Sendable {
    private let flag = Atomic(false)

    package init() {}

    package var isSet: Bool { flag.load(ordering: .relaxed) }
    package func set() { flag.store(true, ordering: .relaxed) }
}
