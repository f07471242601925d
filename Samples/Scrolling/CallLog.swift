import Dipper
import Foundation
import Synchronization

/// A log of all calls and their results.
final class CallLog: Sendable {
    /// The purpose of a call.
    enum Purpose: Sendable {
        case document, row, ahead
    }

    /// The content that a call returned.
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
        /// The queue of the call when it ended.
        let queue: FetchQueue
        let result: Result<Answer, DipperError>
        /// The time from the call to its end.
        let wait: Duration

        var isCancelled: Bool { if case .failure(let error) = result { error.isCancelled } else { false } }
        var isFailed: Bool { if case .failure(let error) = result { !error.isCancelled } else { false } }
    }

    /// The results by number of the call; `nil` while a call is running.
    private let results = Mutex<[End?]>([])

    /// Makes a call for bytes and remembers it.
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

    /// Makes a call for a picture and remembers it.
    func add(_ purpose: Purpose, _ url: URL, _ get: (ImageRequest) -> ImageTask) {
        let end = begin(purpose, url)
        let task = get(ImageRequest(url).with(\.callbackQueue, .inPlace))
        task.onEnd { result in
            end(task.queue, result.map { Answer(content: .picture($0.image), source: $0.source) })
        }
    }

    /// Records the start of a call.
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

    /// The results of the calls that have ended.
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
