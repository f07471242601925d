/// The history of each job, as rows on a time axis: a value made from events and drawn by ``TimelineSVG``.
struct TimelineChart: Sendable, Equatable {
    /// The phase of a job.
    enum Phase: Sendable, Hashable, CaseIterable {
        case queued, looking, transferring, paused, parked
    }

    /// A phase of a job in one queue.
    struct Span: Sendable, Equatable {
        var phase: Phase
        var queue: FetchQueue
        var start: Duration
        var end: Duration
    }

    /// An event of a job or its callers at one time.
    enum Moment: Sendable, Hashable {
        case promoted, demoted
        case answered(ResponseSource)
        case cancelled, failed
    }

    struct Mark: Sendable, Equatable {
        var moment: Moment
        var time: Duration
    }

    /// A job; or, without spans, the calls for a key that needed no job.
    struct Row: Sendable, Equatable {
        var key: CacheKey
        /// The queue in which the row began.
        var queue: FetchQueue
        var isJob: Bool
        /// Whether the job had not ended when the last event was recorded.
        var isOpen: Bool
        var start: Duration
        var end: Duration
        var spans: [Span] = []
        var marks: [Mark] = []
        /// The last failure, in a few words.
        var failure: String?
    }

    /// The rows, in the order they began.
    var rows: [Row] = []
    var start = Duration.zero
    var end = Duration.zero

    var calls = 0
    var answers: [ResponseSource: Int] = [:]
    var failed = 0
    var cancelled = 0
    /// The number of events that were not kept.
    var dropped = 0

    var jobs: Int { rows.count(where: \.isJob) }
    var duration: Duration { end - start }
}

extension TimelineChart {
    /// The number of jobs in each phase, from a given time on.
    struct Load: Sendable, Equatable {
        var time: Duration
        var fastWaiting = 0
        var fastTransferring = 0
        var slowWaiting = 0
        var slowTransferring = 0
        var slowPaused = 0

        /// Whether urgent work is looked up, queued or running, so that no slow job starts.
        var isFastBusy: Bool { fastWaiting + fastTransferring > 0 }

        mutating func count(_ span: Span, _ change: Int) {
            switch (span.queue, span.phase) {
            case (.fast, .queued), (.fast, .looking): fastWaiting += change
            case (.fast, .transferring), (.fast, .paused): fastTransferring += change
            case (.slow, .queued), (.slow, .looking): slowWaiting += change
            case (.slow, .transferring): slowTransferring += change
            case (.slow, .paused): slowPaused += change
            case (_, .parked): break
            }
        }
    }

    /// Returns the load of both queues at each time it changes.
    func loads() -> [Load] {
        let spans = rows.flatMap(\.spans)
        var edges: [(time: Duration, span: Int, change: Int)] = []
        edges.reserveCapacity(spans.count * 2)
        for (index, span) in spans.enumerated() {
            edges.append((span.start, index, 1))
            edges.append((span.end, index, -1))
        }
        edges.sort { $0.time < $1.time }
        var loads: [Load] = []
        var load = Load(time: start)
        for edge in edges {
            if edge.time > load.time {
                loads.append(load)
                load.time = edge.time
            }
            load.count(spans[edge.span], edge.change)
        }
        loads.append(load)
        return loads
    }
}
