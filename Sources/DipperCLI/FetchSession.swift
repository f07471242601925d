import ArgumentParser
import Dipper
import DipperInspector
import Dispatch
import Foundation
import Synchronization

final class FetchSession: Sendable {
    private struct State {
        var summary = RunSummary()
        var ended = 0
        var files: BodyFiles?
        var hasBadLine = false
    }

    private let cache: DataCache
    /// `nil` if bodies are not pictures to encode again.
    private let pictures: PictureMaker?
    private let options: FetchOptions
    private let isJSON: Bool
    private let timeline: Timeline?
    private let start = ContinuousClock.now
    private let state: Mutex<State>
    private let openCalls = DispatchGroup()

    init(_ options: FetchOptions, _ store: StoreOptions) throws {
        self.options = options
        isJSON = store.json
        var configuration = options.requests.configuration(store)
        timeline = options.timeline.map { _ in Timeline() }
        configuration.eventSinks = timeline.map { [$0] } ?? []
        // The bytes of a picture are read once more, soon after the fetch, and then not again.
        if options.pictures.isUsed { configuration.memoryLimit = min(configuration.memoryLimit, 32 << 20) }
        state = Mutex(State(files: try options.out.map(BodyFiles.init)))
        cache = DataCache(configuration)
        // After any other failure of the disk, the cache works in memory and can still fetch.
        if let problem = cache.storeProblem, problem.isRefusal { throw CommandFailure("\(problem.description).") }
        pictures = options.pictures.isUsed ? PictureMaker(options.pictures, cache) : nil
    }

    // MARK: Calls

    func demote(_ url: String) {
        let key = request(url).cacheKey
        if let pictures { pictures.images.moveTaskToSlowQueue(key: key) } else { cache.moveTaskToSlowQueue(key: key) }
    }

    func cancel(_ url: String) {
        let key = request(url).cacheKey
        if let pictures { pictures.images.cancel(key: key) } else { cache.cancel(key: key) }
    }

    func noteBadLine() { state.withLock { $0.hasBadLine = true } }

    func ask(_ url: String, _ queue: FetchQueue) {
        let request = request(url)
        let begin = ContinuousClock.now
        openCalls.enter()
        let file = state.withLock { state in
            state.summary.requests += 1
            return state.files?.reserve(request.cacheKey, url: url, isPicture: pictures != nil)
        }
        let end: PictureMaker.End = { queue, attempts, result in
            let shown = Redaction.standard.text(url)
            var report = CallReport(
                url: shown, key: shown == url ? nil : request.cacheKey.digest, queue: queue, result: result,
                attempts: attempts, milliseconds: Int((ContinuousClock.now - begin) / .milliseconds(1)))
            if let file { report.write(to: file) }
            self.ended(report)
        }
        if let pictures { return pictures.get(request, queue, end) }
        let task = queue == .fast ? cache.getData(request) : cache.slowGetData(request)
        task.onEnd { result in
            let answer = result.map { Answer(source: $0.source, status: $0.status, body: $0.data) }
            end(task.queue, task.attempts, answer)
        }
    }

    private func request(_ url: String) -> DataRequest { options.requests.header.request(url) }

    private func ended(_ report: CallReport) {
        ProgressLine.clear()
        if isJSON {
            tell(report.json.text)
        } else {
            if let row = report.row { tell(row) }
            if let complaint = report.complaint { warn("dipper: \(complaint)") }
        }
        state.withLock { state in
            state.ended += 1
            state.summary.bytes += report.bytes
            if report.isFailure { state.summary.failed += 1 }
        }
        showProgress()
        openCalls.leave()
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            openCalls.notify(queue: .global()) { continuation.resume() }
        }
    }

    private func showProgress() {
        guard ProgressLine.isShown else { return }
        let (ended, requests) = state.withLock { ($0.ended, $0.summary.requests) }
        let counts = cache.queueCounts
        ProgressLine.show(
            "\(ended)/\(requests) done, \(counts.fastRunning) urgent and "
                + "\(counts.slowRunning) slow running, \(counts.parked) waiting to retry, "
                + ByteCount.describe(cache.statistics.networkBytes))
    }

    // MARK: Run

    /// Runs commands to their end, even if interrupted, and returns the exit status.
    func run(_ body: @escaping @Sendable (FetchSession) async -> Void) async throws -> ExitCode {
        let work = Task {
            // A call that is made only once must find the entries on disk.
            await cache.indexOpened()
            await body(self)
        }
        let interrupt = Interrupt { [pictures, cache] in
            work.cancel()
            pictures?.images.cancelAll()
            cache.cancelAll()
        }
        let ticker = Task {
            while ProgressLine.isShown {
                showProgress()
                try await Task.sleep(for: .milliseconds(200))
            }
        }
        await work.value
        await wait()
        ticker.cancel()
        await pictures?.images.shutdown()
        await cache.shutdown()
        ProgressLine.clear()
        let status = try finish()
        interrupt.end()
        return interrupt.happened ? ExitCode(130) : status
    }

    private func finish() throws -> ExitCode {
        var (summary, hasBadLine) = state.withLock { ($0.summary, $0.hasBadLine) }
        summary.networkRequests = cache.statistics.networkRequests
        summary.milliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
        tell(isJSON ? summary.json : summary.text)
        if let timeline, let path = options.timeline {
            try BodyFiles.write(Data(timeline.svg().utf8), to: URL(fileURLWithPath: path))
        }
        if hasBadLine { return ExitCode(2) }
        return ExitCode(summary.failed > 0 ? 1 : 0)
    }
}

/// Calls a closure at the first SIGINT or SIGTERM. The second one ends the process.
// The sources never change.
final class Interrupt: @unchecked Sendable {
    private let sources: [any DispatchSourceSignal]
    private let hasHappened = Atomic(false)

    var happened: Bool { hasHappened.load(ordering: .relaxed) }

    init(_ onInterrupt: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "dipper.interrupt")
        for number in [SIGPIPE, SIGINT, SIGTERM] { signal(number, SIG_IGN) }
        sources = [SIGINT, SIGTERM].map { DispatchSource.makeSignalSource(signal: $0, queue: queue) }
        for source in sources {
            source.setEventHandler { [self] in
                if hasHappened.exchange(true, ordering: .relaxed) { _exit(130) }
                onInterrupt()
            }
            source.activate()
        }
    }

    func end() {
        for source in sources { source.cancel() }
    }
}
