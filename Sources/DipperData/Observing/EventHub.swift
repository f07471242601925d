import Synchronization

/// Counts the events of a cache for ``CacheStatistics`` and the metrics, and passes them to the sinks. An event that no
/// sink wants costs the reading of one number, and is not built.
package final class EventHub: Sendable {
    private struct Listener {
        let topics: CacheEvent.Topics
        let sink: any EventSink
        let tracer: (any CallTracer)?

        init(_ topics: CacheEvent.Topics, _ sink: any EventSink) {
            (tracer, self.sink) = (sink as? any CallTracer, sink)
            self.topics = tracer == nil ? topics.subtracting(.traces) : topics.union(.traces)
        }
    }

    let counts: CacheCounts
    private let time: TimeSource
    private let start: Duration
    private let wanted = Atomic<UInt16>(0)
    private let listeners = Observers<Listener>()
    private let isOver = Atomic(false)

    init(name: String, time: TimeSource, sinks: [any EventSink] = []) {
        counts = CacheCounts(cache: name)
        self.time = time
        start = time.now()
        for sink in sinks { add(sink) }
    }

    var now: Duration { time.now() - start }

    /// - Returns: the number by which the sink is removed; `nil` if it wants no event.
    @discardableResult
    func add(_ sink: any EventSink) -> Int? {
        let topics = sink.topics
        guard !topics.isEmpty else { return nil }
        let number = listeners.add(Listener(topics, sink))
        updateWanted()
        if isOver.load(ordering: .acquiring) { end() }
        return number
    }

    func remove(_ number: Int) {
        listeners.remove(number)
        updateWanted()
    }

    /// No event follows. A sink that is added later is told the end at once.
    func end() {
        isOver.store(true, ordering: .releasing)
        let ended = listeners.removeAll()
        updateWanted()
        for listener in ended { listener.sink.end() }
    }

    /// Two threads may change the sinks at once, the older one last, so the sinks are read again.
    private func updateWanted() {
        var stored: CacheEvent.Topics?
        while case let topics = listeners.all.reduce(into: CacheEvent.Topics(), { $0.formUnion($1.topics) }),
            topics != stored
        {
            wanted.store(topics.rawValue, ordering: .releasing)
            stored = topics
        }
    }

    @inline(__always)
    package func wants(_ topics: CacheEvent.Topics) -> Bool {
        wanted.load(ordering: .relaxed) & topics.rawValue != 0
    }

    @inline(__always)
    func tell(
        _ topics: CacheEvent.Topics, _ key: @autoclosure () -> CacheKey, _ id: @autoclosure () -> CacheEvent.ID?,
        of parent: @autoclosure () -> CacheEvent.ID? = nil, _ kind: @autoclosure () -> CacheEvent.Kind
    ) {
        if wants(topics) { send(key(), id(), parent(), kind()) }
    }

    private func send(_ key: CacheKey, _ id: CacheEvent.ID?, _ parent: CacheEvent.ID?, _ kind: CacheEvent.Kind) {
        let topics = kind.topics
        let event = CacheEvent(time: time.now() - start, key: key, id: id, parent: parent, kind: kind)
        // mutant Event: `where !listener.topics.isDisjoint(with: topics)` => `where !listener.topics.isEmpty`
        for listener in listeners.all where !listener.topics.isDisjoint(with: topics) {
            listener.sink.receive(event)
        }
    }

    // MARK: Traces

    /// Tells the sinks that follow calls through their work.
    @inline(__always)
    func trace(_ tell: (any CallTracer) -> Void) {
        guard wants(.traces) else { return }
        for case let tracer? in listeners.all.lazy.map(\.tracer) { tell(tracer) }
    }

    /// Tells the begin or the end of a call for an object.
    func trace(
        _ key: @autoclosure () -> CacheKey, _ id: @autoclosure () -> CacheEvent.ID,
        _ kind: @autoclosure () -> CacheEvent.Kind
    ) {
        trace { $0.receive(CacheEvent(time: now, key: key(), id: id(), kind: kind())) }
    }

    // MARK: Objects and tiers

    package func decode<Object>(
        _ key: CacheKey, of call: CacheEvent.ID?, _ body: () throws(DipperError) -> Object
    ) throws(DipperError) -> Object {
        let end = begin(key, of: call, .decodeBegan) { .decodeEnded($0) }
        do throws(DipperError) {
            let product = try body()
            end?(nil)
            return product
        } catch {
            end?(error)
            throw error
        }
    }

    package func beginStep(
        _ key: CacheKey, _ name: @autoclosure () -> String, of call: CacheEvent.ID?
    ) -> (@Sendable (DipperError?) -> Void)? {
        begin(key, of: call, .stepBegan(Redaction.standard.text(name()))) { .stepEnded($0) }
    }

    private func begin(
        _ key: CacheKey, of call: CacheEvent.ID?, _ begin: @autoclosure () -> CacheEvent.Kind,
        end: @escaping @Sendable (DipperError?) -> CacheEvent.Kind
    ) -> (@Sendable (DipperError?) -> Void)? {
        guard wants([.objects, .failures]) else { return nil }
        let id = CacheEvent.ID.next()
        tell(.objects, key, id, of: call, begin())
        return { [self] error in
            tell(error == nil ? .objects : [.objects, .failures], key, id, of: call, end(error))
        }
    }

    /// - Parameter work: the fetch that the entry comes from; `nil` if the program has added it.
    /// - Returns: the closure that tells the end; `nil` if nobody wants to hear of it.
    func beginWrite(_ key: CacheKey, _ bytes: Int, of work: CacheEvent.ID?) -> (@Sendable (Bool) -> Void)? {
        guard wants(.writes) else { return nil }
        let id = CacheEvent.ID.next()
        tell(.writes, key, id, of: work, .writeBegan(bytes: bytes))
        return { [self] in tell(.writes, key, id, of: work, .writeEnded(isOnDisk: $0)) }
    }

    func cleaned(_ cleaning: CacheEvent.Cleaning) {
        let isPressed = cleaning.reason == .memoryPressure
        tell(isPressed ? [.removals, .conditions] : .removals, CacheKey(""), nil, .cleaned(cleaning))
    }

    func pressed(_ level: MemoryPressure) {
        counts.pressed(level)
        tell(.conditions, CacheKey(""), nil, .memoryPressure(level))
    }

    func networkChanged() { tell(.conditions, CacheKey(""), nil, .networkChanged) }

    /// Tells the begin and the end of a call that is answered without a call for bytes.
    func call(
        _ key: CacheKey, _ queue: FetchQueue, _ result: Result<ResponseSource, DipperError>,
        _ known: @autoclosure () -> CacheEvent.ID? = nil
    ) {
        let id = wants(.calls) ? known() ?? CacheEvent.ID.next() : nil
        tell(.calls, key, id, .callBegan(queue))
        callEnded(key, id, result)
    }

    @inline(__always)
    func callEnded(
        _ key: @autoclosure () -> CacheKey, _ id: @autoclosure () -> CacheEvent.ID?,
        _ result: Result<ResponseSource, DipperError>
    ) {
        switch result {
        case .success(let source):
            counts.answered(source)
            tell(.calls, key(), id(), .callAnswered(source))
        case .failure(let error):
            counts.failed(error)
            tell(.calls, key(), id(), .callFailed(error))
        }
    }
}

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
