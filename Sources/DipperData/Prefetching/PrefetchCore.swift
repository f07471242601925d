import Synchronization

/// Makes calls for many requests, a few at a time, for a cache of any kind.
package final class PrefetchCore<Request: Sendable>: Sendable {
    /// What a cache does for it.
    package struct Driver: Sendable {
        /// Runs work that may block, such as a look at the disk, soon and elsewhere.
        package var run: @Sendable (@escaping @Sendable () -> Void) -> Void
        /// Whether a request would be answered without the network as it is wanted.
        package var isCached: @Sendable (Request) -> Bool
        /// Makes the call, and tells its end; what it returns cancels it.
        package var call: @Sendable (Request, @escaping @Sendable (DipperError?) -> Void) -> @Sendable () -> Void
        /// Where closures run.
        package var queue: CallbackQueue

        package init(
            run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
            isCached: @escaping @Sendable (Request) -> Bool,
            call: @escaping @Sendable (Request, @escaping @Sendable (DipperError?) -> Void) -> @Sendable () -> Void,
            queue: CallbackQueue
        ) {
            self.run = run
            self.isCached = isCached
            self.call = call
            self.queue = queue
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

    package func start() { change { $0.start() } }
    package func pause() { change { $0.isPaused = true } }
    package func resume() { change { $0.isPaused = false } }

    package func add(_ requests: [Request]) -> Bool {
        var isIn = false
        change { isIn = $0.add(requests) }
        return isIn
    }

    package func stop() {
        var cancels: [@Sendable () -> Void] = []
        change { state, shared in
            state.stop()
            cancels = Array(shared.values)
            shared = [:]
        }
        for cancel in cancels { cancel() }
    }

    private func change(_ body: (inout PrefetchState<Request>) -> Void) { change { state, _ in body(&state) } }

    private func change(_ body: (inout PrefetchState<Request>, inout [Int: @Sendable () -> Void]) -> Void) {
        let mustPump = shared.withLock { shared in
            body(&shared.state, &shared.cancels)
            guard !shared.isPumping, shared.state.mayTake else { return false }
            shared.isPumping = true
            return true
        }
        if mustPump { driver.run { self.pump() } }
        tell()
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
        let cancel = driver.call(request) { error in
            self.change { state, cancels in
                state.end(number, error)
                cancels[number] = nil
            }
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
                        if shared.hasToldEnd { return shared.state.result }
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
        if let run = driver.queue.run { run(work) } else { work() }
    }

    /// Has hooks called, if they are not being called: then they hear of this too.
    private func tell() {
        let isFirst = shared.withLock { shared in
            guard !shared.isTelling, !shared.hasToldEnd else { return false }
            shared.isTelling = true
            return true
        }
        if isFirst { place { self.tellAll() } }
    }

    private func tellAll() {
        while true {
            let (progress, hooks) = shared.withLock {
                shared -> (PrefetchProgress?, [@Sendable (PrefetchProgress) -> Void]) in
                let progress = shared.state.progress
                guard progress != shared.told ?? PrefetchProgress() else { return (nil, []) }
                shared.told = progress
                return (progress, shared.progressHooks)
            }
            if let progress {
                for hook in hooks { hook(progress) }
                continue
            }
            let end = shared.withLock { shared -> (isDone: Bool, end: Shared?) in
                if shared.state.progress != shared.told ?? PrefetchProgress() { return (false, nil) }
                shared.isTelling = false
                guard shared.state.hasEnded else { return (true, nil) }
                shared.hasToldEnd = true
                let end = shared
                shared.progressHooks = []
                shared.endHooks = []
                shared.waiters = []
                return (true, end)
            }
            if let told = end.end {
                for hook in told.endHooks { hook(told.state.result) }
                for waiter in told.waiters { waiter.resume(returning: told.state.result) }
            }
            if end.isDone { return }
        }
    }
}
