import Dipper
import Foundation
import Synchronization

/// The comparison of a call for a decoded picture in memory with a call for bytes in memory.
struct ImageHit: Comparison {
    let name = "imagehit"
    let title = "Picture in memory"

    private static let images = "ImageCache.getImage(url)"
    private static let bytes = "DataCache.getData(url)"
    private static let processed = "ImageCache.getImage(request), a processor"
    private static let peeked = "ImageCache.imageInMemory(for: url)"
    private static let peekedBytes = "DataCache.readData(for: url)"

    func run(_ bench: Bench) async throws -> [Table] {
        let count = 10_000
        var random = SeededGenerator(seed: 1)
        let urls = sampleURLs(count)
        let images = ImageCache()
        let data = DataCache()
        let requests = urls.map { ImageRequest($0).processed(by: .downsample(width: 4, height: 4)) }
        for (url, request) in zip(urls, requests) {
            guard
                let image = Image(
                    size: PixelSize(width: 4, height: 4), premultiplied: [UInt8](repeating: 255, count: 64))
            else { throw BenchError("not a picture") }
            try images.addImage(image, for: url)
            try images.addImage(image, for: request)
            try data.addData(random.bytes(200), for: url)
        }
        for (url, request) in zip(urls, requests) {
            guard images.getImage(url).state == .finished, images.getImage(request).state == .finished,
                data.getData(url).state == .finished
            else { throw BenchError("\(url) is not in memory") }
        }

        // Each thread has an order of its own.
        let orders = (0..<2).map { _ in Array(0..<count).shuffled(using: &random) }
        var figures = Figures()
        for threads in [1, 2] {
            var turns: [TimedCompetitor] = []
            func add(_ name: String, _ pass: @escaping @Sendable ([Int]) -> Int) {
                turns.append(
                    TimedCompetitor(name: name, setting: Self.setting(threads)) {
                        Self.nanoseconds(threads, orders, pass)
                    })
            }
            add(Self.images) { order in order.count { images.getImage(urls[$0]).requestedQueue == .fast } }
            add(Self.bytes) { order in order.count { data.getData(urls[$0]).requestedQueue == .fast } }
            if !bench.isQuick {
                add(Self.processed) { order in
                    order.count { images.getImage(requests[$0]).requestedQueue == .fast }
                }
            }
            add(Self.peeked) { order in order.count { images.imageInMemory(for: urls[$0]) != nil } }
            add(Self.peekedBytes) { order in order.count { data.readData(for: urls[$0]) != nil } }
            try await figures.measure(rounds: bench.rounds(15, quick: 11), turns)
        }
        await images.shutdown()
        await data.shutdown()
        return [table(figures)]
    }

    private static func setting(_ threads: Int) -> String { threads == 1 ? "1 thread" : "\(threads) threads" }

    /// Returns the nanoseconds per operation: processor time of all threads and wall time, each divided by the
    /// operations of all threads.
    private static func nanoseconds(
        _ threads: Int, _ orders: [[Int]], _ pass: @escaping @Sendable ([Int]) -> Int
    ) -> Timing {
        let passes = 5
        let processor = Mutex(0.0)
        let time = seconds(threads: threads) { thread in
            let start = Timing.processorSeconds()
            for _ in 0..<passes { precondition(pass(orders[thread]) == orders[thread].count, "an entry is missing") }
            let own = Timing.processorSeconds() - start
            processor.withLock { $0 += own }
        }
        let operations = Double(passes * threads * orders[0].count)
        return Timing(processor: processor.withLock { $0 } * 1e9 / operations, wall: time * 1e9 / operations)
    }

    private func table(_ figures: Figures) -> Table {
        let settings = [1, 2].map(Self.setting)
        var table = Table(
            "A call among 10,000 pictures",
            says:
                "A task that has ended when it is given back, in random order, both caches with defaults and in memory "
                + "only. Processor time of one call; clock: wall time divided by the calls of all threads.",
            unit: "ns per call", competitors: [Self.images, Self.bytes, Self.processed, Self.peeked, Self.peekedBytes],
            settings: settings.flatMap { [$0, $0 + Figures.onTheClock] }, figures: figures)
        table.checks = settings.flatMap { setting in
            [
                Check("getImage ÷ getData, \(setting)", figures.ratio(Self.images, Self.bytes, setting), .atMost, 1.1),
                Check(
                    "imageInMemory ÷ readData, \(setting)", figures.ratio(Self.peeked, Self.peekedBytes, setting),
                    .atMost, 1.3),
            ]
        }
        return table
    }
}
