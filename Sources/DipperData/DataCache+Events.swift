extension DataCache {
    /// The events of the cache from now on, until it has shut down: the begin and end of calls, look-ups, attempts,
    /// decodes and writes, and what happens between.
    ///
    /// ```swift
    /// for await event in cache.events { print(event) }
    /// ```
    ///
    /// There may be any number of listeners. Each time the property is read, it begins to collect events for one more
    /// listener, up to 1,024 of them. A listener that is slower loses the oldest events, and receives
    /// ``CacheEvent/Kind/missed(_:)`` in their place. While nobody listens, no event is built.
    public var events: CacheEvents { events() }

    /// Returns the events of some topics from now on, until the cache has shut down; see ``events``.
    ///
    /// ```swift
    /// for await event in cache.events(about: [.attempts, .conditions], limit: 100) { print(event) }
    /// ```
    /// - Parameters:
    ///   - topics: the topics of the events.
    ///   - limit: the largest number of events that wait for the listener, at least one.
    public func events(about topics: CacheEvent.Topics = .all, limit: Int = 1_024) -> CacheEvents {
        CacheEvents(engine.events, topics, limit: limit)
    }
}
