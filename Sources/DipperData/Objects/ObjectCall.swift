import Synchronization

/// One call for an object, as its task sees it: where the cache has it, and what it was when it ended.
package final class ObjectCall<Maker: ObjectMaker>: Sendable {
    private struct State: Sendable {
        /// The cache, which is let go of at the end, so that a task that is kept keeps no cache alive.
        var cache: ObjectCache<Maker>?
        var id: ObjectRequestID?
        var queue: FetchQueue
        var priority: Priority
        /// The network attempts of the fetch, once it has ended.
        var attempts = 0
        var isOver = false
    }

    private let state: Mutex<State>

    package init(_ queue: FetchQueue, _ priority: Priority) {
        state = Mutex(State(queue: queue, priority: priority))
    }

    /// Adds the request to a cache, unless the call has ended.
    /// - Parameter ask: adds the request, and returns its number.
    package func begin(_ cache: ObjectCache<Maker>, _ ask: (ObjectWant) -> ObjectRequestID) {
        let (want, isOver) = state.withLock { (ObjectWant($0.queue, $0.priority), $0.isOver) }
        guard !isOver else { return }
        let id = ask(want)
        // The call may have ended, or been moved, before it had its number.
        let now: ObjectWant? = state.withLock { state in
            guard !state.isOver else { return nil }
            state.cache = cache
            state.id = id
            return ObjectWant(state.queue, state.priority)
        }
        guard let now else { return cache.cancel(id) }
        if now != want { cache.change(id, to: now) }
    }

    private var place: (cache: ObjectCache<Maker>, id: ObjectRequestID)? {
        state.withLock { state in
            guard let cache = state.cache, let id = state.id else { return nil }
            return (cache, id)
        }
    }

    /// Cancels the request.
    /// - Returns: `false` if the cache does not have it.
    package func cancel() -> Bool {
        guard let (cache, id) = place else { return false }
        cache.cancel(id)
        return true
    }

    package func listen(to interest: FetchInterest) {
        if let (cache, id) = place { cache.listen(id, to: interest) }
    }

    /// The queue the call is in now, or was in when it ended.
    package var queue: FetchQueue {
        let last = state.withLock { $0.queue }
        return place.flatMap { $0.cache.queue(of: $0.id) } ?? last
    }

    package var priority: Priority {
        get { state.withLock { $0.priority } }
        set { change { $0.priority = newValue } }
    }

    package func moveToSlowQueue() { change { $0.queue = .slow } }

    private func change(_ body: (inout State) -> Void) {
        let (place, want) = state.withLock { state -> ((ObjectCache<Maker>, ObjectRequestID)?, ObjectWant) in
            guard !state.isOver else { return (nil, ObjectWant(state.queue, state.priority)) }
            body(&state)
            let want = ObjectWant(state.queue, state.priority)
            guard let cache = state.cache, let id = state.id else { return (nil, want) }
            return ((cache, id), want)
        }
        if let (cache, id) = place { cache.change(id, to: want) }
    }

    /// The network attempts made so far for the bytes.
    package var attempts: Int {
        let last = state.withLock { $0.attempts }
        if let (cache, id) = place, case .fetching(let bytes)? = cache.stage(of: id) { return bytes.attempts }
        return last
    }

    /// The stage of the request; `nil` before it has begun and once it has ended.
    package var stage: ObjectCache<Maker>.Stage? { place.flatMap { $0.cache.stage(of: $0.id) } }

    /// Whether the cache has, or has had, the request.
    package var hasBegun: Bool { state.withLock { $0.isOver || $0.id != nil } }

    /// Takes what news says of the call itself.
    package func note(_ news: FetchNews) {
        state.withLock { state in
            switch news {
            case .ended(let attempts): state.attempts = attempts
            case .moved(let queue): state.queue = queue
            case .failure, .retry, .progress: break
            }
        }
    }

    /// Ends the call.
    /// - Parameter attempts: the attempts of the answer; `nil` to keep those that are known.
    package func end(attempts: Int? = nil) {
        let cache = state.withLock { state in
            if let attempts { state.attempts = attempts }
            state.isOver = true
            state.id = nil
            return exchange(&state.cache, with: nil)
        }
        withExtendedLifetime(cache) {}
    }
}
