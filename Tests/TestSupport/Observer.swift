package import DipperData

/// A sink of a cache's events that calls a closure.
package struct Observer: EventSink {
    package let topics: CacheEvent.Topics
    private let hear: @Sendable (CacheEvent) -> Void

    package init(_ topics: CacheEvent.Topics = .all, _ hear: @escaping @Sendable (CacheEvent) -> Void) {
        self.topics = topics
        self.hear = hear
    }

    package func receive(_ event: CacheEvent) { hear(event) }
}

extension DataCache.Configuration {
    /// Adds a closure that receives all events.
    package mutating func observe(_ hear: @escaping @Sendable (CacheEvent) -> Void) {
        eventSinks.append(Observer(.all, hear))
    }
}
