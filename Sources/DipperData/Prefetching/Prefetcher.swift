import Synchronization

/// A prefetcher of many requests whose answers someone may need later: it makes a few calls at a time, in `slowQueue`.
///
/// ```swift
/// let prefetcher = DataPrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// The prefetcher skips requests that the cache can answer already, judged by the metadata of the entries alone;
/// entries that are out of date count as missing. An urgent call for the same key promotes a prefetch, and the bytes
/// are fetched once. A million URLs cost no more memory than their list.
///
/// A prefetcher may live as long as the screen that it serves: rows are added and removed at any time, also when all
/// earlier ones have ended, or after ``stop()``.
///
/// ```swift
/// let prefetcher = DataPrefetcher(cache, urls: []).start()
/// prefetcher.add(urls: urls)              // these rows come near
/// prefetcher.remove(urls: [nextURL])      // this one has gone
/// ```
///
/// Methods may be called from any thread. The prefetcher continues if it is released, unless it is stopped.
public final class Prefetcher<Request: Hashable & Sendable>: Sendable {
    private struct Call {
        let request: Request
        var task: (any FetchTask)?
    }

    private typealias Waiter = CheckedContinuation<PrefetchResult<Request>, Never>

    private struct State {
        var waiting: Deque<Request>
        var calls: [Int: Call] = [:]
        var lastCall = 0
        /// The calls that wait for the network or a retry: they do not count towards `maxOutstanding`.
        var parked: Set<Int> = []
        var result = PrefetchResult<Request>()
        /// The requests that the last stop has left, with which `start()` continues, also if their end has been told.
        var stopped: [Request] = []
        var hasStarted = false
        var isPaused = false
        var isPumping = false
        /// The priority of all calls; `nil` for those of the requests.
        var priority: Priority?

        var progressHooks: [@Sendable (PrefetchProgress) -> Void] = []
        var endHooks: [@Sendable (PrefetchResult<Request>) -> Void] = []
        var waiters: [Waiter] = []
        var told = PrefetchProgress()
        var isTelling = false
        var hasToldEnd = false

        /// Whether nothing is left to do until requests are added.
        var hasEnded: Bool { hasStarted && waiting.isEmpty && calls.isEmpty }
        var hasNews: Bool { progress != told || hasEnded && !hasToldEnd }

        /// Adds work to the present run or, if its end has been told, to a new one. Returns the result that it replaces.
        mutating func append(_ requests: [Request]) -> PrefetchResult<Request>? {
            waiting.append(contentsOf: requests)
            guard hasToldEnd, !requests.isEmpty else { return nil }
            hasToldEnd = false
            return exchange(&result, with: PrefetchResult())
        }

        var progress: PrefetchProgress {
            var progress = PrefetchProgress()
            progress.completed = result.completed.count
            progress.failed = result.failed.count
            progress.skipped = result.skipped.count
            progress.total = progress.finished + result.remaining.count + waiting.count + calls.count
            return progress
        }

        mutating func leave(_ number: Int) -> Call? {
            parked.remove(number)
            return calls.removeValue(forKey: number)
        }

        /// Calls the hooks with the latest news; `nil` if they have heard of everything.
        mutating func nextHooks() -> (@Sendable () -> Void)? {
            guard hasNews else {
                isTelling = false
                return nil
            }
            let progress = progress
            if progress != told {
                told = progress
                return { [progressHooks] in for hook in progressHooks { hook(progress) } }
            }
            hasToldEnd = true
            let (waiters, result) = takeWaiters()
            return { [endHooks] in
                for waiter in waiters { waiter.resume(returning: result) }
                for hook in endHooks { hook(result) }
            }
        }

        /// Returns those who wait for the end that has come, with its result: a closure may begin a new run.
        mutating func takeWaiters() -> ([Waiter], PrefetchResult<Request>) {
            hasEnded ? (exchange(&waiters, with: []), result) : ([], PrefetchResult())
        }
    }

    /// The number of requests that are looked at before other users of the disk have their turn.
    private static var batch: Int { 32 }
    /// From this number of parked calls on no more are made, because each of them holds memory.
    private static var maxParked: Int { 256 }

    private let maxOutstanding: Int
    private let callbackQueue: CallbackQueue
    private let run: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let hold: @Sendable (() -> Void) -> Void
    private let isCached: @Sendable (Request) -> Bool
    private let makeCall: @Sendable (Request) -> any FetchTask
    private let state: Mutex<State>

    /// - Parameters:
    ///   - run: runs work that may block, such as reading the disk, on another thread.
    ///   - hold: runs work while no prefetch starts.
    ///   - isCached: returns whether the cache can answer a request as it is wanted without the network.
    ///   - call: makes a call in `slowQueue` whose closures are called in place.
    package init(
        _ requests: [Request], maxOutstanding: Int, _ callbackQueue: CallbackQueue,
        run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        hold: @escaping @Sendable (() -> Void) -> Void,
        isCached: @escaping @Sendable (Request) -> Bool, call: @escaping @Sendable (Request) -> any FetchTask
    ) {
        (self.maxOutstanding, self.callbackQueue) = (max(1, maxOutstanding), callbackQueue)
        (self.run, self.hold, self.isCached, makeCall) = (run, hold, isCached, call)
        state = Mutex(State(waiting: Deque(requests)))
    }

