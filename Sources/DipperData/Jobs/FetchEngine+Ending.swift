import Foundation

/// Ends tasks with the results of their jobs.
extension FetchEngine {
    func end(_ task: DataTask, _ job: FetchJob, _ ending: Ending) {
        let (found, fetched, failure) = job.withState { ($0.found, $0.fetched, $0.failure) }
        let result: Result<DataResponse, DipperError> =
            switch ending {
            case .cached: found.map { .success(keptAnswer(for: task, $0)) } ?? .failure(.notCached)
            case .keptAnswer:
                found.map { .success(DataResponse($0.value, source: .stale)) } ?? .failure(failure ?? .transport)
            case .fetched: fetched.map { .success($0) } ?? .failure(.transport)
            case .failed: .failure(task.withLink { $0.failure } ?? failure ?? .transport)
            case .notCached: .failure(.notCached)
            case .cancelled: .failure(.cancelled)
            case .timedOut: .failure(.timedOut)
            }
        if task.request.waitsForDiskWrite, case .success(let response) = result, response.source != .network,
            response.source != .revalidated,
            let place = ending == .fetched ? job.withState({ $0.keptPlace }) : found?.place
        {
            return finish(task, whenOnDisk: place, result)
        }
        if ending == .fetched, task.request.waitsForDiskWrite, let write = job.withState({ $0.write }) {
            let isDurable = task.call.mustBeDurable
            return write.whenEnded { isOnDisk in
                self.finish(task, job, isOnDisk || !isDurable ? result : .failure(.notWritten))
            }
        }
        finish(task, job, result)
    }

    /// Ends a task with an answer of a tier, once the entry is on disk.
    func finish(_ task: DataTask, whenOnDisk place: CacheKey, _ result: Result<DataResponse, DipperError>) {
        let isDurable = task.call.mustBeDurable
        store.settle(place, task.call, isDurable ? .durable : .relaxed) { isOnDisk in
            self.finish(task, nil, isOnDisk || !isDurable ? result : .failure(.notWritten))
        }
    }

    /// Ends a task with its result.
    func finish(_ task: DataTask, _ job: FetchJob?, _ result: Result<DataResponse, DipperError>) {
        forgetRevalidation(task)
        reporter.ended(task.key, result)
        if task.end(result) { Afterwards.run(task.flush) }
    }
}
