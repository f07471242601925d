import DipperData
import Foundation
import Synchronization

/// Every call that was made, and how it ended.
final class CallLog: Sendable {
    /// Why a call was made.
    enum Purpose: Sendable {
        case document, row, ahead
    }

    struct Call: Sendable {
        let purpose: Purpose
        let url: URL
        let task: DataTask
    }

    struct End: Sendable {
        let purpose: Purpose
        let url: URL
        /// The lane the call ended in.
        let lane: Lane
        let result: Result<DataResponse, DipperError>
        /// From the call to its end.
        let wait: Duration
    }

    private struct State {
        var calls: [Call] = []
        var waits: [Duration?] = []
    }

    private let state = Mutex(State())

    /// Makes a call and remembers it.
    @discardableResult
    func add(_ purpose: Purpose, _ url: URL, _ get: (DataRequest) -> DataTask) -> DataTask {
        let clock = ContinuousClock()
        let start = clock.now
        // In place, for the time at which the bytes are there and not the one at which a queue gets to it.
        let task = get(DataRequest(url).with(\.callbackQueue, .inPlace))
        let number = state.withLock { state in
            state.calls.append(Call(purpose: purpose, url: url, task: task))
            state.waits.append(nil)
            return state.calls.count - 1
        }
        task.onEnd { [self] _ in
            let wait = start.duration(to: clock.now)
            state.withLock { $0.waits[number] = wait }
        }
        return task
    }

    /// Waits until every call has ended.
    func ends() async -> [End] {
        var ends: [End] = []
        for (number, call) in state.withLock({ $0.calls }).enumerated() {
            let result: Result<DataResponse, DipperError>
            do { result = .success(try await call.task.response) } catch { result = .failure(error) }
            let wait = await withCheckedContinuation { continuation in
                // Hooks are heard in the order they were added: the first one has noted the wait.
                call.task.onEnd { [self] _ in
                    continuation.resume(returning: state.withLock { $0.waits[number] })
                }
            }
            ends.append(
                End(
                    purpose: call.purpose, url: call.url, lane: call.task.lane, result: result,
                    wait: wait ?? .zero))
        }
        return ends
    }
}

/// Counts what a cache reports, beside its timeline.
final class EventTally: Sendable {
    struct Counts: Sendable {
        var pauses = 0
        var promotions = 0
        var demotions = 0
    }

    private let state = Mutex(Counts())

    var counts: Counts { state.withLock { $0 } }

    func record(_ event: CacheEvent) {
        state.withLock { counts in
            switch event.kind {
            case .paused: counts.pauses += 1
            case .laneChanged(.fast): counts.promotions += 1
            case .laneChanged(.slow): counts.demotions += 1
            default: break
            }
        }
    }
}
