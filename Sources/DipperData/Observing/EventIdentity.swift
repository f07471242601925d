import Synchronization

/// The identifier of a long-lived piece of work, such as a call, made when an event names the work first.
struct EventIdentity: ~Copyable, Sendable {
    private let number = Atomic<UInt64>(0)

    var id: CacheEvent.ID {
        let present = number.load(ordering: .relaxed)
        if present != 0 { return CacheEvent.ID(present) }
        let new = CacheEvent.ID.next()
        let (isNew, first) = number.compareExchange(expected: 0, desired: new.number, ordering: .relaxed)
        return isNew ? new : CacheEvent.ID(first)
    }
}

/// A piece of work of one kind that a job does now and then, such as an attempt. Each begin has one end.
struct EventSpan: ~Copyable, Sendable {
    /// The number of the work under way; zero if there is none.
    private let number = Atomic<UInt64>(0)

    /// The identifier of the work under way.
    var id: CacheEvent.ID? {
        let present = number.load(ordering: .relaxed)
        return present == 0 ? nil : CacheEvent.ID(present)
    }

    /// Begins.
    /// - Returns: the new identifier; `nil` if the work is under way already.
    func begin() -> CacheEvent.ID? {
        let new = CacheEvent.ID.next()
        let (isNew, _) = number.compareExchange(expected: 0, desired: new.number, ordering: .relaxed)
        return isNew ? new : nil
    }

    /// Ends.
    /// - Returns: the identifier; `nil` if the begin was not told, or if the end has been told already.
    func end() -> CacheEvent.ID? {
        guard number.load(ordering: .relaxed) != 0 else { return nil }
        let last = number.exchange(0, ordering: .relaxed)
        return last == 0 ? nil : CacheEvent.ID(last)
    }
}
