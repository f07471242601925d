import DipperData
import Synchronization

/// A recorder of a cache's work that draws it: one row per fetch on a time axis, as SVG.
///
/// ```swift
/// let timeline = Timeline()
/// var configuration = DataCache.Configuration()
/// configuration.eventSinks = [timeline]
/// let cache = DataCache(configuration)
/// _ = try await cache.getData(url).value
/// try timeline.svg().write(toFile: "timeline.svg", atomically: true, encoding: .utf8)
/// ```
///
/// The picture shows in which queue a fetch waits, reads the disk and moves bytes, when it is paused for urgent work or
/// parked, when it changes its queue, and what answered its callers. The bands on top show when `fastQueue` is busy.
public final class Timeline: EventSink {
    private struct State {
        var events: [CacheEvent] = []
        var dropped = 0
    }

    private let limit: Int
    private let redaction: Redaction
    private let state = Mutex(State())

    /// Creates an empty timeline.
    /// - Parameters:
    ///   - limit: the most events to keep. Later events are only counted, and the picture shows their number.
    ///   - redaction: the rule that removes secrets from the names of the rows.
    public init(limit: Int = 200_000, redaction: Redaction = .standard) {
        self.limit = max(0, limit)
        self.redaction = redaction
    }

    /// The topics that the picture shows.
    public var topics: CacheEvent.Topics { [.calls, .fetches, .lookUps, .attempts] }

    /// Records an event, from any thread.
    public func receive(_ event: CacheEvent) {
        guard !topics.isDisjoint(with: event.kind.topics) else { return }
        state.withLock { state in
            if state.events.count < limit { state.events.append(event) } else { state.dropped += 1 }
        }
    }

    /// Returns the events recorded so far as an SVG document, 1,280 pixels wide and at most about 6,000 high.
    public func svg() -> String {
        let (events, dropped) = state.withLock { ($0.events, $0.dropped) }
        return TimelineSVG(TimelineChart(events, dropped: dropped), redaction).document()
    }
}
