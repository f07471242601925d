import DipperData
import DipperInspector
import Foundation
import Synchronization

/// The comparison of a cache that can be observed with one that nobody looks at.
struct Observing: Comparison {
    let name = "observe"
    let title = "Observing"

    private static let plain = "nothing attached"
    private static let inspected = "an inspector, no page open"
    private static let idle = "a sink that wants no event"
    private static let (hit, fetch) = ("memory hit", "fetch")
    private static let eventRate = 5_000.0

    func run(_ bench: Bench) async throws -> [Table] {
        let urls = sampleURLs(5_000)
        var figures = Figures()
        var caches: [(name: String, cache: DataCache, inspector: Inspector?)] = []
        for name in [Self.plain, Self.inspected, Self.idle] {
            let (cache, inspector) = try Self.cache(name)
            for url in urls { try cache.addData(Data(count: 200), for: url) }
            caches.append((name, cache, inspector))
        }
        // In both measurements, the caches take turns in short pieces.
        try await figures.measure(
            Self.hit, rounds: bench.rounds(61, quick: 41),
            caches.map { name, cache, _ in Competitor(name: name) { Self.hits(cache, urls) } })
        for (_, cache, inspector) in caches {
            await inspector?.stop()
            await cache.shutdown()
        }
        try await figures.measure(
            Self.fetch, rounds: bench.rounds(61, quick: 41),
            [Self.plain, Self.inspected, Self.idle].map { name in
                Competitor(name: name) { try await Self.fetches(urls, name) }
            })
        var table = Table(
            "A cache that could be observed",
            says:
                "Processor time of a call that memory answers, on the caller's thread, and of a fetch from a transport "
                + "that answers at once, of all threads.",
            unit: "µs per call", competitors: [Self.plain, Self.inspected, Self.idle],
            settings: [Self.hit, Self.fetch], figures: figures)
        for setting in [Self.hit, Self.fetch] {
            for name in [Self.inspected, Self.idle] {
                table.checks.append(
                    Check("\(name), \(setting)", figures.ratio(name, Self.plain, setting), .atMost, 1.01))
            }
        }
        let share = try await Self.shareOfPage(urls, rounds: bench.rounds(5, quick: 3))
        table.checks.append(
            Check("a page open, 5,000 events a second: processor time", share * 100, .atMost, 5, " % of a core"))
        return [table]
    }

    private static func cache(_ name: String) throws -> (DataCache, Inspector?) {
        var configuration = DataCache.Configuration()
        configuration.transport = InstantTransport()
        if name == idle { configuration.eventSinks = [IdleSink()] }
        let cache = DataCache(configuration)
        guard name == inspected else { return (cache, nil) }
        let inspector = Inspector(cache)
        try inspector.start()
        return (cache, inspector)
    }

    private static func hits(_ cache: DataCache, _ urls: [URL]) -> Double {
        let passes = 10
        let timing = Timing { for _ in 0..<passes { for url in urls { keep(cache.getData(url)) } } }
        return timing.processor * 1e3 / Double(passes * urls.count)
    }

    private static func fetches(_ urls: [URL], _ name: String) async throws -> Double {
        let (cache, inspector) = try cache(name)
        let start = Timing.processorSeconds(ofProcess: true)
        let tasks = urls.map { cache.getData($0) }
        for task in tasks { _ = try await task.value }
        let time = Timing.processorSeconds(ofProcess: true) - start
        await inspector?.stop()
        await cache.shutdown()
        return time * 1e6 / Double(urls.count)
    }

    // MARK: A page

    /// Fetches at a steady rate, in turns with a page open and without, and returns the processor time that the page
    /// takes, as a share of the time on the clock.
    private static func shareOfPage(_ urls: [URL], rounds: Int) async throws -> Double {
        let curl = try Command.require("curl")
        let perFetch = try await eventsPerFetch(urls)
        var shares: [Double] = []
        for _ in 0..<rounds {
            var used: [Double] = []
            for isOpen in [false, true] {
                let (cache, inspector) = try cache(inspected)
                let page = Process()
                if isOpen, let url = inspector?.url {
                    page.executableURL = URL(fileURLWithPath: curl)
                    page.arguments = ["-sN", url.absoluteString + "events", "-o", "/dev/null"]
                    try page.run()
                    try await Task.sleep(for: .milliseconds(500))
                }
                used.append(try await load(cache, urls, fetchesPerSecond: eventRate / perFetch))
                if isOpen {
                    guard page.isRunning else { throw BenchError("the inspector has closed its page") }
                    // A child inherits the signals that its parent's thread blocks, which SIGTERM may be one of.
                    kill(page.processIdentifier, SIGKILL)
                    page.waitUntilExit()
                }
                await inspector?.stop()
                await cache.shutdown()
            }
            say("  share of a core: \((used[0] * 100).short) % without a page, \((used[1] * 100).short) % with one")
            shares.append(used[1] - used[0])
        }
        return shares.median
    }

    private static func eventsPerFetch(_ urls: [URL]) async throws -> Double {
        let (cache, _) = try cache(plain)
        let counter = EventCounter()
        let observation = cache.observe(counter)
        for url in urls.prefix(1_000) { _ = try await cache.getData(url).value }
        await cache.shutdown()
        return withExtendedLifetime(observation) { Double(counter.count.load(ordering: .relaxed)) / 1_000 }
    }

    /// - Returns: the processor time of the process per second of the clock.
    private static func load(_ cache: DataCache, _ urls: [URL], fetchesPerSecond: Double) async throws -> Double {
        let (start, used) = (monotonicSeconds(), Timing.processorSeconds(ofProcess: true))
        var next = 0
        while case let passed = monotonicSeconds() - start, passed < 6, next < urls.count {
            let due = min(urls.count, Int(passed * fetchesPerSecond))
            if due > next { for url in urls[next..<due] { _ = try await cache.getData(url).value } }
            next = max(next, due)
            try await Task.sleep(for: .milliseconds(10))
        }
        return (Timing.processorSeconds(ofProcess: true) - used) / (monotonicSeconds() - start)
    }
}

/// Wants no event, as `TraceSink` of DipperTracing if the program has no tracer. That product is behind a trait, with which
/// the whole library would be compiled again.
private struct IdleSink: EventSink {
    var topics: CacheEvent.Topics { [] }
    func receive(_ event: CacheEvent) {}
}

private final class EventCounter: EventSink {
    let count = Atomic(0)
    func receive(_ event: CacheEvent) { count.add(1, ordering: .relaxed) }
}

/// Answers each request at once.
private struct InstantTransport: Transport {
    private struct Ended: Transfer {
        func cancel() {}
    }

    private static let body = Data(count: 200)

    func start(_ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void) -> any Transfer {
        receive(.finished(.success(TransferResponse(body: Self.body))))
        return Ended()
    }

    func shutdown() async {}
}
