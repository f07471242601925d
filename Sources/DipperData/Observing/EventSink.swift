/// A receiver of a cache's events: a log, a recorder, a bridge to tracing.
///
/// A sink receives every event of its topics, at once and on the thread that does the work, from many threads at a
/// time. It must return at once, because all caches of the process may wait for that thread. ``DataCache/events`` is for
/// listeners that take their time.
///
/// ```swift
/// struct FailureLog: EventSink {
///     var topics: CacheEvent.Topics { .failures }
///     func receive(_ event: CacheEvent) { print(event) }
/// }
/// var configuration = DataCache.Configuration()
/// configuration.eventSinks = [FailureLog()]
/// ```
public protocol EventSink: Sendable {
    /// The topics of the events that the sink receives; all by default. The cache asks once.
    var topics: CacheEvent.Topics { get }
    /// Takes an event, from any thread. The method must return at once, and must not call the cache.
    func receive(_ event: CacheEvent)
    /// Takes notice that no event follows, because the cache has shut down; does nothing by default.
    func end()
}

extension EventSink {
    public var topics: CacheEvent.Topics { .all }
    public func end() {}
}
