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

/// A sink that follows each call through all work for it, as the spans of a trace do. It alone hears
/// ``CacheEvent/Kind/callBegan(_:)`` and the end of a call for an object; others hear of the call for its bytes.
package protocol CallTracer: EventSink {
    /// Takes notice that work waits for other work, which it has caused if it is the first to wait.
    func joined(_ work: CacheEvent.ID, by waiting: CacheEvent.ID)
    /// Takes notice that work that has no events of its own has ended.
    func ended(_ work: CacheEvent.ID)
    /// May add header fields to a request that an attempt is about to send.
    func sends(_ request: inout TransferRequest, in attempt: CacheEvent.ID)
}

extension EventSink {
    public var topics: CacheEvent.Topics { .all }
    public func end() {}
}
