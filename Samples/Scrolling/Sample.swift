import Dipper
import DipperInspector
import Foundation
import SampleServer

/// A JSON Feed (`feed.json`), of which the sample reads only the pictures.
private struct Feed: Decodable {
    struct Item: Decodable {
        /// A path relative to the feed.
        let image: String
    }

    let items: [Item]
}

/// The sample: runs the replay, then fetches everything again with a new cache on the same folder.
struct Sample {
    private let options: Options
    private let scroll = Scroll(rows: 60, screen: 6, ahead: 8)

    init(_ options: Options) {
        self.options = options
    }

    func run() async throws -> Bool {
        let assets = try Assets(options.assets)
        let folder = options.cache ?? temporaryFolder()
        defer { if options.cache == nil { try? FileManager.default.removeItem(at: folder) } }
        let server = try AssetServer(assets, port: options.port, pace: options.pace)
        var report = Report(assets: assets)
        report.introduce(scroll, server.url, options.pace)

        let timeline = Timeline()
        let tally = EventTally()
        let cache = makeCache(folder, sinks: [timeline, tally])
        let inspector = options.isInspected ? try inspect(cache) : nil
        let clock = ContinuousClock()
        let start = clock.now
        let first = try await scrollThrough(cache, server.url)
        let duration = start.duration(to: clock.now)
        report.firstPass(first, duration, tally.counts, server, cache)
        if inspector != nil { await lineEntered() }
        await inspector?.stop()
        await cache.shutdown()
        let svg = timeline.svg()

        let requests = server.log.count
        let again = makeCache(folder, sinks: [])
        let secondStart = clock.now
        let second = await fetchAll(again, first)
        let secondDuration = secondStart.duration(to: clock.now)
        report.secondPass(second, secondDuration, requests: server.log.count - requests, again)
        await again.shutdown()
        await server.stop()

        try svg.write(to: options.timeline, atomically: true, encoding: .utf8)
        try contactSheet(of: first).write(to: options.contactSheet, options: .atomic)
        report.conclude(timeline: options.timeline, contactSheet: options.contactSheet)
        return report.isGood
    }

    private func inspect(_ cache: ImageCache) throws -> Inspector {
        var options = Inspector.Options()
        options.recordsAlways = true
        let inspector = Inspector(cache, options)
        // Unlike with `print`, at once, also into a file.
        let line = "The cache can be watched at \(try inspector.start())\n"
        try FileHandle.standardOutput.write(contentsOf: Data(line.utf8))
        return inspector
    }

    /// Waits on a thread of its own, because reading blocks.
    private func lineEntered() async {
        print("The page stays until you press Return.")
        await withCheckedContinuation { (entered: CheckedContinuation<Void, Never>) in
            Thread.detachNewThread {
                _ = readLine()
                entered.resume()
            }
        }
    }

    private func makeCache(_ folder: URL, sinks: [any EventSink]) -> ImageCache {
        var configuration = ImageCache.Configuration(directory: folder)
        configuration.data.name = "scrolling"
        configuration.data.eventSinks = sinks
        // The server is on this machine: ignore proxies that the environment names.
        configuration.data.network.proxy = ""
        configuration.options.processors = [Thumbnails.downsample]
        return ImageCache(configuration)
    }

    /// Fetches the feed and the guide, then scrolls through a list that repeats the feed's photos.
    private func scrollThrough(_ cache: ImageCache, _ server: URL) async throws -> [CallLog.End] {
        let log = CallLog()
        let feed = log.add(.document, server.appendingPathComponent("feed.json"), cache.data.getData)
        log.add(.document, server.appendingPathComponent("guide.pdf"), cache.data.getData)
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
        await cache.idle()
        return log.ends
    }

    private func fetchAll(_ cache: ImageCache, _ ends: [CallLog.End]) async -> [CallLog.End] {
        let log = CallLog()
        var seen = Set<URL>()
        for end in ends where seen.insert(end.url).inserted {
            if end.purpose == .document {
                log.add(end.purpose, end.url, cache.data.getData)
            } else {
                log.add(end.purpose, end.url, cache.getImage)
            }
        }
        await cache.idle()
        return log.ends
    }

    private func contactSheet(of ends: [CallLog.End]) throws -> Data {
        var photos: [String: Image] = [:]
        for end in ends {
            if case .success(.picture(let image)) = end.result.map(\.content) { photos[end.url.path] = image }
        }
        let images = photos.sorted { $0.key < $1.key }.map(\.value)
        let sheet = ContactSheet(cell: Thumbnails.downsample.target.size)
        return try sheet.compose(images).encoded(as: .png)
    }

    private func temporaryFolder() -> URL {
        FileManager.default.temporaryDirectory.appendingPathComponent("dipper-scrolling-\(UUID().uuidString)")
    }
}
