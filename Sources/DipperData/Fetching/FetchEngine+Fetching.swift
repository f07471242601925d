import Foundation

/// What happens between a job's start and its end.
extension FetchEngine {
    func lookedUp(_ id: JobID, _ job: FetchJob, _ found: (value: StoredData, source: DataResponse.Source)?) {
        if let found {
            job.withState { $0.cached = DataResponse(found.value, source: found.source) }
        }
        apply { $0.lookedUp(id, hit: found != nil, into: &$1) }
    }

    /// One attempt.
    func transfer(_ id: JobID, _ job: FetchJob, lane: Lane, isThrottled: Bool) {
        // The entry may have come into memory by another way since the call was made.
        if !job.withState({ $0.insistsOnNetwork }), let value = store.memory.value(for: job.key) {
            job.withState { $0.fetched = DataResponse(value, source: .memory) }
            apply { $0.finished(id, into: &$1) }
            return
        }
        guard let url = job.request.url else { return }
        let time = time.now()
        job.withState { state in
            state.attempts += 1
            state.isTransferring = true
            state.lastProgress = nil
            state.budget.run(at: time)
            if isThrottled { state.budget.hold(at: time) }
        }
        reporter.requested(job.key)
        armTimeouts(of: id, job)
        let request = TransferRequest(url: url, headers: job.request.headers, lane: lane, isThrottled: isThrottled)
        let transfer = transport.start(request) { [weak self] event in self?.receive(event, id, job) }
        // A transfer that has ended holds the job: kept by it, neither would ever go.
        job.withState { if $0.isTransferring { $0.transfer = transfer } }
    }

    private func receive(_ event: TransferEvent, _ id: JobID, _ job: FetchJob) {
        switch event {
        case .progress(let received, let expected):
            guard job.wantsProgress.load(ordering: .relaxed) else { return }
            report(TaskProgress(received: received, expected: expected), id, job)
        case .finished(.failure(let error)):
            failed(id, job, error)
        case .finished(.success(let response)):
            reporter.received(response, job.key)
            if (200...299).contains(response.status) {
                succeeded(id, job, response)
            } else {
                var error = DipperError.status(response.status)
                error.retryAfter = response.headers["Retry-After"].flatMap {
                    RetryAfter.delay(from: $0, now: now())
                }
                failed(id, job, error)
            }
        }
    }

    private func report(_ progress: TaskProgress, _ id: JobID, _ job: FetchJob) {
        let time = time.now()
        let isDue = job.withState { state in
            if let last = state.lastProgress, time - last < options.progressInterval,
                progress.received != progress.expected
            {
                return false
            }
            state.lastProgress = time
            return true
        }
        guard isDue else { return }
        for (_, task) in inspect({ $0.waiters(of: id) }) where task.tell(progress) { task.flush() }
    }

    private func succeeded(_ id: JobID, _ job: FetchJob, _ response: TransferResponse) {
        let value = StoredData(
            data: response.body,
            info: EntryInfo(
                url: job.request.urlString, status: response.status, headers: response.headers,
                stored: now().timeIntervalSince1970))
        let keepsOnDisk = job.withState { state in
            state.fetched = DataResponse(
                data: response.body, source: .network, status: response.status, headers: response.headers,
                attempts: state.attempts, metrics: response.metrics)
            state.isWritten = !state.keepsOnDisk
            state.transfer = nil
            state.isTransferring = false
            return state.keepsOnDisk
        }
        store.add(value, for: job.key, request: job.request, onDisk: keepsOnDisk) {
            let waiting = job.withState { state in
                state.isWritten = true
                return exchange(&state.whenWritten, with: [])
            }
            for finish in waiting { finish() }
        }
        apply { $0.finished(id, into: &$1) }
    }

    // MARK: Failure

    private func failed(_ id: JobID, _ job: FetchJob, _ error: DipperError) {
        let time = time.now()
        let isOffline = error.mayPass && error.status == nil && !network.canReach(job.host)
        job.withState { state in
            state.failure = error
            state.transfer = nil
            state.isTransferring = false
            if isOffline { state.budget.hold(at: time) }
        }
        var ending: [TaskID] = []
        var delay: Duration?
        for (taskID, task) in inspect({ $0.waiters(of: id) }) {
            switch verdict(on: task, job, error, isOffline: isOffline, time: time) {
            case .end:
                ending.append(taskID)
            case .retry(let wait):
                delay = min(delay ?? wait, wait)
            case .waitForNetwork(let patience):
                if let patience { armPatience(patience, of: taskID, id) }
            }
        }
        reporter.failedAttempt(job.key, error, willRetry: isOffline || delay != nil)
        let parking: Scheduler.Parking? =
            !error.mayPass ? nil : isOffline ? .untilNetworkReturns : .backOff(delay ?? .zero)
        apply { $0.failed(id, ending: ending, parking: parking, into: &$1) }
        // The network may have returned between the question and the parking.
        if isOffline, network.canReach(job.host) { networkChanged() }
    }

