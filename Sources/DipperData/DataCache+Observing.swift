import Foundation

/// The events of a cache, its fetches at one moment, and the conditions that are simulated for it.
extension DataCache {
    /// The events of the cache from now on, until it has shut down: the begin and end of calls, look-ups, attempts,
    /// decodes and writes, and the steps between.
    ///
    /// Each time the property is read, it begins to collect events for one more listener, up to 1,024 of them; see
    /// ``CacheEvents``. While nobody listens, no event is built.
    public var events: CacheEvents { events() }

    /// Returns the events of some topics from now on, until the cache has shut down; see ``events``. At most `limit` of
    /// them, at least one, wait for the listener.
    public func events(about topics: CacheEvent.Topics = .all, limit: Int = 1_024) -> CacheEvents {
        CacheEvents(engine.events, topics, limit: limit)
    }

    /// Passes the events of the cache to a sink until the observation is released; see
    /// ``Configuration/eventSinks`` for sinks that receive the events from the beginning.
    ///
    /// ```swift
    /// let timeline = Timeline()
    /// let observation = cache.observe(timeline)
    /// ```
    public func observe(_ sink: any EventSink) -> ChangeObservation {
        let number = engine.events.add(sink)
        return ChangeObservation { [events = engine.events] in
            if let number { events.remove(number) }
        }
    }

    /// Returns the fetches at this moment, each with the reason for which it waits.
    ///
    /// Of running, waiting and parked fetches the snapshot has at most `limit` each, of both queues.
    ///
    /// ```swift
    /// for fetch in cache.queueSnapshot().fetches {
    ///     print(fetch)        // http://example.org/b.jpg in slowQueue: waits for 3 urgent fetches
    /// }
    /// ```
    public func queueSnapshot(limit: Int = 200) -> QueueSnapshot {
        engine.ask { $0.snapshot(limit: limit) } ?? QueueSnapshot()
    }

    /// The conditions of the network, as ``Configuration/networkMonitor`` tells them, or simulated ones.
    package var networkConditions: NetworkConditions { engine.network.conditions }

    package var inFlightLimit: Int { configuration.inFlightLimit }

    package var redaction: Redaction { configuration.redaction }

    package var present: Date { store.now() }

    // MARK: Simulated conditions

    /// The state of the network that the cache takes for the real one, to see how a program copes with it; `nil`, the
    /// default, for none.
    ///
    /// Transfers go on while bytes still arrive. Another monitor for the whole life of a cache is set in
    /// ``Configuration/networkMonitor``.
    ///
    /// ```swift
    /// cache.simulatedNetwork = .offline       // fetches wait for the network
    /// cache.simulatedNetwork = nil            // they go on
    /// ```
    public var simulatedNetwork: SimulatedNetwork? {
        get { simulatingMonitor.simulation }
        set { simulatingMonitor.simulation = newValue }
    }

    /// The memory pressure that the cache takes for the real one, to see how a program copes with it; `nil`, the
    /// default, for none. Pictures and values that other caches of the process hold stay.
    public var simulatedMemoryPressure: MemoryPressure? {
        get { pressure.simulation }
        set { pressure.simulation = newValue }
    }
}
