import Dipper
import Foundation
import Synchronization

final class CallLog: Sendable {
    enum Purpose: Sendable {
        case document, row, ahead
    }

    enum Content: Sendable {
        case bytes(Data)
        case picture(Image)
    }

    struct Answer: Sendable {
        let content: Content
        let source: ResponseSource
    }

    struct End: Sendable {
        let purpose: Purpose
        let url: URL
        let queue: FetchQueue
        let result: Result<Answer, DipperError>
        let wait: Duration

        var isCancelled: Bool { if case .failure(let error) = result { error.isCancelled } else { false } }
        var isFailed: Bool { if case .failure(let error) = result { !error.isCancelled } else { false } }
    }

    /// The results by number of the call; `nil` while a call is running.
    private let results = Mutex<[End?]>([])

    @discardableResult
    func add(_ purpose: Purpose, _ url: URL, _ get: (DataRequest) -> DataTask) -> DataTask {
        let end = begin(purpose, url)
        // In place, so that the time is that of the end and not that at which a callback queue runs the closure.
        let task = get(DataRequest(url).with(\.callbackQueue, .inPlace))
        task.onEnd { result in
            end(task.queue, result.map { Answer(content: .bytes($0.data), source: $0.source) })
        }
        return task
    }

    func add(_ purpose: Purpose, _ url: URL, _ get: (ImageRequest) -> ImageTask) {
        let end = begin(purpose, url)
        let task = get(ImageRequest(url).with(\.callbackQueue, .inPlace))
        task.onEnd { result in
            end(task.queue, result.map { Answer(content: .picture($0.image), source: $0.source) })
        }
    }

    /// - Returns: The closure to call at the end of the call.
    private func begin(
        _ purpose: Purpose, _ url: URL
    ) -> @Sendable (FetchQueue, Result<Answer, DipperError>) -> Void {
        let clock = ContinuousClock()
        let start = clock.now
        let number = results.withLock { results in
            results.append(nil)
            return results.count - 1
        }
        return { [self] queue, result in
            let end = End(purpose: purpose, url: url, queue: queue, result: result, wait: start.duration(to: clock.now))
            results.withLock { $0[number] = end }
        }
    }

    var ends: [End] { results.withLock { $0.compactMap(\.self) } }
}

/// Counters of the events that a cache reports, in addition to its timeline.
final class EventTally: EventSink {
    struct Counts: Sendable {
        var pauses = 0
        var promotions = 0
        var demotions = 0
    }

    private let state = Mutex(Counts())

    var counts: Counts { state.withLock { $0 } }

    var topics: CacheEvent.Topics { .fetches }

    func receive(_ event: CacheEvent) {
        state.withLock { counts in
            switch event.kind {
            case .paused: counts.pauses += 1
            case .queueChanged(.fast): counts.promotions += 1
            case .queueChanged(.slow): counts.demotions += 1
            default: break
            }
        }
    }
}