    private enum Verdict {
        case end
        case retry(after: Duration)
        /// For at most so long; `nil` for ever.
        case waitForNetwork(Duration?)
    }

    private func verdict(
        on task: DataTask, _ job: FetchJob, _ error: DipperError, isOffline: Bool, time: Duration
    ) -> Verdict {
        guard error.mayPass else { return .end }
        let policy = task.call.retryPolicy
        let (failures, elapsed) = task.withLink { link in
            if !isOffline { link.failures += 1 }
            let first = link.firstFailure ?? time
            link.firstFailure = first
            return (link.failures, time - first)
        }
        if isOffline {
            guard policy.waitsForNetwork else { return .end }
            guard let deadline = policy.deadline else { return .waitForNetwork(nil) }
            return elapsed < deadline ? .waitForNetwork(deadline - elapsed) : .end
        }
        let context = RetryPolicy.Context(failures: failures, error: error, elapsed: elapsed)
        guard let delay = policy.delay(after: context, unit: options.random()) else { return .end }
        if let timeout = task.call.timeout, job.withState({ $0.budget.spent(at: time) }) + delay >= timeout {
            return .end
        }
        return .retry(after: delay)
    }

    /// Ends a task that has waited long enough for the network, if it still does.
    private func armPatience(_ patience: Duration, of task: TaskID, _ job: JobID) {
        timers.schedule(after: patience) { [weak self] in
            self?.apply { scheduler, actions in
                if scheduler.isParked(job) { scheduler.cancel(task, as: .failed, into: &actions) }
            }
        }
    }

    // MARK: Time limits

    /// Watches the time limits of the tasks that wait for a job, once it has started.
    func armTimeouts(of id: JobID, _ job: FetchJob) {
        guard job.withState({ $0.hasTimeLimits && $0.budget.hasStarted }) else { return }
        for (taskID, task) in inspect({ $0.waiters(of: id) }) { armTimeout(of: taskID, task, job) }
    }

    func armTimeout(of id: TaskID, _ task: DataTask, _ job: FetchJob) {
        guard let timeout = task.call.timeout, job.withState({ $0.budget.hasStarted }) else { return }
        let isNew = task.withLink { link in
            defer { link.isTimeoutArmed = true }
            return !link.isTimeoutArmed
        }
        if isNew { watch(id, job, since: job.withState { $0.budget.spent(at: time.now()) }, timeout) }
    }

    private func watch(_ task: TaskID, _ job: FetchJob, since start: Duration, _ timeout: Duration) {
        let left = timeout - (job.withState { $0.budget.spent(at: time.now()) } - start)
        guard left > .zero else {
            apply { $0.cancel(task, as: .timedOut, into: &$1) }
            return
        }
        // The timer must not keep what the job has fetched.
        timers.schedule(after: left) { [weak self, weak job] in
            guard let self, let job, self.inspect({ $0.lane(of: task) }) != nil else { return }
            self.watch(task, job, since: start, timeout)
        }
    }

    // MARK: The network

    func networkChanged() {
        let waiting = inspect { $0.jobsWaitingForNetwork }
        let reachable = waiting.filter { network.canReach($0.work.host) }
        guard !reachable.isEmpty else { return }
        for (_, job) in reachable {
            let time = time.now()
            job.withState { $0.budget.run(at: time) }
        }
        // Several caches, or several processes, hear of the network at one time: they start at different ones.
        let offset = options.wakeSpacing * options.random()
        apply {
            $0.networkReturned(
                for: reachable.map(\.id), spacing: options.wakeSpacing, offset: offset, into: &$1)
        }
    }
}

extension DataResponse {
    init(_ value: StoredData, source: Source) {
        self.init(data: value.data, source: source, status: value.info.status, headers: value.info.headers)
    }
}
