import Synchronization

/// The events of a cache since the sequence was made, until the cache has shut down; see ``DataCache/events``.
///
/// Each sequence keeps the newest events until its listener takes them. A listener that is too slow misses the oldest,
/// and receives ``CacheEvent/Kind/missed(_:)`` with their number in their place. The cache stops building events when
/// the sequence is released.
public struct CacheEvents: AsyncSequence, Sendable {
    public typealias Element = CacheEvent

    private struct Mailbox: EventSink {
        let topics: CacheEvent.Topics
        let missed: Missed
        let continuation: AsyncStream<CacheEvent>.Continuation

        func receive(_ event: CacheEvent) {
            if case .dropped = continuation.yield(event) { missed.count.add(1, ordering: .relaxed) }
        }

        func end() { continuation.finish() }
    }

    fileprivate final class Missed: Sendable {
        let count = Atomic<Int>(0)
    }

    private let stream: AsyncStream<CacheEvent>
    private let missed = Missed()

    init(_ hub: EventHub, _ topics: CacheEvent.Topics, limit: Int) {
        let (stream, continuation) = AsyncStream.makeStream(
            of: CacheEvent.self, bufferingPolicy: .bufferingNewest(Swift.max(1, limit)))
        self.stream = stream
        let number = hub.add(Mailbox(topics: topics, missed: missed, continuation: continuation))
        continuation.onTermination = { _ in
            if let number { hub.remove(number) }
        }
    }

    public func makeAsyncIterator() -> Iterator { Iterator(base: stream.makeAsyncIterator(), missed: missed) }

    /// The position of a listener in the events.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var base: AsyncStream<CacheEvent>.Iterator
        fileprivate let missed: Missed
        fileprivate var later: CacheEvent?

        /// Waits for the next event; returns `nil` when the cache has shut down or the Swift task is cancelled.
        public mutating func next() async -> CacheEvent? {
            if let event = later {
                later = nil
                return event
            }
            guard let event = await base.next() else { return nil }
            let count = missed.count.exchange(0, ordering: .relaxed)
            // mutant Event: `guard count > 0 else` => `guard count > 1_000 else`
            guard count > 0 else { return event }
            later = event
            return CacheEvent(time: event.time, key: CacheKey(""), kind: .missed(count))
        }
    }
}
