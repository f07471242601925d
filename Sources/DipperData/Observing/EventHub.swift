import Synchronization

/// The one way by which the work of a cache is told: it counts for ``CacheStatistics`` and the metrics, and passes
/// events to the sinks. An event that no sink wants costs the reading of one number, and is not built.
package final class EventHub: Sendable {
    private struct Listener {
        let number: Int
        let topics: CacheEvent.Topics
        let sink: any EventSink
    }

    private struct Listeners {
        var all: [Listener] = []
        var last = 0
        var isOver = false
    }

    let statistics = StatisticsCounters()
    let metrics: CacheMetrics
    /// The number of events built so far, for tests.
    let built = StepCounter()
    private let time: TimeSource
    private let start: Duration
    /// The topics that at least one sink wants.
    private let wanted = Atomic<UInt16>(0)
    private let listeners = Mutex(Listeners())

    /// - Parameters:
    ///   - name: the cache's name, a dimension of each metric.
    ///   - sinks: the sinks that receive events from the beginning.
    init(name: String, time: TimeSource, sinks: [any EventSink] = []) {
        metrics = CacheMetrics(cache: name)
        self.time = time
        start = time.now()
        for sink in sinks { add(sink) }
    }

    // MARK: Sinks

    /// Adds a sink.
    /// - Returns: the number by which it can be removed; `nil`, and the sink is told the end, if no event follows.
    @discardableResult
    func add(_ sink: any EventSink) -> Int? {
        let topics = sink.topics
        guard !topics.isEmpty else { return nil }
        let number = listeners.withLock { listeners -> Int? in
            if listeners.isOver { return nil }
            listeners.last += 1
            listeners.all.append(Listener(number: listeners.last, topics: topics, sink: sink))
            updateWanted(listeners)
            return listeners.last
        }
        if number == nil { sink.end() }
        return number
    }

    func remove(_ number: Int) {
        let removed = listeners.withLock { listeners -> Listener? in
            guard let index = listeners.all.firstIndex(where: { $0.number == number }) else { return nil }
            let removed = listeners.all.remove(at: index)
            updateWanted(listeners)
            return removed
        }
        withExtendedLifetime(removed) {}
    }

    /// Tells all sinks that no event follows.
    func end() {
        let ended = listeners.withLock { listeners -> [Listener] in
            listeners.isOver = true
            let ended = listeners.all
            listeners.all = []
            updateWanted(listeners)
            return ended
        }
        for listener in ended { listener.sink.end() }
    }

    /// Runs under the lock, so that the number that is stored last is that of the sinks there are.
    private func updateWanted(_ listeners: Listeners) {
        let topics = listeners.all.reduce(into: CacheEvent.Topics()) { $0.formUnion($1.topics) }
        wanted.store(topics.rawValue, ordering: .releasing)
    }

    // MARK: Events

    /// Returns whether a sink wants at least one of these topics.
    @inline(__always)
    package func wants(_ topics: CacheEvent.Topics) -> Bool {
        wanted.load(ordering: .relaxed) & topics.rawValue != 0
    }

    /// Tells an event, if a sink wants one of its topics.
    @inline(__always)
    func tell(
        _ topics: CacheEvent.Topics, _ key: @autoclosure () -> CacheKey, _ id: @autoclosure () -> CacheEvent.ID?,
        of parent: @autoclosure () -> CacheEvent.ID? = nil, _ kind: @autoclosure () -> CacheEvent.Kind
    ) {
        if wants(topics) { send(key(), id(), parent(), kind()) }
    }

    private func send(_ key: CacheKey, _ id: CacheEvent.ID?, _ parent: CacheEvent.ID?, _ kind: CacheEvent.Kind) {
        built.add(1)
        let topics = kind.topics
        let event = CacheEvent(time: time.now() - start, key: key, id: id, parent: parent, kind: kind)
        // mutant Event: `where !listener.topics.isDisjoint(with: topics)` => `where !listener.topics.isEmpty`
        for listener in listeners.withLock({ $0.all }) where !listener.topics.isDisjoint(with: topics) {
            listener.sink.receive(event)
        }
    }
}
