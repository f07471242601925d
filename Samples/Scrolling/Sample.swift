import DipperData
import Foundation

/// Runs the replay twice, the second time with a new cache on the same folder.
struct Sample {
    private let options: Options
    private let scroll = Scroll(rows: 60, screen: 6, ahead: 8)

    init(_ options: Options) {
        self.options = options
    }

    /// True if all went as it should.
    func run() async throws -> Bool {
        let assets = try Assets(options.assets)
        let folder = options.cache ?? temporaryFolder()
        defer { if options.cache == nil { try? FileManager.default.removeItem(at: folder) } }
        let server = try await AssetServer(assets, port: options.port, pace: options.pace)
        var report = Report(assets: assets)
        report.introduce(scroll, server.url, options.pace)

        let timeline = Timeline()
        let tally = EventTally()
        let cache = makeCache(folder) { event in
            timeline.record(event)
            tally.record(event)
        }
        let clock = ContinuousClock()
        let start = clock.now
        let first = try await scrollThrough(cache, server.url)
        let duration = start.duration(to: clock.now)
        await cache.shutdown()
        report.firstPass(first, duration, tally.counts, server)
        let svg = timeline.svg()

        let requests = server.requestCount
        let again = makeCache(folder, observer: nil)
        let secondStart = clock.now
        let second = await fetchAll(again, first)
        let secondDuration = secondStart.duration(to: clock.now)
        await again.shutdown()
        report.secondPass(second, secondDuration, requests: server.requestCount - requests)
        await server.stop()

        try svg.write(to: options.timeline, atomically: true, encoding: .utf8)
        report.conclude(timeline: options.timeline)
        return report.isGood
    }

    private func makeCache(_ folder: URL, observer: (@Sendable (CacheEvent) -> Void)?) -> DataCache {
        var configuration = DataCache.Configuration(directory: folder)
        configuration.name = "scrolling"
        configuration.observer = observer
        // The server is on this machine, whatever proxy the environment names.
        configuration.network.proxy = ""
        return DataCache(configuration)
    }

    /// The documents first, then the photos the feed names, used in turn.
    private func scrollThrough(_ cache: DataCache, _ server: URL) async throws -> [CallLog.End] {
        let log = CallLog()
        let feed = log.add(.document, server.appendingPathComponent("feed.json"), cache.getData)
        log.add(.document, server.appendingPathComponent("guide.pdf"), cache.getData)
        let photos = try JSONDecoder().decode(Feed.self, from: await feed.value).items.map(\.image)
        let urls = (0..<scroll.rows).compactMap { row in
            photos.isEmpty ? nil : URL(string: "\(server)/\(photos[row % photos.count])?row=\(row)")
        }
        guard urls.count == scroll.rows else {
            throw Assets.Failure(description: "the feed has no pictures that can be fetched")
        }
        var list = ListView(scroll, urls: urls, cache: cache, log: log)
        for stop in scroll.stops {
            list.move(top: stop.top)
            try await Task.sleep(for: stop.stay)
        }
        return await log.ends()
    }

    /// Asks for each address of the first pass once.
    private func fetchAll(_ cache: DataCache, _ ends: [CallLog.End]) async -> [CallLog.End] {
        let log = CallLog()
        var seen = Set<URL>()
        for end in ends where seen.insert(end.url).inserted {
            log.add(end.purpose, end.url, cache.getData)
        }
        return await log.ends()
    }

    private func temporaryFolder() -> URL {
        FileManager.default.temporaryDirectory.appendingPathComponent("dipper-scrolling-\(UUID().uuidString)")
    }
}
