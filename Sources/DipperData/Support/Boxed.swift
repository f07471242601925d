/// A value in memory of its own, so that its owner is small while it lacks the value.
struct Boxed<Value: Sendable>: Sendable {
    // Changed by its only owner.
    private final class Storage: @unchecked Sendable {
        var value: Value

        init(_ value: Value) { self.value = value }
    }

    private var storage: Storage

    init(_ value: Value) { storage = Storage(value) }

    /// Copies are identical until one of them is changed.
    static func === (a: Self, b: Self) -> Bool { a.storage === b.storage }

    var value: Value {
        @inline(__always) _read { yield storage.value }
        @inline(__always) _modify {
            if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.value) }
            yield &storage.value
        }
    }
}

/// Puts a new value in the place of an old one and returns the old one.
package func exchange<Value>(_ place: inout Value, with value: Value) -> Value {
    let old = place
    place = value
    return old
}
