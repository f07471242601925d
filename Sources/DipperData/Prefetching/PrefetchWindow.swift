import DequeModule
import Synchronization

/// The calls of a prefetcher: few of many requests at a time, the next one as one ends.
package final class PrefetchWindow<Request: Hashable & Sendable>: Sendable {
    package enum News: Sendable {
        /// The call waits for the network or for its next attempt.
        case parked
        /// The call goes on.
        case resumed
        case ended(DipperError?)
    }

    /// The operations of a cache that a prefetcher uses.
    package struct Cache: Sendable {
        /// Runs work that may block, such as reading the disk, on another thread.
        let run: @Sendable (@escaping @Sendable () -> Void) -> Void
        /// Returns whether the cache can answer a request as it is wanted without the network.
        let isCached: @Sendable (Request) -> Bool
        /// Makes a call and tells its events to a closure. A priority replaces the request's own.
        let call: @Sendable (Request, Priority?, @escaping @Sendable (News) -> Void) -> any FetchTask
        let callbackQueue: CallbackQueue

        /// - Parameter call: makes a call in `slowQueue` whose closures are called in place.
        package init<Task: FetchTask>(
            run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
            isCached: @escaping @Sendable (Request) -> Bool, callbackQueue: CallbackQueue,
            call: @escaping @Sendable (Request) -> Task
        ) {
            (self.run, self.isCached, self.callbackQueue) = (run, isCached, callbackQueue)
            self.call = { request, priority, tell in
                let task = call(request)
                if let priority { task.priority = priority }
                task.onFail { _, isFatal in if !isFatal { tell(.parked) } }
                task.onRetry { tell(.resumed) }
                task.onEnd { tell(.ended($0.error)) }
                return task
            }
        }
    }

    private struct Call {
        let request: Request
        /// Whether the call waits, and holds no place meanwhile.
        var isParked = false
        var task: (any FetchTask)?
    }

    private struct State {
        var waiting: Deque<Request>
        var calls: [Int: Call] = [:]
        var lastCall = 0
        var parked = 0
        var hasStarted = false
        var hasEnded = false
        var isPaused = false
        var isPumping = false
        /// The priority of all calls; `nil` for those of the requests.
        var priority: Priority?
        var result = PrefetchResult<Request>()
        var progress = PrefetchProgress()
        var progressHooks: [@Sendable (PrefetchProgress) -> Void] = []
        var endHooks: [@Sendable (PrefetchResult<Request>) -> Void] = []
        var waiters: [CheckedContinuation<PrefetchResult<Request>, Never>] = []
        var told = PrefetchProgress()
        var isTelling = false
        var hasToldEnd = false

        var hasNews: Bool { !hasToldEnd && (progress != told || hasEnded) }

        /// - Parameter note: counts the call.
        mutating func leave(_ number: Int, _ note: (inout State, Request) -> Void) -> Call? {
            guard let call = calls.removeValue(forKey: number) else { return nil }
            if call.isParked { parked -= 1 }
            note(&self, call.request)
            endIfDone()
            return call
        }

        mutating func endIfDone() {
            if hasStarted, waiting.isEmpty, calls.isEmpty { hasEnded = true }
        }
    }

    /// The number of requests that are looked at before other users of the disk have their turn.
    private static var batch: Int { 32 }
    /// From this number of parked calls on no more are made, because each of them holds memory.
    private static var maxParked: Int { 256 }

    private let cache: Cache
    private let maxOutstanding: Int
    private let state: Mutex<State>

    package init(_ requests: [Request], maxOutstanding: Int, _ cache: Cache) {
        (self.cache, self.maxOutstanding) = (cache, max(1, maxOutstanding))
        var state = State(waiting: Deque(requests))
        state.progress.total = requests.count
        self.state = Mutex(state)
    }

    package var progress: PrefetchProgress { state.withLock { $0.progress } }
    package var isPaused: Bool { state.withLock { $0.isPaused } }

    package func start() {
        change { state in
            state.hasStarted = true
            state.endIfDone()
        }
    }

    package func pause() { change { $0.isPaused = true } }
    package func resume() { change { $0.isPaused = false } }

    package func add(_ requests: [Request]) -> Bool {
        change { state in
            guard !state.hasEnded else { return false }
            state.waiting.append(contentsOf: requests)
            state.progress.total += requests.count
            return true
        }
    }

    package func stop() {
        let calls = change { state -> [Call] in
            guard !state.hasEnded else { return [] }
            state.hasEnded = true
            let calls = exchange(&state.calls, with: [:]).sorted { $0.key < $1.key }.map(\.value)
            state.result.remaining = calls.map(\.request) + state.waiting
            state.waiting = []
            return calls
        }
        for call in calls { call.task?.cancel() }
    }

    package func remove(_ requests: Set<Request>) {
        let calls = change { state -> [Call] in
            let waiting = state.waiting.count
            state.waiting.removeAll(where: requests.contains)
            let calls = state.calls.filter { requests.contains($0.value.request) }
            for number in calls.keys { _ = state.leave(number) { _, _ in } }
            state.progress.total -= waiting - state.waiting.count + calls.count
            state.endIfDone()
            return calls.sorted { $0.key < $1.key }.map(\.value)
        }
        for call in calls { call.task?.cancel() }
    }

    package var priority: Priority? {
        get { state.withLock { $0.priority } }
        set {
            let calls = state.withLock { state in
                state.priority = newValue
                return state.calls.values.compactMap(\.task)
            }
            if let newValue { for task in calls { task.priority = newValue } }
        }
    }

    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, mustPump) = state.withLock { state -> (Result, Bool) in
            let result = body(&state)
            let mustPump = !state.isPumping && mayTake(state)
            if mustPump { state.isPumping = true }
            return (result, mustPump)
        }
        // Before pumping, so that hooks that run in place do not find more and more to tell.
        tell()
        if mustPump { cache.run { self.pump() } }
        return result
    }

    // MARK: Requests

    private func mayTake(_ state: borrowing State) -> Bool {
        // mutant Prefetch: `ed && !state.isPaused && !state.waiting` => `ed && !state.waiting`
        state.hasStarted && !state.isPaused && !state.waiting.isEmpty && state.parked < Self.maxParked
            && state.calls.count - state.parked < maxOutstanding
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
            if cache.isCached(request) {
                _ = state.withLock { state in
                    state.leave(number) { state, request in
                        state.progress.skipped += 1
                        state.result.skipped.append(request)
                    }
                }
            } else {
                call(number, request)
            }
        }
        tell()
        cache.run { self.pump() }
    }

    private func call(_ number: Int, _ request: Request) {
        let given = priority
        let task = cache.call(request, given) { [self] news in
            let done = change { state -> Call? in
                switch news {
                case .parked: setParked(number, true, &state)
                case .resumed: setParked(number, false, &state)
                case .ended(let error): return state.leave(number) { Self.note(error, of: $1, in: &$0) }
                }
                return nil
            }
            // Released where no lock is held.
            _ = consume done
        }
        // The call may have ended or been taken out already, or the prefetcher may have been stopped.
        let (isWanted, priority) = state.withLock { state in
            state.calls[number]?.task = task
            return (state.calls[number] != nil, state.priority)
        }
        if !isWanted { task.cancel() }
        if let priority, priority != given { task.priority = priority }
    }

    private func setParked(_ number: Int, _ isParked: Bool, _ state: inout State) {
        guard let call = state.calls[number], call.isParked != isParked else { return }
        state.calls[number]?.isParked = isParked
        state.parked += isParked ? 1 : -1
    }

    private static func note(_ error: DipperError?, of request: Request, in state: inout State) {
        if let error {
            state.progress.failed += 1
            state.result.failed.append(.init(request: request, error: error))
        } else {
            state.progress.completed += 1
            state.result.completed.append(request)
        }
    }

    // MARK: Progress and end

    package func onProgress(_ body: @escaping @Sendable (PrefetchProgress) -> Void) {
        state.withLock { $0.progressHooks.append(body) }
    }

    package func onEnd(_ body: @escaping @Sendable (PrefetchResult<Request>) -> Void) {
        let result = state.withLock { state -> PrefetchResult<Request>? in
            if state.hasToldEnd { return state.result }
            state.endHooks.append(body)
            return nil
        }
        if let result { cache.callbackQueue.perform { body(result) } }
    }

    package var value: PrefetchResult<Request> {
        get async {
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let result = state.withLock { state -> PrefetchResult<Request>? in
                        if isQueued ? state.hasEnded : state.hasToldEnd { return state.result }
                        state.waiters.append(continuation)
                        return nil
                    }
                    if let result { continuation.resume(returning: result) }
                }
            } onCancel: {
                stop()
            }
        }
    }

    /// Whether hooks run on a queue. Such a queue may be held up, so code that awaits the end does not wait for it.
    private var isQueued: Bool { !cache.callbackQueue.isInPlace }

    /// If the hooks are being called already, they hear of this news as well.
    private func tell() {
        let (isFirst, waiters, result) = state.withLock { state in
            let waiters = isQueued && state.hasEnded ? exchange(&state.waiters, with: []) : []
            let isFirst = state.hasNews && !exchange(&state.isTelling, with: state.isTelling || state.hasNews)
            return (isFirst, waiters, waiters.isEmpty ? PrefetchResult() : state.result)
        }
        if isFirst { tellNews() }
        for waiter in waiters { waiter.resume(returning: result) }
    }

    /// One piece of news in each turn of the queue, so that other work has its turn.
    private func tellNews() {
        guard isQueued else {
            while tellNext() {}
            return
        }
        cache.callbackQueue.perform { if self.tellNext() { self.tellNews() } }
    }

    private func tellNext() -> Bool {
        let call = state.withLock { state -> () -> Void in
            if state.progress != state.told {
                state.told = state.progress
                let (progress, hooks) = (state.progress, state.progressHooks)
                return { for hook in hooks { hook(progress) } }
            }
            guard state.hasEnded, !state.hasToldEnd else { return {} }
            state.hasToldEnd = true
            let (result, hooks, waiters) = (state.result, state.endHooks, state.waiters)
            let heard = state.progressHooks
            (state.progressHooks, state.endHooks, state.waiters) = ([], [], [])
            return {
                for hook in hooks { hook(result) }
                for waiter in waiters { waiter.resume(returning: result) }
                _ = heard
            }
        }
        call()
        return state.withLock { state in
            state.isTelling = state.hasNews
            return state.isTelling
        }
    }
}
