import ArgumentParser
import Dipper
import Foundation

/// A child process that scrolls through pictures like a person who flings a list. It prints: milliseconds from the end
/// of a fling until all pictures on screen are loaded, for flings that run out and for flings that are stopped; the
/// percentage of frames with all pictures loaded; and the number of network requests.
struct ScrollingChild: AsyncParsableCommand {
    enum Mode: String, ExpressibleByArgument {
        /// A ``ListLoader`` makes the requests.
        case list
        /// Visible pictures are requested in a single queue.
        case queue
        /// Only the pictures on screen after each fling are requested.
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
        // The speed at which a fling begins, in rows per second; it falls by two thirds in 0.6 s.
        let flings = [150.0, 600, -400].flatMap { [($0, 2.0), ($0, abs($0) / 2)] }
        for (fling, (speed, least)) in flings.enumerated() {
            // Reading: one row every quarter of a second, for a second.
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
                // Checks are more frequent than frames, so that the figure is more precise than a frame.
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

    /// The requests of one mode.
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

        /// Requests the pictures for a position of the list.
        /// - Returns: Whether all pictures on screen are loaded.
        func show(_ first: Int, isResting: Bool, isNew: Bool = true) -> Bool {
            let visible = first..<min(rows, first + ScrollingChild.screen)
            if isNew {
                switch mode {
                case .list: list?.update(visible: visible)
                case .alone: if isResting { ask(visible) }
                case .queue: ask(visible)
                }
            }
            return visible.allSatisfy { row in
                Self.request(base, row).map { cache.hasProcessedImage(for: $0) } ?? false
            }
        }

        private func ask(_ rows: Range<Int>) {
            for row in rows where known.insert(row).inserted { Self.request(base, row).map { _ = cache.getImage($0) } }
        }
    }
}
