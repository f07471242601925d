import DipperData
import Foundation

/// The comparison of fetching small files from a server on this machine: the cost of the cache on top of libcurl.
struct Fetching: Comparison {
    let name = "fetch"
    let title = "Fetch"

    private static let ours = "DataCache, memory only"
    private static let oursOnDisk = "DataCache with a directory"
    private static let loop = "libcurl multi loop in C"
    private static let curl = "curl --parallel"
    private static let curlAlone = "curl --parallel, start of the process taken off"
    private static let client = "async-http-client"
    private static let session = "URLSession"

    func run(_ bench: Bench) async throws -> [Table] {
        let count = 2_000
        let server = try await WebServer(bench, files: count, size: 20_000)
        defer { server.end() }
        let disk = bench.isQuick ? nil : try DiskFolder(bench)
        defer { disk?.end() }
        let texts = (0..<count).map { "\(server.base)/\($0)" }
        let urls = texts.compactMap(URL.init(string:))
        let peers = try CurlPeers(bench, base: server.base, urls: texts)
        let client = HTTPPeers.asyncHTTPClient(bench)
        var figures = Figures()
        var onDisk: [Int] = []
        let settings = [8, 32].map { (atOnce: $0, name: "\($0) at once") }
        for (atOnce, setting) in settings {
            var competitors = [
                Competitor(name: Self.ours) { try await Self.fetch(urls, atOnce: atOnce, folder: nil).rate },
                Competitor(name: Self.loop) { try peers.multiLoop(atOnce: atOnce) },
            ]
            if let disk {
                competitors += [
                    Competitor(name: Self.curl) { try peers.parallel(atOnce: atOnce) },
                    Competitor(name: Self.curlAlone) { try peers.parallelWithoutStart(atOnce: atOnce) },
                    Competitor(name: Self.oursOnDisk) {
                        let folder = try disk.make("fetch")
                        disk.settle()
                        let (rate, written) = try await Self.fetch(urls, atOnce: atOnce, folder: folder)
                        onDisk.append(written)
                        return rate
                    },
                    Competitor(name: Self.session) { try await HTTPPeers.urlSession(urls, atOnce: atOnce) },
                ]
                if let client {
                    competitors.append(
                        Competitor(name: Self.client) {
                            Double(count) / (try Command.number(client, [server.base, "\(count)", "\(atOnce)"]))
                        })
                }
            }
            try await figures.measure(setting, rounds: bench.rounds(9, quick: 7), competitors)
        }
        var table = table(figures, settings.map(\.name), bench, hasClient: client != nil)
        if let disk {
            table.remarks.append(
                "With a directory, for information: timed to the last body, not to the last write; at least "
                    + "\(onDisk.min() ?? 0) of 2,000 entries were on disk in the end. \(disk.remark)")
            if client == nil { table.remarks.append("\(Self.client) is not built: `make bench` builds it.") }
        }
        return [table]
    }

    /// Requests all files at once as urgent with a new cache, and waits for them one after the other.
    private static func fetch(_ urls: [URL], atOnce: Int, folder: String?) async throws -> (
        rate: Double, written: Int
    ) {
        var configuration = DataCache.Configuration(
            directory: folder.map { URL(fileURLWithPath: $0, isDirectory: true) })
        configuration.memoryLimit = 4 << 20
        configuration.fastQueue = QueueConfiguration(maxConcurrent: atOnce)
        let cache = DataCache(configuration)
        var bodies: [Data] = []
        bodies.reserveCapacity(urls.count)
        let time = try await seconds {
            let tasks = urls.map { cache.getRemoteData($0) }
            for task in tasks { bodies.append(try await task.value) }
        }
        guard bodies.allSatisfy({ $0.count == 20_000 }) else { throw BenchError("a body is cut short") }
        await cache.synchronize()
        let written = cache.diskCount
        await cache.shutdown()
        return (Double(urls.count) / time, written)
    }

    private func table(_ figures: Figures, _ settings: [String], _ bench: Bench, hasClient: Bool) -> Table {
        var table = Table(
            "2,000 files of 20 KB from nginx on the loopback",
            says:
                "Files per second from the first request to the last body; a new client, so new connections, in "
                + "each turn; all but curl, which writes to /dev/null, keep the bodies in memory. curl is "
                + "timed as a command, and once more less what one file takes; the others without their start.",
            unit: "files/s",
            competitors: [
                Self.ours, Self.oursOnDisk, Self.loop, Self.curl, Self.curlAlone, Self.client, Self.session,
            ],
            settings: settings, figures: figures)
        let peers = [
            ("C loop", Self.loop, 0.75), ("curl --parallel", Self.curl, 1.3),
            ("curl --parallel less its start", Self.curlAlone, 1.3), ("async-http-client", Self.client, 1.2),
        ]
        for setting in settings {
            table.checks += peers[..<(bench.isQuick ? 1 : hasClient ? 4 : 3)].map { what, peer, limit in
                Check(
                    "memory only ÷ \(what), \(setting)", figures.ratio(Self.ours, peer, setting), .atLeast, limit)
            }
        }
        return table
    }
}
