import Synchronization

/// The core of a prefetcher for a cache of any kind. It makes calls for many requests, a few at a time.
package final class PrefetchCore<Request: Sendable>: Sendable {
    /// An event in the life of a call.
    package enum News: Sendable {
        /// The call waits for the network or for its next attempt.
        case parked
        /// The call goes on.
        case resumed
        case ended(DipperError?)
    }

    /// The operations of a cache that a prefetcher uses.
    package struct Driver: Sendable {
        /// Runs work that may block, such as reading the disk, on another thread.
        package var run: @Sendable (@escaping @Sendable () -> Void) -> Void
        /// Returns whether the cache can answer a request as it is wanted without the network.
        package var isCached: @Sendable (Request) -> Bool
        /// Makes a call, and tells its events to the closure that it is given. Returns a closure that cancels the call.
        package var call: @Sendable (Request, @escaping @Sendable (News) -> Void) -> @Sendable () -> Void
        /// The queue on which closures run.
        package var callbackQueue: CallbackQueue

        package init(
            run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
            isCached: @escaping @Sendable (Request) -> Bool,
            call: @escaping @Sendable (Request, @escaping @Sendable (News) -> Void) -> @Sendable () -> Void,
            callbackQueue: CallbackQueue
        ) {
            self.run = run
            self.isCached = isCached
            self.call = call
            self.callbackQueue = callbackQueue
        }
    }

    private struct Shared {
        var state: PrefetchState<Request>
        /// The closures that cancel the calls under way, by the numbers of their requests.
        var cancels: [Int: @Sendable () -> Void] = [:]
        var isPumping = false
        var progressHooks: [@Sendable (PrefetchProgress) -> Void] = []
        var endHooks: [@Sendable (PrefetchResult<Request>) -> Void] = []
        var waiters: [CheckedContinuation<PrefetchResult<Request>, Never>] = []
        var told: PrefetchProgress?
        var isTelling = false
        var hasToldEnd = false

        var hasNewProgress: Bool { state.progress != told ?? PrefetchProgress() }
        var hasNews: Bool { !hasToldEnd && (hasNewProgress || state.hasEnded) }
    }

    /// The number of requests that are looked at before other users of the disk have their turn.
    private static var batch: Int { 32 }

    private let driver: Driver
    private let shared: Mutex<Shared>

    package init(_ requests: [Request], maxOutstanding: Int, _ driver: Driver) {
        self.driver = driver
        shared = Mutex(Shared(state: PrefetchState(requests, maxOutstanding: maxOutstanding)))
    }

    package var progress: PrefetchProgress { shared.withLock { $0.state.progress } }
    package var isPaused: Bool { shared.withLock { $0.state.isPaused } }

    package func start() { change { $0.state.start() } }
    package func pause() { change { $0.state.isPaused = true } }
    package func resume() { change { $0.state.isPaused = false } }

    package func add(_ requests: [Request]) -> Bool { change { $0.state.add(requests) } }

    package func stop() {
        let cancels = change { shared in
            shared.state.stop()
            return exchange(&shared.cancels, with: [:])
        }
        for cancel in cancels.values { cancel() }
    }

    private func change<Result: Sendable>(_ body: (inout Shared) -> Result) -> Result {
        let (result, mustPump) = shared.withLock { shared -> (Result, Bool) in
            let result = body(&shared)
            guard !shared.isPumping, shared.state.mayTake else { return (result, false) }
            shared.isPumping = true
            return (result, true)
        }
        // Before pumping, so that hooks that run in place do not find more and more to tell.
        tell()
        if mustPump { driver.run { self.pump() } }
        return result
    }

    // MARK: Requests

    /// Looks at requests as long as there is room for calls. Only one pump runs at a time.
    private func pump() {
        for _ in 0..<Self.batch {
            let taken = shared.withLock { shared in
                let taken = shared.state.take()
                if taken == nil { shared.isPumping = false }
                return taken
            }
            guard let (number, request) = taken else { return tell() }
            if driver.isCached(request) {
                shared.withLock { $0.state.skip(number) }
            } else {
                call(number, request)
            }
        }
        tell()
        driver.run { self.pump() }
    }

    private func call(_ number: Int, _ request: Request) {
        let cancel = driver.call(request) { news in
            let done = self.change { shared -> (@Sendable () -> Void)? in
                switch news {
                case .parked: shared.state.park(number)
                case .resumed: shared.state.unpark(number)
                case .ended(let error):
                    shared.state.end(number, error)
                    return shared.cancels.removeValue(forKey: number)
                }
                return nil
            }
            // Released where no lock is held.
            _ = consume done
        }
        // The call may have ended already, or the prefetcher may have been stopped.
        let isStopped = shared.withLock { shared in
            if shared.state.isRunning(number) { shared.cancels[number] = cancel }
            return shared.state.isStopped
        }
        if isStopped { cancel() }
    }

    // MARK: Progress and end

    package func onProgress(_ body: @escaping @Sendable (PrefetchProgress) -> Void) {
        shared.withLock { $0.progressHooks.append(body) }
    }

    package func onEnd(_ body: @escaping @Sendable (PrefetchResult<Request>) -> Void) {
        let result = shared.withLock { shared -> PrefetchResult<Request>? in
            if shared.hasToldEnd { return shared.state.result }
            shared.endHooks.append(body)
            return nil
        }
        if let result { driver.callbackQueue.perform { body(result) } }
    }

    package var value: PrefetchResult<Request> {
        get async {
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let result = shared.withLock { shared -> PrefetchResult<Request>? in
                        if isQueued ? shared.state.hasEnded : shared.hasToldEnd { return shared.state.result }
                        shared.waiters.append(continuation)
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
    private var isQueued: Bool { !driver.callbackQueue.isInPlace }

    /// Has the hooks called if there is news. If they are being called already, they hear of this news as well.
    private func tell() {
        let (isFirst, waiters, result) = shared.withLock { shared in
            let waiters = isQueued && shared.state.hasEnded ? exchange(&shared.waiters, with: []) : []
            let isFirst = !shared.isTelling && shared.hasNews
            if isFirst { shared.isTelling = true }
            return (isFirst, waiters, waiters.isEmpty ? PrefetchResult() : shared.state.result)
        }
        if isFirst { placeTurn() }
        for waiter in waiters { waiter.resume(returning: result) }
    }

    /// Places one turn for each piece of news, so that other work of the queue has its turn as well.
    private func placeTurn() {
        guard isQueued else {
            while tellNext() {}
            return
        }
        driver.callbackQueue.perform { if self.tellNext() { self.placeTurn() } }
    }

    /// Tells the hooks the next piece of news.
    /// - Returns: whether there is more to tell.
    private func tellNext() -> Bool {
        let (progress, hooks) = shared.withLock {
            shared -> (PrefetchProgress?, [@Sendable (PrefetchProgress) -> Void]) in
            guard shared.hasNewProgress else { return (nil, []) }
            shared.told = shared.state.progress
            return (shared.told, shared.progressHooks)
        }
        if let progress {
            for hook in hooks { hook(progress) }
        } else {
            tellEnd()
        }
        return shared.withLock { shared in
            shared.isTelling = shared.hasNews
            return shared.isTelling
        }
    }

    private func tellEnd() {
        let told = shared.withLock { shared -> Shared? in
            // More progress may have been made meanwhile, and is told first.
            guard !shared.hasNewProgress, shared.state.hasEnded else { return nil }
            shared.hasToldEnd = true
            let told = shared
            shared.progressHooks = []
            shared.endHooks = []
            shared.waiters = []
            return told
        }
        guard let told else { return }
        for hook in told.endHooks { hook(told.state.result) }
        for waiter in told.waiters { waiter.resume(returning: told.state.result) }
    }
}
