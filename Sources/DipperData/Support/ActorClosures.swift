// A closure that is written in a class of the main actor, or in a method of an actor, belongs to that actor and may use
// what the actor protects. Public parameters for closures are marked `@_inheritActorContext @isolated(any)`, so that
// such closures compile as they stand. These functions make of them closures that may be called on any thread: a closure
// that belongs to no actor runs in place, another one on its actor; on the main actor in the order of the calls.

package func onItsActor<Value: Sendable>(
    _ body: @escaping @Sendable @isolated(any) (Value) -> Void
) -> @Sendable (Value) -> Void {
    switch body.isolation {
    case nil: unsafeBitCast(body, to: (@Sendable (Value) -> Void).self)
    case let actor where actor === MainActor.shared: { value in Task { @MainActor in await body(value) } }
    default: { value in Task { await body(value) } }
    }
}

package func onItsActor(_ body: @escaping @Sendable @isolated(any) () -> Void) -> @Sendable () -> Void {
    switch body.isolation {
    case nil: unsafeBitCast(body, to: (@Sendable () -> Void).self)
    case let actor where actor === MainActor.shared: { Task { @MainActor in await body() } }
    default: { Task { await body() } }
    }
}

package func onItsActor<First: Sendable, Second: Sendable>(
    _ body: @escaping @Sendable @isolated(any) (First, Second) -> Void
) -> @Sendable (First, Second) -> Void {
    switch body.isolation {
    case nil: unsafeBitCast(body, to: (@Sendable (First, Second) -> Void).self)
    case let actor where actor === MainActor.shared:
        { first, second in Task { @MainActor in await body(first, second) } }
    default: { first, second in Task { await body(first, second) } }
    }
}
