import ArgumentParser
import Dipper
import DipperInspector
import Foundation
import Synchronization

final class FetchSession: Sendable {
    private struct State {
        var summary = RunSummary()
        var ended = 0
        var files: BodyFiles?
        var hasBadLine = false
        /// The bytes of calls that have ended, and what is known of the others.
        var received = 0.0
        var progress: [CacheKey: TaskProgress] = [:]
    }

    private let cache: DataCache
    /// `nil` if bodies are not pictures to encode again.
    private let pictures: PictureMaker?
    private let options: FetchOptions
    private let isJSON: Bool
    /// Whether standard output is for bodies or for the timeline.
    private let isQuiet: Bool
    private let timeline: Timeline?
    private let inspector: Inspector?
    private let start = ContinuousClock.now
    private let state: Mutex<State>
    /// The bodies for standard output that wait for those of earlier calls.
    private let bodies = Mutex((waiting: [Int: Data](), next: 1))
    private let openCalls = DispatchGroup()

    init(_ options: FetchOptions, _ store: StoreOptions) throws {
        self.options = options
        isJSON = store.json
        isQuiet = options.out == "-" || options.timeline == "-"
        if isQuiet, isJSON || options.out == options.timeline {
            throw ValidationError("Only one of --json, --out - and --timeline - can write to standard output.")
        }
        var configuration = try options.requests.configuration(store)
        timeline = options.timeline.map { _ in Timeline() }
        configuration.eventSinks = timeline.map { [$0] } ?? []
        // The bytes of a picture are read once more, soon after the fetch, and then not again.
        if options.pictures.isUsed { configuration.memoryLimit = min(configuration.memoryLimit, 32 << 20) }
        state = Mutex(State(files: options.out == "-" ? nil : try options.out.map(BodyFiles.init)))
        cache = DataCache(configuration)
        cache.isolateOthers(options.pictures.decoding.options())
        // After any other failure of the disk, the cache works in memory and can still fetch.
        if cache.storeProblem?.isRefusal == true { throw ExitCode.failure }
        pictures = options.pictures.isUsed ? PictureMaker(options.pictures, cache) : nil
        inspector = options.inspect.map { [cache, pictures] port in
            var options = Inspector.Options()
            (options.port, options.recordsAlways) = (port, true)
            return pictures.map { Inspector($0.images, options) } ?? Inspector(cache, options)
        }
        if let page = try inspector?.start() { warn("inspector: \(page.absoluteString)") }
    }

    func demote(_ url: String) {
        let key = cache.complete(request(url)).cacheKey
        if let pictures { pictures.images.moveTaskToSlowQueue(key) } else { cache.moveTaskToSlowQueue(key) }
    }

    func cancel(_ url: String) {
        let key = cache.complete(request(url)).cacheKey
        if let pictures { pictures.images.cancel(key) } else { cache.cancel(key) }
    }

    func noteBadLine() { state.withLock { $0.hasBadLine = true } }

    func ask(_ text: String, _ queue: FetchQueue) {
        let url = options.url(from: text)
        let request = request(url)
        let begin = ContinuousClock.now
        openCalls.enter()
        let key = cache.complete(request).cacheKey
        let (number, file) = state.withLock { state in
            state.summary.requests += 1
            return (state.summary.requests, state.files?.reserve(key, url: url, isPicture: pictures != nil))
        }
        let note: @Sendable (TaskProgress) -> Void = { bytes in self.state.withLock { $0.progress[key] = bytes } }
        let end: PictureMaker.End = { queue, attempts, result in
            let shown = Redaction.standard.text(url)
            var report = CallReport(
                url: shown, key: shown == url ? nil : key.digest, queue: queue, result: result,
                attempts: attempts, milliseconds: Int((ContinuousClock.now - begin) / .milliseconds(1)))
            if let file { report.write(to: file) }
            self.ended(report, number, key)
        }
        if let pictures { return _ = pictures.get(request, queue, end).onProgress(note) }
        let task = queue == .fast ? cache.getData(request) : cache.slowGetData(request)
        task.onProgress(note).onEnd { result in
            let answer = result.map { Answer(source: $0.source, status: $0.status, body: $0.data) }
            end(task.queue, task.attempts, answer)
        }
    }

    private func request(_ url: String) -> DataRequest { options.requests.header.request(options.url(from: url)) }

