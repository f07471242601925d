import Foundation
import Synchronization

/// An observation of changes, which ends when nobody holds it any more.
public final class ChangeObservation: Sendable {
    private let onEnd: @Sendable () -> Void
    private let isOver = Atomic(false)

    /// Creates an observation.
    /// - Parameter onEnd: called once, at the end.
    public init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit { end() }

    func end() {
        if !isOver.exchange(true, ordering: .acquiringAndReleasing) { onEnd() }
    }
}

/// A list of those to tell of something, such as closures, that any thread adds to and removes from. They are told, and
/// freed, outside its lock.
package final class Observers<Observer: Sendable>: Sendable {
    private struct State {
        /// The numbers of the observers, and the observers.
        var numbers: [Int] = []
        var observers: [Observer] = []
        var last = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// In the order in which they were added.
    package var all: [Observer] { state.withLock { $0.observers } }

    /// - Returns: the number by which the observer is removed.
    @discardableResult
    package func add(_ observer: Observer) -> Int {
        state.withLock { state in
            state.last += 1
            state.numbers.append(state.last)
            state.observers.append(observer)
            return state.last
        }
    }

    package func remove(_ number: Int) {
        let removed = state.withLock { state -> Observer? in
            guard let index = state.numbers.firstIndex(of: number) else { return nil }
            state.numbers.remove(at: index)
            return state.observers.remove(at: index)
        }
        withExtendedLifetime(removed) {}
    }

    package func removeAll() -> [Observer] {
        state.withLock { state in
            state.numbers = []
            return exchange(&state.observers, with: [])
        }
    }

    package func observe(
        _ observer: Observer, onEnd: @escaping @Sendable () -> Void = {}
    ) -> ChangeObservation {
        let number = add(observer)
        return ChangeObservation { [weak self] in
            self?.remove(number)
            onEnd()
        }
    }
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
