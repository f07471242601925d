import DipperData

/// The history of each fetch, as rows on a time axis: a value made from events and drawn by ``TimelineSVG``.
struct TimelineChart {
    enum Phase: CaseIterable {
        case queued, looking, transferring, paused, parked
    }

    struct Span {
        var phase: Phase
        var queue: FetchQueue
        var start: Duration
        var end: Duration
    }

    enum Moment: Hashable {
        case promoted, demoted
        case answered(ResponseSource)
        case cancelled, failed
        /// The end of the record, for a fetch that has not ended.
        case unfinished
    }

    struct Mark {
        var moment: Moment
        var time: Duration
    }

    /// A fetch; or, without spans, the calls for a key that needed no fetch.
    struct Row {
        let key: CacheKey
        /// The queue in which the row began.
        let queue: FetchQueue
        /// Whether the row is a fetch that has not ended.
        var isOpen = false
        /// Whether the fetch is held back, now or as soon as it is on the network.
        var isPaused = false
        var spans: [Span] = []
        var marks: [Mark] = []
        var failure: String?

        var isFetch: Bool { !spans.isEmpty }
        var start: Duration { spans.first?.start ?? marks.first?.time ?? .zero }
        var end: Duration { spans.last?.end ?? start }

        mutating func enter(_ phase: TimelineChart.Phase, _ queue: FetchQueue, _ time: Duration) {
            // A fetch that waits again has given up its slot, which ends its pause.
            if phase == .queued || phase == .parked { isPaused = false }
            guard let last = spans.last, phase != last.phase || queue != last.queue else { return }
            close(at: time)
            let start = max(time, last.start)
            // A span without length is dropped.
            if start == last.start { spans.removeLast() }
            spans.append(TimelineChart.Span(phase: phase, queue: queue, start: start, end: start))
        }

        mutating func setPaused(_ isPaused: Bool, _ time: Duration) {
            self.isPaused = isPaused
            // A pause of a fetch that is not yet on the network shows when it gets there.
            guard let last = spans.last, last.phase == (isPaused ? .transferring : .paused) else { return }
            enter(isPaused ? .paused : .transferring, last.queue, time)
        }

        /// Merges old spans, but for the first, until no more than a number of them are left.
        /// - Returns: the number of spans that have gone.
        mutating func shorten(to count: Int) -> Int {
            let surplus = spans.count - max(2, count)
            guard surplus > 0 else { return 0 }
            spans[1].end = spans[1 + surplus].end
            spans.removeSubrange(2..<2 + surplus)
            return surplus
        }

        mutating func end(at time: Duration) {
            close(at: time)
            isOpen = false
        }

        fileprivate mutating func close(at time: Duration) {
            spans[spans.count - 1].end = max(time, spans[spans.count - 1].start)
        }
    }

    /// In the order they began.
    private(set) var rows: [Row] = []
    let start: Duration
    let end: Duration

    private(set) var calls = 0
    private(set) var answers: [ResponseSource: Int] = [:]
    private(set) var failed = 0
    private(set) var cancelled = 0
    let dropped: Int

    private var latest: [CacheKey: Int] = [:]
    /// The queue of the latest call for each key.
    private var asked: [CacheKey: FetchQueue] = [:]

    var fetches: Int { rows.count(where: \.isFetch) }
    var duration: Duration { end - start }

    init(_ events: [CacheEvent], dropped: Int = 0) {
        self.dropped = dropped
        // Calls report from threads of their own, so events may be a little out of order.
        start = events.lazy.map(\.time).min() ?? .zero
        end = events.lazy.map(\.time).max() ?? .zero
        for event in events { read(event) }
        for index in rows.indices where rows[index].isOpen {
            rows[index].close(at: end)
            rows[index].marks.append(Mark(moment: .unfinished, time: end))
        }
    }

    private mutating func read(_ event: CacheEvent) {
        let (key, time) = (event.key, event.time)
        let fetch = latest[key].flatMap { rows[$0].isOpen ? $0 : nil }
        switch event.kind {
        case .callBegan(let queue):
            calls += 1
            asked[key] = queue
        case .callAnswered(let source):
            answers[source, default: 0] += 1
            mark(key, .answered(source), time)
        case .callFailed(let error) where error.isCancelled:
            cancelled += 1
            mark(key, .cancelled, time)
        case .callFailed(let error):
            failed += 1
            mark(key, .failed, time)
            if let row = latest[key] { rows[row].failure = error.shortDescription }
        case .queued(let queue):
            enter(.queued, queue, fetch, key, time)
        case .lookUpBegan(let queue):
            // The disk may be asked during a transfer or a wait: that is no phase of its own.
            if let phase = fetch.flatMap({ rows[$0].spans.last?.phase }), phase != .queued, phase != .looking { break }
            enter(.looking, queue, fetch, key, time)
        case .attemptBegan(let queue):
            let isPaused = fetch.map { rows[$0].isPaused } ?? false
            enter(isPaused ? .paused : .transferring, queue, fetch, key, time)
        case .paused:
            if let fetch { rows[fetch].setPaused(true, time) }
        case .resumed:
            if let fetch { rows[fetch].setPaused(false, time) }
        case .queueChanged(let queue):
            guard let fetch, let span = rows[fetch].spans.last, span.queue != queue else { break }
            rows[fetch].enter(span.phase, queue, time)
            mark(key, queue == .fast ? .promoted : .demoted, time)
        case .parked:
            let queue = fetch.flatMap { rows[$0].spans.last?.queue } ?? asked[key] ?? .fast
            enter(.parked, queue, fetch, key, time)
        case .fetchEnded:
            guard let fetch else { break }
            rows[fetch].end(at: time)
        case .callJoined, .fetchBegan, .lookUpEnded, .requested, .received, .attemptEnded, .decodeBegan, .decodeEnded,
            .stepBegan, .stepEnded, .writeBegan, .writeEnded, .cleaned, .networkChanged, .memoryPressure, .missed:
            break
        }
    }

    private mutating func enter(
        _ phase: Phase, _ queue: FetchQueue, _ fetch: Int?, _ key: CacheKey, _ time: Duration
    ) {
        if let fetch { return rows[fetch].enter(phase, queue, time) }
        latest[key] = rows.count
        let span = Span(phase: phase, queue: queue, start: time, end: time)
        rows.append(Row(key: key, queue: queue, isOpen: true, spans: [span]))
    }

    private mutating func mark(_ key: CacheKey, _ moment: Moment, _ time: Duration) {
        let row = latest[key] ?? rows.count
        if row == rows.count {
            latest[key] = row
            rows.append(Row(key: key, queue: asked[key] ?? .fast))
        }
        rows[row].marks.append(Mark(moment: moment, time: time))
    }
}
