import Foundation

/// Ends tasks with the results of their jobs.
extension FetchEngine {
    func end(_ task: DataTask, _ job: FetchJob, _ ending: Ending, in queue: FetchQueue) {
        let state = job.snapshot
        let detached = task.detach(in: queue, attempts: state.attempts)
        for timer in detached.timers { timers.cancel(timer) }
        if state.findings.parked > 0 { dropParked(job) }
        let (found, answer, failure) = (state.findings.found, state.answer, state.failure)
        let result: Result<DataResponse, DipperError> =
            switch ending {
            case .cached: found.map { .success(kept($0, for: task)) } ?? .failure(.notCached)
            case .keptAnswer:
                found.map { .success(DataResponse($0.value, source: .stale)) } ?? .failure(failure ?? .transport)
            case .fetched: answer.map { .success($0.response) } ?? .failure(.transport)
            case .failed: .failure(task.withLink { $0.failure } ?? failure ?? .transport)
            case .notCached: .failure(.notCached)
            case .cancelled: .failure(.cancelled)
            case .timedOut: .failure(.timedOut)
            }
        finish(task, ending == .fetched ? answer?.keeping : found.map { .kept($0.place) }, result)
    }

    /// Returns the response of a task that is answered with what the tiers have.
    private func kept(_ found: FetchJob.Found, for task: DataTask) -> DataResponse {
        // The task's validation has accepted the answer at the look-up, and is not asked again.
        switch task.call.use(of: found.value.info, at: now().timeIntervalSince1970) {
        case .fresh: DataResponse(found.value, source: found.source)
        case .staleWhileRevalidating:
            DataResponse(found.value, source: .stale, revalidation: found.revalidation)
        case .stale, .revalidate: DataResponse(found.value, source: .stale)
        }
    }

    /// Ends a task with its result, once an answer is on disk if the task waits for that.
    func finish(
        _ task: DataTask, _ keeping: @autoclosure () -> JobAnswer.Keeping?, _ result: Result<DataResponse, DipperError>
    ) {
        guard task.request.waitsForDiskWrite, case .success = result, let keeping = keeping() else {
            return finish(task, result)
        }
        let isDurable = task.call.mustBeDurable
        let finish: @Sendable (Bool) -> Void = { isOnDisk in
            self.finish(task, isOnDisk || !isDurable ? result : .failure(.notWritten))
        }
        switch keeping {
        case .kept(let place): store.settle(place, task.call, isDurable ? .durable : .relaxed, whenDone: finish)
        case .written(let write): write.whenEnded(finish)
        }
    }

    /// Ends a task with its result.
    func finish(_ task: DataTask, _ result: Result<DataResponse, DipperError>) {
        revalidations.forget(task)
        events.ended(task, result.map(\.source))
        if task.end(result) { Afterwards.run(task.flush) }
    }
}
