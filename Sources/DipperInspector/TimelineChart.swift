import DipperData

/// The history of each job, as rows on a time axis: a value made from events and drawn by ``TimelineSVG``.
struct TimelineChart: Sendable, Equatable {
    enum Phase: Sendable, Hashable, CaseIterable {
        case queued, looking, transferring, paused, parked
    }

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
        /// In a few words.
        var failure: String?
    }

    /// In the order they began.
    var rows: [Row] = []
    var start = Duration.zero
    var end = Duration.zero

    var calls = 0
    var answers: [ResponseSource: Int] = [:]
    var failed = 0
    var cancelled = 0
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

extension TimelineChart {
    init(_ events: [CacheEvent], dropped: Int = 0) {
        self.dropped = dropped
        // Calls report from threads of their own, so events may be a little out of order.
        start = events.lazy.map(\.time).min() ?? .zero
        end = events.lazy.map(\.time).max() ?? .zero
        var reader = Reader(chart: self)
        for event in events { reader.read(event) }
        self = reader.finished()
    }

    private struct Reader {
        var chart: TimelineChart
        var open: [CacheKey: OpenJob] = [:]
        var last: [CacheKey: Int] = [:]
        var asked: [CacheKey: FetchQueue] = [:]

        struct OpenJob {
            let row: Int
            var span: Span
            /// Whether the job is held back, now or as soon as it is on the network.
            var isPaused = false
        }

        mutating func read(_ event: CacheEvent) {
            let (key, time) = (event.key, event.time)
            switch event.kind {
            case .callBegan(let queue):
                chart.calls += 1
                asked[key] = queue
            case .callAnswered(let source):
                answered(key, source, time)
            case .callFailed(let error):
                if error.isCancelled { chart.cancelled += 1 } else { chart.failed += 1 }
                mark(key, error.isCancelled ? .cancelled : .failed, time)
                if !error.isCancelled, let row = last[key] { chart.rows[row].failure = error.shortDescription }
            case .queued(let queue):
                enter(.queued, queue, key, time)
            case .lookUpBegan(let queue):
                // The disk may be asked during a transfer or a wait: that is no phase of its own.
                if let phase = open[key]?.span.phase, phase != .queued, phase != .looking { break }
                enter(.looking, queue, key, time)
            case .attemptBegan(let queue):
                enter(open[key]?.isPaused == true ? .paused : .transferring, queue, key, time)
            case .paused:
                setPaused(true, key, time)
            case .resumed:
                setPaused(false, key, time)
            case .queueChanged(let queue):
                changeQueue(queue, key, time)
            case .parked:
                enter(.parked, open[key]?.span.queue ?? asked[key] ?? .fast, key, time)
            case .jobEnded:
                guard let job = open.removeValue(forKey: key) else { break }
                close(job, time)
                chart.rows[job.row].end = max(time, job.span.start)
                chart.rows[job.row].isOpen = false
            case .callJoined, .lookUpEnded, .requested, .received, .attemptEnded, .decodeBegan, .decodeEnded,
                .stepBegan, .stepEnded, .writeBegan, .writeEnded, .cleaned, .networkChanged, .memoryPressure, .missed:
                break
            }
        }

        consuming func finished() -> TimelineChart {
            for job in open.values {
                close(job, chart.end)
                chart.rows[job.row].end = chart.end
            }
            return chart
        }

        private mutating func enter(_ phase: Phase, _ queue: FetchQueue, _ key: CacheKey, _ time: Duration) {
            guard var job = open[key] else {
                last[key] = chart.rows.count
                open[key] = OpenJob(
                    row: chart.rows.count, span: Span(phase: phase, queue: queue, start: time, end: time))
                chart.rows.append(
                    Row(key: key, queue: queue, isJob: true, isOpen: true, start: time, end: time))
                return
            }
            // A job that waits again has given up its slot, which ends its pause.
            if phase == .queued || phase == .parked { job.isPaused = false }
            guard phase != job.span.phase || queue != job.span.queue else { return }
            close(job, time)
            let start = max(time, job.span.start)
            job.span = Span(phase: phase, queue: queue, start: start, end: start)
            open[key] = job
        }

        private mutating func setPaused(_ isPaused: Bool, _ key: CacheKey, _ time: Duration) {
            guard let job = open[key] else { return }
            open[key]?.isPaused = isPaused
            // A pause of a job that is not yet on the network shows when it gets there.
            if job.span.phase == (isPaused ? .transferring : .paused) {
                enter(isPaused ? .paused : .transferring, job.span.queue, key, time)
            }
        }

        private mutating func changeQueue(_ queue: FetchQueue, _ key: CacheKey, _ time: Duration) {
            guard let job = open[key], job.span.queue != queue else { return }
            enter(job.span.phase, queue, key, time)
            mark(key, queue == .fast ? .promoted : .demoted, time)
        }

        /// Ends a span. A span without length is dropped.
        private mutating func close(_ job: OpenJob, _ time: Duration) {
            var span = job.span
            span.end = max(time, span.start)
            if span.end > span.start { chart.rows[job.row].spans.append(span) }
        }

        private mutating func answered(_ key: CacheKey, _ source: ResponseSource, _ time: Duration) {
            chart.answers[source, default: 0] += 1
            mark(key, .answered(source), time)
        }

        private mutating func mark(_ key: CacheKey, _ moment: Moment, _ time: Duration) {
            let row = last[key] ?? chart.rows.count
            if row == chart.rows.count {
                last[key] = row
                chart.rows.append(
                    Row(
                        key: key, queue: asked[key] ?? .fast, isJob: false, isOpen: false, start: time,
                        end: time))
            }
            chart.rows[row].marks.append(Mark(moment: moment, time: time))
            if !chart.rows[row].isJob { chart.rows[row].end = max(chart.rows[row].end, time) }
        }
    }
}
