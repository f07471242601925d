import Synchronization

/// Makes calls for many requests, a few at a time, for a cache of any kind.
package final class PrefetchCore<Request: Sendable>: Sendable {
    /// What becomes of a call.
    package enum News: Sendable {
        /// It waits for the network, or for its time.
        case parked
        /// It goes on.
        case resumed
        case ended(DipperError?)
    }

    /// What a cache does for it.
    package struct Driver: Sendable {
        /// Runs work that may block, such as a look at the disk, soon and elsewhere.
        package var run: @Sendable (@escaping @Sendable () -> Void) -> Void
        /// Whether a request would be answered without the network as it is wanted.
        package var isCached: @Sendable (Request) -> Bool
        /// Makes the call, and tells what becomes of it; what it returns cancels it.
        package var call: @Sendable (Request, @escaping @Sendable (News) -> Void) -> @Sendable () -> Void
        /// Where closures run.
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
        /// What cancels the calls under way.
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

    /// Requests looked at before others who look at the disk have their turn.
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
        // First, so that hooks that run here and now do not find more and more to tell.
        tell()
        if mustPump { driver.run { self.pump() } }
        return result
    }

    // MARK: Working

    /// Looks at requests as long as there is room for calls. Runs once at a time.
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
            // Freed where no lock is held.
            _ = consume done
        }
        // It may have ended already, or have been stopped.
        let isStopped = shared.withLock { shared in
            if shared.state.isRunning(number) { shared.cancels[number] = cancel }
            return shared.state.isStopped
        }
        if isStopped { cancel() }
    }

    // MARK: Telling

    package func onProgress(_ body: @escaping @Sendable (PrefetchProgress) -> Void) {
        shared.withLock { $0.progressHooks.append(body) }
    }

    package func onEnd(_ body: @escaping @Sendable (PrefetchResult<Request>) -> Void) {
        let result = shared.withLock { shared -> PrefetchResult<Request>? in
            if shared.hasToldEnd { return shared.state.result }
            shared.endHooks.append(body)
            return nil
        }
        if let result { place { body(result) } }
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

    private func place(_ work: @escaping @Sendable () -> Void) {
        if let run = driver.callbackQueue.run { run(work) } else { work() }
    }

    /// Whether hooks run on a queue, which may be held up: those who await the end do not wait for it then.
    private var isQueued: Bool { driver.callbackQueue.run != nil }

    /// Has hooks called, if they are not being called: then they hear of this too.
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

    /// One turn for each piece of news, so that the queue's other work has its turn too.
    private func placeTurn() {
        guard isQueued else {
            while tellNext() {}
            return
        }
        place { if self.tellNext() { self.placeTurn() } }
    }

    /// - Returns: true if there is more to tell.
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
            // There may be progress again.
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
