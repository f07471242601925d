import ArgumentParser
import Dipper
import DipperInspector
import Dispatch
import Foundation
import Synchronization

final class FetchSession: Sendable {
    private struct State {
        var open = 0
        var summary = RunSummary()
        var files: BodyFiles?
        var waiting: [CheckedContinuation<Void, Never>] = []
        var isInterrupted = false
        var hasBadLine = false
    }

    private let cache: DataCache
    /// `nil` if bodies are not pictures to encode anew.
    private let pictures: PictureMaker?
    private let options: FetchOptions
    private let isJSON: Bool
    private let timeline: Timeline?
    private let start = ContinuousClock.now
    private let state: Mutex<State>
    private let terminal: ProgressLine

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
        if let problem = cache.storeProblem, problem.isRefusal { throw UnusableFolder(problem: problem) }
        pictures = options.pictures.isUsed ? PictureMaker(options.pictures, cache) : nil
        terminal = ProgressLine()
    }

    // MARK: Calls

    func get(_ url: String) { ask(url, .fast) }
    func slowGet(_ url: String) { ask(url, .slow) }
    func demote(_ url: String) {
        let key = request(url).cacheKey
        if let pictures { pictures.images.moveTaskToSlowQueue(key: key) } else { cache.moveTaskToSlowQueue(key: key) }
    }
    func cancel(_ url: String) {
        let key = request(url).cacheKey
        if let pictures { pictures.images.cancel(key: key) } else { cache.cancel(key: key) }
    }
    func noteBadLine() { state.withLock { $0.hasBadLine = true } }

    private func request(_ url: String) -> DataRequest { DipperCLI.request(url, options.requests.headers) }

    private func ask(_ url: String, _ queue: FetchQueue) {
        let request = request(url)
        let begin = ContinuousClock.now
        let file = state.withLock { state in
            state.open += 1
            state.summary.requests += 1
            return state.files?.reserve(request.cacheKey, url: url, isPicture: pictures != nil)
        }
        let end: @Sendable (FetchQueue, Int, Result<Answer, DipperError>) -> Void = { queue, attempts, result in
            let shown = Redaction.standard.text(url)
            let report = CallReport(
                url: shown, key: shown == url ? nil : request.cacheKey.digest, queue: queue, result: result,
                attempts: attempts,
                milliseconds: Int((ContinuousClock.now - begin) / .milliseconds(1)))
            self.ended(report, file)
        }
        if let pictures { return pictures.get(request, queue, end) }
        let task = queue == .fast ? cache.getData(request) : cache.slowGetData(request)
        task.onEnd { result in
            end(
                task.queue, task.attempts,
                result.map { Answer(source: $0.source, status: $0.status, body: $0.data) })
        }
    }

    private func ended(_ report: CallReport, _ file: URL?) {
        var report = report
        if let file, case .success(let answer) = report.result {
            let file = answer.picture.map { file.appendingPathExtension($0.format.fileExtension) } ?? file
            do {
                try BodyFiles.write(answer.body, to: file)
                report.file = file.path
            } catch {
                report.fileError = "\(error)"
            }
        }
        terminal.clear()
        if isJSON {
            tell(report.json)
        } else {
            if let row = report.row { tell(row) }
            if let complaint = report.complaint { warn("dipper: \(complaint)") }
        }
        let waiting = state.withLock { state in
            state.open -= 1
            state.summary.bytes += report.bytes
            if report.isFailure { state.summary.failed += 1 }
            guard state.open == 0 else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
        showProgress()
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if state.open == 0 { return true }
                state.waiting.append(continuation)
                return false
            }
            if isDone { continuation.resume() }
        }
    }

    private func showProgress() {
        guard terminal.isShown else { return }
        let (open, summary) = state.withLock { ($0.open, $0.summary) }
        let counts = cache.queueCounts
        terminal.show(
            "\(summary.requests - open)/\(summary.requests) done, \(counts.fastRunning) urgent and "
                + "\(counts.slowRunning) slow running, \(counts.parked) waiting to retry, "
                + ByteCount.describe(cache.statistics.networkBytes))
    }

    // MARK: Run

    /// Runs commands to their end, even if interrupted, and returns the exit status.
    func run(_ body: @escaping @Sendable (FetchSession) async throws -> Void) async throws -> ExitCode {
        let changes = terminal.isShown ? cache.events(about: [.jobs, .attempts, .requests], limit: 1) : nil
        let work = Task {
            // A call that is made only once must find the entries on disk.
            await cache.indexOpened()
            try await body(self)
        }
        let interrupt = Interrupt {
            self.interrupt()
            work.cancel()
        }
        let ticker = Task {
            guard let changes else { return }
            for await _ in changes {
                showProgress()
                try await Task.sleep(for: .milliseconds(200))
            }
        }
        try await work.value
        await wait()
        ticker.cancel()
        await pictures?.images.shutdown()
        await cache.shutdown()
        terminal.clear()
        let status = try finish()
        interrupt.end()
        return status
    }

    private func interrupt() {
        state.withLock { $0.isInterrupted = true }
        pictures?.images.cancelAll()
        cache.cancelAll()
    }

    var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    private func finish() throws -> ExitCode {
        var (summary, isInterrupted, hasBadLine) = state.withLock { ($0.summary, $0.isInterrupted, $0.hasBadLine) }
        summary.networkRequests = cache.statistics.networkRequests
        summary.milliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
        tell(isJSON ? summary.json : summary.text)
        if let timeline, let path = options.timeline {
            try BodyFiles.write(Data(timeline.svg().utf8), to: URL(fileURLWithPath: path))
        }
        if isInterrupted { return ExitCode(130) }
        if hasBadLine { return ExitCode(2) }
        return ExitCode(summary.failed > 0 ? 1 : 0)
    }
}

/// The first SIGINT or SIGTERM becomes a call, the second one ends the process.
final class Interrupt {
    private let sources: [any DispatchSourceSignal]
    private let handler: FirstCall

    var happened: Bool { handler.wasCalled.load(ordering: .relaxed) }

    init(_ onInterrupt: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "dipper.interrupt")
        let handler = FirstCall(onInterrupt)
        self.handler = handler
        signal(SIGPIPE, SIG_IGN)
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { handler.call() }
            source.activate()
            return source
        }
    }

    func end() {
        for source in sources { source.cancel() }
    }

    private final class FirstCall: Sendable {
        private let body: @Sendable () -> Void
        let wasCalled = Atomic(false)

        init(_ body: @escaping @Sendable () -> Void) {
            self.body = body
        }

        func call() {
            if wasCalled.exchange(true, ordering: .relaxed) { _exit(130) }
            body()
        }
    }
}
