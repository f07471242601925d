import DipperData
import Foundation

/// The comparison of revalidating entries on disk: the cost of the cache on top of libcurl.
struct Revalidation: Comparison {
    let name = "revalidate"
    let title = "Revalidation"

    private static let ours = "DataCache, an entry on disk"
    private static let curl = "libcurl easy handle in C"
    private static let setting = "µs per 304"
    private static let count = 1_000
    private static let size = 20_000

    func run(_ bench: Bench) async throws -> [Table] {
        let server = try await WebServer(bench, files: Self.count, size: Self.size)
        defer { server.end() }
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        let base = server.base + "/checked"
        let peer = try bench.compile("curl_revalidate", "libcurl")
        let urls = (0..<Self.count).compactMap { URL(string: "\(base)/\($0)") }
        let folder = try disk.make("revalidate")
        try await Self.store(urls, folder)
        var figures = Figures()
        try await figures.measure(
            Self.setting, rounds: bench.rounds(9, quick: 5),
            [
                Competitor(name: Self.ours) { try await Self.revalidate(urls, folder) },
                Competitor(name: Self.curl) {
                    try Command.number(peer, [base, "\(Self.count)"]) / Double(Self.count) * 1e6
                },
            ])
        var table = Table(
            "1,000 entries of 20 KB that must be revalidated, nginx on the loopback",
            says: "One after the other, from the asking to the answer 304 and, with ours, the body from the disk and "
                + "the renewed entry; one connection, kept.",
            unit: "µs", competitors: [Self.ours, Self.curl], settings: [Self.setting], figures: figures)
        table.checks = [
            Check("a 304 ÷ libcurl", figures.ratio(Self.ours, Self.curl, Self.setting), .atMost, 2.5)
        ]
        table.remarks = [disk.remark]
        return [table]
    }

    private static func store(_ urls: [URL], _ folder: String) async throws {
        let cache = DataCache(DataCache.Configuration(directory: URL(fileURLWithPath: folder, isDirectory: true)))
        for url in urls { _ = try await cache.getData(url).value }
        await cache.synchronize()
        let written = cache.diskCount
        await cache.shutdown()
        guard written == urls.count else { throw BenchError("only \(written) entries were written") }
    }

    /// Measures revalidation with a new cache, so that nothing is in memory. The connection is made before the
    /// measurement, as in the peer.
    private static func revalidate(_ urls: [URL], _ folder: String) async throws -> Double {
        let cache = DataCache(DataCache.Configuration(directory: URL(fileURLWithPath: folder, isDirectory: true)))
        let (first, rest) = (urls[0], urls.dropFirst())
        try await check(cache.getData(first))
        let time = try await seconds {
            for url in rest { try await check(cache.getData(url)) }
        }
        await cache.shutdown()
        return time / Double(rest.count) * 1e6
    }

    private static func check(_ task: DataTask) async throws {
        let response = try await task.response
        guard response.source == .revalidated, response.data.count == size else {
            throw BenchError("an entry with no-cache came from \(response.source.rawValue), not revalidated")
        }
    }
}
