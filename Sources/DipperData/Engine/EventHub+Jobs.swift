extension EventHub {
    // MARK: Calls

    @inline(__always)
    func began(_ task: DataTask) {
        tell(.calls, task.key, task.identity.id, .callBegan(task.requestedQueue))
    }

    func joined(_ task: DataTask, _ job: Fetch) {
        tell(.calls, task.key, task.identity.id, .callJoined(job: job.identity.id))
    }

    @inline(__always)
    func ended(_ task: DataTask, _ result: Result<ResponseSource, DipperError>) {
        callEnded(task.key, task.identity.id, result)
    }

    // MARK: Jobs

    func note(_ job: Fetch, _ note: FetchNote) {
        switch note {
        case .looking(let queue):
            guard wants(.lookUps), let id = job.lookUpSpan.begin() else { return }
            tell(.lookUps, job.key, id, of: job.identity.id, .lookUpBegan(queue))
        case .transferring(let queue):
            stopped(job)
            guard wants(.attempts), let id = job.attemptSpan.begin() else { return }
            tell(.attempts, job.key, id, of: job.identity.id, .attemptBegan(queue))
        case .queued(let queue):
            stopped(job)
            tell(.jobs, job.key, job.identity.id, .queued(queue))
        case .paused: tell(.jobs, job.key, job.identity.id, .paused)
        case .resumed: tell(.jobs, job.key, job.identity.id, .resumed)
        case .queueChanged(let queue): tell(.jobs, job.key, job.identity.id, .queueChanged(queue))
        case .parked:
            stopped(job)
            tell(.jobs, job.key, job.identity.id, .parked)
        case .ended:
            stopped(job)
            lookedUp(job, nil)
            tell(.jobs, job.key, job.identity.id, .jobEnded)
        }
    }

    func lookedUp(_ job: Fetch, _ source: ResponseSource?) {
        guard let id = job.lookUpSpan.end() else { return }
        tell(.lookUps, job.key, id, of: job.identity.id, .lookUpEnded(source))
    }

    // MARK: Attempts

    func requested(_ job: Fetch) {
        statistics.networkRequests.add(1, ordering: .relaxed)
        metrics.requested()
        tell(.requests, job.key, job.attemptSpan.id, of: job.identity.id, .requested)
    }

    func received(_ response: TransferResponse, _ job: Fetch) {
        statistics.networkBytes.add(response.body.count, ordering: .relaxed)
        metrics.transferred(response.metrics)
        tell(
            .requests, job.key, job.attemptSpan.id, of: job.identity.id,
            .received(status: response.status, bytes: response.body.count, metrics: response.metrics))
    }

    func answered(_ job: Fetch, _ source: ResponseSource) {
        guard let id = job.attemptSpan.end() else { return }
        tell(.attempts, job.key, id, of: job.identity.id, .attemptEnded(.answered(source)))
    }

    func failed(_ job: Fetch, _ error: DipperError, willRetry: Bool) {
        let id = job.attemptSpan.end()
        tell(
            [.attempts, .failures], job.key, id, of: job.identity.id,
            .attemptEnded(.failed(error, willRetry: willRetry)))
    }

    private func stopped(_ job: Fetch) {
        guard let id = job.attemptSpan.end() else { return }
        tell(.attempts, job.key, id, of: job.identity.id, .attemptEnded(.stopped))
    }
}

enum FetchNote {
    case queued(FetchQueue)
    case looking(FetchQueue)
    case transferring(FetchQueue)
    case paused
    case resumed
    case queueChanged(FetchQueue)
    case parked
    case ended
}
