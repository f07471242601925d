import ArgumentParser
import Dipper
import Foundation

/// Scrolls through pictures as someone does who flings a list about, and prints: milliseconds from the end of a fling to
/// all pictures on screen being there, for flings that run out and for those that are stopped; the share of frames with all
/// of them there; and requests made.
struct ScrollingChild: AsyncParsableCommand {
    enum Mode: String, ExpressibleByArgument {
        /// ``ListLoader``.
        case list
        /// What comes on screen urgently, what follows as prefetches; nothing is taken back.
        case queues
        /// What comes on screen, in one queue.
        case queue
        /// What is on screen in the end, and nothing before.
        case alone
    }

    static let configuration = CommandConfiguration(commandName: "scrolling-child", shouldDisplay: false)
    private static let screen = 12
    private static let frame = 1.0 / 60

    @Option var base: String
    @Option var certificate: String
    @Option var rows: Int
    @Option var mode: Mode

    func run() async throws {
        var configuration = ImageCache.Configuration()
        configuration.data.network.caBundle = certificate
        configuration.data.memoryLimit = 0
        let cache = ImageCache(configuration)
        let asked = Asked(cache, mode: mode, rows: rows, base: base)
        var (first, settled, stopped, frames, complete) = (0.0, [Double](), [Double](), 0, 0)
        // Rows a second at which a fling begins; it loses two thirds of its speed each 0.6 s.
        let flings = [60.0, 150, 300, 600, -400].flatMap { [($0, 2.0), ($0, abs($0) / 2)] }
        for (fling, (speed, least)) in flings.enumerated() {
            // Reads on for a second, a row every quarter.
            for tick in 0..<60 {
                if tick % 15 == 0, fling > 0 || tick > 0 { first += 1 }
                frames += 1
                if asked.show(Int(first), isResting: true) { complete += 1 }
                try await Task.sleep(for: .seconds(Self.frame))
            }
            var now = speed
            while abs(now) > least {
                first = min(max(0, first + now * Self.frame), Double(rows - Self.screen))
                _ = asked.show(Int(first), isResting: false)
                now *= exp(-Self.frame / 0.6)
                try await Task.sleep(for: .seconds(Self.frame))
            }
            let start = monotonicSeconds()
            var end: Double? = asked.show(Int(first), isResting: true) ? 0 : nil
            var tick = 0
            while tick < 240 || end == nil {
                // Finer than frames, so that they do not blur the figure.
                try await Task.sleep(for: .milliseconds(4))
                tick += 1
                if end == nil, asked.show(Int(first), isResting: true, isNew: false) {
                    end = (monotonicSeconds() - start) * 1_000
                }
                if tick % 4 == 0, tick <= 240 {
                    frames += 1
                    if end != nil { complete += 1 }
                }
                guard tick < 10_000 else { throw BenchError("pictures are missing after a fling") }
            }
            if least == 2 { settled.append(end ?? 0) } else { stopped.append(end ?? 0) }
        }
        func mean(_ times: [Double]) -> Double { times.reduce(0, +) / Double(times.count) }
        print(mean(settled), mean(stopped), Double(complete) / Double(frames) * 100, asked.requests)
        await cache.shutdown()
    }

    /// Makes the calls of one mode.
    private final class Asked {
        private let cache: ImageCache
        private let mode: Mode
        private let list: ListLoader?
        private let rows: Int
        private let base: String
        private var known: Set<Int> = []

        init(_ cache: ImageCache, mode: Mode, rows: Int, base: String) {
            self.cache = cache
            self.mode = mode
            self.rows = rows
            self.base = base
            list =
                mode == .list
                ? ListLoader(cache, count: rows) { row in Self.request(base, row).map { [$0] } ?? [] } : nil
        }

        var requests: Int { cache.data.statistics.networkRequests }

        private static func request(_ base: String, _ row: Int) -> ImageRequest? {
            URL(string: "\(base)/\(row)").map { ImageRequest($0) }
        }

        /// - Returns: whether all that is on screen is there.
        func show(_ first: Int, isResting: Bool, isNew: Bool = true) -> Bool {
            let visible = first..<min(rows, first + ScrollingChild.screen)
            if isNew {
                switch mode {
                case .list: list?.update(visible: visible)
                case .alone: if isResting { ask(visible) { cache.getImage($0) } }
                case .queue: ask(visible) { cache.getImage($0) }
                case .queues:
                    ask(visible) { cache.getImage($0) }
                    let next = visible.upperBound..<min(rows, visible.upperBound + 2 * ScrollingChild.screen)
                    ask(next, marks: false) { cache.slowGetImage($0) }
                }
            }
            return visible.allSatisfy { row in
                Self.request(base, row).map { cache.hasProcessedImage(for: $0) } ?? false
            }
        }

        private var prefetched: Set<Int> = []

        private func ask(_ rows: Range<Int>, marks: Bool = true, _ call: (ImageRequest) -> ImageTask) {
            for row in rows {
                let isNew = marks ? known.insert(row).inserted : prefetched.insert(row).inserted
                if isNew, let request = Self.request(base, row) { _ = call(request) }
            }
        }
    }
}
