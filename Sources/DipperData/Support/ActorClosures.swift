import Foundation

// A closure that is written in a class of the main actor, or in a method of an actor, belongs to that actor and may use
// what the actor protects. Public parameters for closures are marked `@_inheritActorContext @isolated(any)`, so that
// such closures compile as they stand. These functions make of them closures that may be called on any thread: a closure
// that belongs to no actor runs in place, another one on its actor; one of the main actor in the order of the calls, and
// in place on the main thread, which may serve another loop than the main queue's.

package func onItsActor<Value: Sendable>(
    _ body: @escaping @Sendable @isolated(any) (Value) -> Void
) -> @Sendable (Value) -> Void {
    let plain = unsafeBitCast(body, to: (@Sendable (Value) -> Void).self)
    return switch Home(body.isolation) {
    case .none: plain
    case .main: { value in onMain { plain(value) } }
    case .other: { value in Task { await body(value) } }
    }
}

package func onItsActor(_ body: @escaping @Sendable @isolated(any) () -> Void) -> @Sendable () -> Void {
    let plain = unsafeBitCast(body, to: (@Sendable () -> Void).self)
    return switch Home(body.isolation) {
    case .none: plain
    case .main: { onMain(plain) }
    case .other: { Task { await body() } }
    }
}

package func onItsActor<First: Sendable, Second: Sendable>(
    _ body: @escaping @Sendable @isolated(any) (First, Second) -> Void
) -> @Sendable (First, Second) -> Void {
    let plain = unsafeBitCast(body, to: (@Sendable (First, Second) -> Void).self)
    return switch Home(body.isolation) {
    case .none: plain
    case .main: { first, second in onMain { plain(first, second) } }
    case .other: { first, second in Task { await body(first, second) } }
    }
}

private enum Home {
    case none, main, other

    init(_ actor: (any Actor)?) { self = actor == nil ? .none : actor === MainActor.shared ? .main : .other }
}

private func onMain(_ body: @escaping @Sendable () -> Void) {
    if Thread.isMainThread { body() } else { Task { @MainActor in body() } }
}