    /// Starts the prefetcher; after ``stop()``, continues with the requests that the last stop has left. Otherwise without
    /// effect the second time.
    @discardableResult
    public func start() -> Prefetcher {
        // The old result is released where no lock is held.
        _ = change { state -> PrefetchResult<Request>? in
            state.hasStarted = true
            state.result.remaining = []
            return state.append(exchange(&state.stopped, with: []))
        }
        return self
    }

    /// Adds requests behind those that wait, at any time: also when all others have ended, or after ``stop()``. If the
    /// end of the earlier ones has been told, progress and result begin anew.
    public func add(_ requests: [Request]) {
        _ = change { $0.append(requests) }
    }

    /// Takes requests, equal to those that were added, out of the prefetcher. Their calls under way are cancelled; a
    /// fetch goes on if other calls wait for it. Progress and result no longer contain them.
    public func remove(_ requests: [Request]) {
        let requests = Set(requests)
        let calls = change { state -> [Call] in
            state.waiting.removeAll(where: requests.contains)
            state.stopped.removeAll(where: requests.contains)
            state.result.remaining.removeAll(where: requests.contains)
            let numbers = state.calls.filter { requests.contains($0.value.request) }.keys.sorted()
            return numbers.compactMap { state.leave($0) }
        }
        cancelTogether(calls.compactMap(\.task))
    }

    /// The priority inside `slowQueue` of all calls of the prefetcher, also of those under way. With `nil`, the default,
    /// new calls have the priorities of their requests.
    public var priority: Priority? {
        get { state.withLock { $0.priority } }
        set {
            let calls = state.withLock { state in
                state.priority = newValue
                return state.calls.values.compactMap(\.task)
            }
            if let newValue { for task in calls { task.priority = newValue } }
        }
    }

    /// Pauses the prefetcher: no more calls are made. Calls under way go on to their ends.
    public func pause() { change { $0.isPaused = true } }

    /// Resumes a paused prefetcher.
    public func resume() { change { $0.isPaused = false } }

    /// Whether the prefetcher is paused.
    public var isPaused: Bool { state.withLock { $0.isPaused } }

    /// Stops the prefetcher: cancels the calls under way and makes no more, until requests are added or ``start()``
    /// continues. ``PrefetchResult/remaining`` has the requests that were not done. A fetch goes on if other calls wait
    /// for it; the received part of a body is kept, so that a later fetch can continue it.
    public func stop() {
        let calls = change { state -> [Call] in
            guard !state.hasEnded else { return [] }
            let calls = state.calls.keys.sorted().compactMap { state.leave($0) }
            let stopped = calls.map(\.request) + state.waiting
            state.result.remaining += stopped
            state.stopped = state.result.remaining
            state.waiting = []
            state.hasStarted = true
            return calls
        }
        cancelTogether(calls.compactMap(\.task))
    }

    /// The progress of the prefetcher now.
    ///
    /// ```swift
    /// let progress = prefetcher.progress
    /// print("\(progress.finished) of \(progress.total), \(progress.failed) failed")
    /// ```
    public var progress: PrefetchProgress { state.withLock { $0.progress } }

    /// Calls a closure with the progress at the start, when requests are added and as requests end, on the cache's
    /// callback queue. If requests end faster than the closure is called, it gets the latest progress.
    @discardableResult
    public func onProgress(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (PrefetchProgress) -> Void
    ) -> Prefetcher {
        state.withLock { [body = onItsActor(body)] in $0.progressHooks.append(body) }
        return self
    }

    /// Calls a closure each time that all requests have ended, or the prefetcher was stopped, on the cache's callback
    /// queue, with what has ended since the closure was called last. If requests are added before the closure can be
    /// called, there is one end for all. The prefetcher keeps the closure.
    @discardableResult
    public func onEnd(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (PrefetchResult<Request>) -> Void
    ) -> Prefetcher {
        let body = onItsActor(body)
        let result = state.withLock { state -> PrefetchResult<Request>? in
            state.endHooks.append(body)
            return state.hasToldEnd ? state.result : nil
        }
        if let result { callbackQueue.perform { body(result) } }
        return self
    }

