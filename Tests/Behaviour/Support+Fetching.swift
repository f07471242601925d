import TestSupport
import Testing

extension Task where Success == Never, Failure == Never {
    /// Returns when detached tasks that began before have very probably come to their first wait.
    static func letOthersRun() async {
        for _ in 0..<100 { await Task<Void, Never>.detached {}.value }
    }
}

extension TestCache {
    @discardableResult
    func call(_ source: some DataRequestConvertible, in queue: FetchQueue) -> DataTask {
        queue == .fast ? cache.getData(source) : cache.slowGetData(source)
    }

    /// Makes a call, and returns its task and the next transfer.
    func begin(
        _ source: some DataRequestConvertible, in queue: FetchQueue = .fast
    ) async throws -> (DataTask, ScriptedTransfer) {
        let task = call(source, in: queue)
        return (task, try await transport.nextTransfer())
    }

    /// Lets the clock advance as soon as somebody sleeps, and returns the next transfer.
    func nextTransfer(after wait: Duration) async throws -> ScriptedTransfer {
        try await clock.wake(after: wait)
        return try await transport.nextTransfer()
    }

    func whileClockRuns<Result>(_ action: () async throws -> Result) async rethrows -> Result {
        let stepping = Task { [clock, cache] in
            while !Task.isCancelled {
                try await clock.waitForSleepers(1)
                // What was done before, such as a change of the network, comes before the clock moves on.
                _ = cache.queueCounts
                clock.advanceToNextSleeper()
            }
        }
        defer { stepping.cancel() }
        return try await action()
    }

    func whileServing(
        _ answer: @escaping @Sendable (TransferRequest) -> ScriptedTransport.Step, _ action: () async throws -> Void
    ) async rethrows {
        let serving = Task { [transport] in
            while let transfer = try? await transport.nextTransfer() {
                switch answer(transfer.request) {
                case .response(let response):
                    transfer.finish(with: response.body, status: response.status, headers: response.headers)
                case .failure(let error): transfer.fail(with: error)
                case .interrupted(let response, let error): transfer.interrupt(with: response, error: error)
                case .body, .status, .silence: Issue.record("a step that is not for this")
                }
            }
        }
        defer { serving.cancel() }
        try await action()
    }

    /// Answers every transfer without a script, lets the clock run, and returns when nothing is left to do.
    func answerAll() async {
        let answering = Task { [transport, clock, cache] in
            while !Task.isCancelled {
                // What follows from what was done before begins before the clock moves on.
                _ = cache.queueCounts
                if let transfer = try? await transport.nextTransfer(within: .milliseconds(1)) {
                    transfer.finish(with: Data("late".utf8))
                } else {
                    clock.advanceToNextSleeper()
                }
            }
        }
        defer { answering.cancel() }
        await cache.idle()
    }
}

extension ManualClock {
    /// Waits until somebody sleeps, and moves the clock on: by a time, or to when the next sleeper wakes.
    func wake(after time: Duration? = nil) async throws {
        try await waitForSleepers(1)
        if let time { advance(by: time) } else { advanceToNextSleeper() }
    }
}

extension FetchTask {
    func waitForFailures(_ count: Int = 1) async throws {
        let heard = Box(0)
        onFail { _, _ in heard.update { $0 += 1 } }
        try await heard.wait { $0 >= count }
    }

    /// A record of the failures that the task tells of, such as "status 503" and "fatal status 404".
    func failures() -> Box<[String]> {
        let heard = Box<[String]>([])
        onFail { error, isFatal in heard.update { $0.append(isFatal ? "fatal \(error)" : "\(error)") } }
        return heard
    }

    /// The result, reported by a hook: the hooks that were added before have been called.
    var ending: Result<Response, DipperError> {
        get async { await withCheckedContinuation { end in onEnd { end.resume(returning: $0) } } }
    }
}

extension DataTask {
    /// Returns when the task has told of the number of bytes received, which have been counted then.
    func receives(_ count: Int) async {
        _ = await reaches { if case .progress(let progress) = $0 { progress.received == count } else { false } }
    }

    func receives(atLeast count: Int) async {
        _ = await reaches { if case .progress(let progress) = $0 { progress.received >= count } else { false } }
    }
}

extension WatchedState<Int> {
    @discardableResult
    func increment() -> Int {
        update {
            $0 += 1
            return $0
        }
    }
}

/// A record of the requests of a cache, in order: "+a" when the request for `/a` is sent, "-a" when its attempt ends.
final class Journal: EventSink {
    private struct State {
        var lines: [String] = []
        var times: [Duration] = []
        var open: Set<CacheKey> = []
    }

    private let state = Box(State())

    let topics: CacheEvent.Topics = [.requests, .attempts]

    func receive(_ event: CacheEvent) {
        let name = event.key.string.split(separator: "/").last ?? ""
        state.update { state in
            switch event.kind {
            case .requested where state.open.insert(event.key).inserted:
                state.lines.append("+\(name)")
                state.times.append(event.time)
            case .attemptEnded where state.open.remove(event.key) != nil: state.lines.append("-\(name)")
            default: break
            }
        }
    }

    var lines: [String] { state.value.lines }
    /// The times at which requests were sent, on the clock of the cache, in seconds.
    var seconds: [Double] { state.value.times.map { $0 / .seconds(1) } }
    var mostAtOnce: Int {
        var (now, most) = (0, 0)
        for line in lines {
            now += line.hasPrefix("+") ? 1 : -1
            most = max(most, now)
        }
        return most
    }

    func wait(for count: Int) async throws { try await state.wait { $0.lines.count >= count } }
}

/// Holds the thread on which caches decide while a closure runs on another. Meanwhile nothing else may be awaited, because
/// what other tests ask of their caches blocks the threads of Swift's tasks.
final class LoopHold: EventSink {
    private static let marker = url("holds the loop")
    let topics: CacheEvent.Topics = .fetches
    private let body = Box<(@Sendable () -> Void)?>(nil)
    private let hasRun = Box(false)

    func receive(_ event: CacheEvent) {
        guard event.kind == .fetchBegan(.slow), event.key == CacheKey(Self.marker), let body = body.value else {
            return
        }
        let hasReturned = DispatchSemaphore(value: 0)
        DispatchQueue(label: "holds the loop").async {
            body()
            hasReturned.signal()
        }
        hasReturned.wait()
        hasRun.update { $0 = true }
    }

    func hold(_ cache: DataCache, while body: @escaping @Sendable () -> Void) async throws {
        self.body.update { $0 = body }
        cache.slowGetData(Self.marker)
        try await hasRun.wait { $0 }
    }
}

/// An object whose release a test waits for: closures that the cache keeps hold it.
final class Canary: Sendable {
    private let isGone: Box<Bool>

    init(_ isGone: Box<Bool>) { self.isGone = isGone }

    deinit { isGone.update { $0 = true } }
}