    private func ended(_ report: CallReport, _ number: Int, _ key: CacheKey) {
        ProgressLine.clear()
        if isJSON { tell(report.json.text) } else if !isQuiet, let row = report.row { tell(row) }
        if !isJSON, let complaint = report.complaint { warn(complaint) }
        if options.out == "-" {
            bodies.withLock { bodies in
                bodies.waiting[number] = report.body
                while let body = bodies.waiting.removeValue(forKey: bodies.next) {
                    StandardOutput.write(body)
                    bodies.next += 1
                }
            }
        }
        state.withLock { state in
            state.ended += 1
            // Other calls of the key share the fetch, and have ended too.
            state.received += Double(state.progress.removeValue(forKey: key)?.received ?? 0)
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
        let (state, counts) = (state.withLock { $0 }, cache.queueCounts)
        let bytes = state.progress.values.reduce(state.received) { $0 + Double($1.received) }
        let total = state.progress.values.reduce(state.received) { $0 + Double($1.expected ?? $1.received) }
        let rate = bytes / max(1, (ContinuousClock.now - start) / .seconds(1))
        let texts = [bytes, min(total, 9e18), rate].map { ByteCount.describe(Int($0)) }
        // Of the bodies that have been announced.
        let left = total > bytes && rate > 0 ? ", \(Int(min(1e6, (total - bytes) / rate).rounded(.up))) s left" : ""
        ProgressLine.show(
            "\(texts[0]) of \(texts[1]), \(texts[2])/s\(left), \(state.ended)/\(state.summary.requests) done, \(counts.fastRunning) urgent, \(counts.slowRunning) slow, "
                + "\(counts.parked) waiting to retry")
    }

    func run(_ body: @escaping @Sendable (FetchSession) async -> Void) async throws -> ExitCode {
        let (untilHandled, handled) = AsyncStream.makeStream(of: Never.self)
        let work = Task {
            // What is under way can be interrupted.
            for await _ in untilHandled {}
            // A call that is made only once must find the entries on disk.
            await cache.indexOpened()
            await cache.connectShared()
            await body(self)
        }
        Interrupt.handle { [pictures, cache] in
            work.cancel()
            pictures?.images.cancelAll()
            cache.cancelAll()
        }
        handled.finish()
        let ticker = Task {
            while ProgressLine.isShown {
                showProgress()
                try await Task.sleep(for: .milliseconds(200))
            }
        }
        await work.value
        await wait()
        if options.inspectWait, !Interrupt.happened { await Interrupt.wait() }
        await inspector?.stop()
        ticker.cancel()
        await pictures?.images.shutdown()
        await cache.shutdown()
        ProgressLine.clear()
        let status = try finish()
        return Interrupt.happened ? ExitCode(130) : status
    }

    private func finish() throws -> ExitCode {
        var (summary, hasBadLine) = state.withLock { ($0.summary, $0.hasBadLine) }
        summary.networkRequests = cache.statistics.networkRequests
        summary.milliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
        if !isQuiet { tell(isJSON ? summary.json : summary.text) }
        if let timeline, let path = options.timeline { try BodyFiles.write(Data(timeline.svg().utf8), to: path) }
        return ExitCode(hasBadLine ? 2 : summary.failed > 0 ? 1 : 0)
    }
}

/// The end by SIGINT or SIGTERM: at once, or at the second signal if the command does something at the first.
enum Interrupt {
    private static let state = Mutex((hasHappened: false, action: (@Sendable () -> Void)?.none))
    @MainActor private static var sources: [any DispatchSourceSignal] = []

    static var happened: Bool { state.withLock(\.hasHappened) }

    @MainActor static func watch() {
        let queue = DispatchQueue(label: "dipper.interrupt")
        // A reader of standard output that goes away is an error of a write.
        for number in [SIGPIPE, SIGINT, SIGTERM] { signal(number, SIG_IGN) }
        sources = [SIGINT, SIGTERM].map { DispatchSource.makeSignalSource(signal: $0, queue: queue) }
        for source in sources {
            source.setEventHandler { @Sendable in
                let action = state.withLock { state in
                    state.hasHappened = true
                    return state.action.take()
                }
                if let action { return action() }
                BodyFiles.unfinished.withLock {
                    if let file = $0 { unlink(file) }
                    _exit(130)
                }
            }
            source.activate()
        }
    }

    /// Returns at the first signal, or at once after one.
    static func wait() async {
        await withCheckedContinuation { continuation in
            let hasHappened = state.withLock { state in
                if !state.hasHappened { state.action = { continuation.resume() } }
                return state.hasHappened
            }
            if hasHappened { continuation.resume() }
        }
    }

    static func handle(_ action: (@Sendable () -> Void)?) { state.withLock { $0.action = action } }
}