    /// The result of the prefetcher. Awaiting it starts the prefetcher, and returns when nothing is left to do: all requests
    /// have ended or the prefetcher has been stopped. The closures may be called later: until then, requests that are added
    /// count towards the same result. Cancelling the Swift task that awaits it stops the prefetcher.
    ///
    /// ```swift
    /// let result = await prefetcher.value
    /// for failure in result.failed { print(failure.request, failure.error) }
    /// ```
    public var value: PrefetchResult<Request> {
        get async {
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    change { state in
                        state.hasStarted = true
                        state.waiters.append(continuation)
                    }
                }
            } onCancel: {
                stop()
            }
        }
    }

    // MARK: Calls

    @discardableResult
    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, mustPump) = state.withLock { state -> (Result, Bool) in
            let result = body(&state)
            let mustPump = !state.isPumping && mayTake(state)
            if mustPump { state.isPumping = true }
            return (result, mustPump)
        }
        // Before pumping, so that hooks that run in place do not find more and more to tell.
        tell()
        if mustPump { run { self.pump() } }
        return result
    }

    private func mayTake(_ state: borrowing State) -> Bool {
        // mutant Prefetch: `ed && !state.isPaused && !state.waiting` => `ed && !state.waiting`
        state.hasStarted && !state.isPaused && !state.waiting.isEmpty && state.parked.count < Self.maxParked
            && state.calls.count - state.parked.count < maxOutstanding
    }

    /// Looks at requests as long as there is room for calls. Only one pump runs at a time.
    private func pump() {
        for _ in 0..<Self.batch {
            let taken = state.withLock { state -> (Int, Request)? in
                guard mayTake(state), let request = state.waiting.popFirst() else {
                    state.isPumping = false
                    return nil
                }
                state.lastCall += 1
                state.calls[state.lastCall] = Call(request: request)
                return (state.lastCall, request)
            }
            guard let (number, request) = taken else { return tell() }
            if isCached(request) {
                state.withLock { state in
                    if state.leave(number) != nil { state.result.skipped.append(request) }
                }
            } else {
                // A call that is stopped meanwhile makes no request.
                hold { call(number, request) }
            }
        }
        tell()
        run { self.pump() }
    }

    private func call(_ number: Int, _ request: Request) {
        let task = makeCall(request)
        let given = priority
        if let given { task.priority = given }
        listen(to: task, number)
        // The call may have ended or been taken out already.
        let (isWanted, priority) = state.withLock { state in
            state.calls[number]?.task = task
            return (state.calls[number] != nil, state.priority)
        }
        if !isWanted { task.cancel() }
        if let priority, priority != given { task.priority = priority }
    }

    private func listen(to task: some FetchTask, _ number: Int) {
        task.onFail { [self] _, isFatal in
            guard !isFatal else { return }
            change { state in
                if state.calls[number] != nil { state.parked.insert(number) }
            }
        }
        task.onRetry { [self] in change { state in _ = state.parked.remove(number) } }
        task.onEnd { [self] result in
            let error = result.error
            // The call is released where no lock is held.
            _ = change { state -> Call? in
                guard let call = state.leave(number) else { return nil }
                if let error {
                    state.result.failed.append(.init(request: call.request, error: error))
                } else {
                    state.result.completed.append(call.request)
                }
                return call
            }
        }
    }

    // MARK: Hooks and waiters

    /// If the hooks are being called already, they hear of this news as well.
    private func tell() {
        let ((waiters, result), isFirst) = state.withLock { state in
            let isFirst = !state.isTelling && state.hasNews
            if isFirst { state.isTelling = true }
            return (state.takeWaiters(), isFirst)
        }
        for waiter in waiters { waiter.resume(returning: result) }
        if isFirst { tellNews() }
    }

    /// One piece of news in each turn of the queue, so that other work has its turn.
    private func tellNews() {
        callbackQueue.perform { [self] in
            while let hooks = state.withLock({ $0.nextHooks() }) {
                hooks()
                if !callbackQueue.isInPlace { return tellNews() }
            }
        }
    }
}

/// The progress of a prefetcher.
public struct PrefetchProgress: Sendable, Hashable {
    /// The number of requests that ended with success.
    public var completed = 0
    /// The number of requests that ended with an error.
    public var failed = 0
    /// The number of requests that were skipped, because the cache could answer them already.
    public var skipped = 0
    /// The number of all requests, those that are still to come included.
    public var total = 0

    /// Creates a progress of no requests.
    public init() {}

    /// The number of requests that have ended, with success or not.
    public var finished: Int { completed + failed + skipped }
    /// The share of requests that have ended, from 0 to 1; 1 if there are no requests.
    public var fraction: Double { total == 0 ? 1 : Double(finished) / Double(total) }
}

/// The result of a prefetcher: of all requests that were added before their end was told.
public struct PrefetchResult<Request: Sendable>: Sendable {
    /// A request that ended with an error.
    public struct Failure: Sendable {
        /// The request that failed.
        public let request: Request
        /// The error that the request ended with.
        public let error: DipperError
    }

    /// The requests that ended with success, in the order in which they ended.
    public internal(set) var completed: [Request] = []
    /// The requests that ended with an error, after the retries that their policies allow.
    public internal(set) var failed: [Failure] = []
    /// The requests that were skipped, because the cache could answer them already.
    public internal(set) var skipped: [Request] = []
    /// The requests that were not done when the prefetcher was stopped: those under way, then those that waited.
    public internal(set) var remaining: [Request] = []
}
