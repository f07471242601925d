import Foundation
import Synchronization

/// The comparison of the sample ImageServer with thumbor and a caching nginx, and what sharing costs.
struct Serving: Comparison {
    let name = "server"
    let title = "Image servers"

    private static let ours = "ImageServer"
    private static let thumbor = "thumbor, 2 processes"
    private static let nginx = "nginx proxy_cache, of thumbnails"
    private static let memoryLimit = 64
    private static let many = 10_000

    func run(_ bench: Bench) async throws -> [Table] {
        let medium = bench.photographs.appendingPathComponent("mountain-trail.jpg")
        let photographs = try ["photo": SamplePictures(bench).jpeg, "medium": medium].mapValues {
            try Data(contentsOf: $0)
        }
        _ = try PictureServer.thumbor(bench)
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        let origin = try await PictureOrigin(bench, photographs)
        defer { origin.end() }
        return [
            try await stampede(bench, origin, disk), try await speed(bench, origin, disk),
            try await Sharing.table(bench, disk),
        ]
    }

    private static func path(_ source: String) -> String { "/unsafe/fit:400x300/format:auto/\(source)" }
    private static func thumborPath(_ source: String) -> String { "/unsafe/fit-in/400x300/\(source)" }

    // MARK: Stampede

    /// Eight connections, four to each of two servers, that want the same 200 pictures at the same time.
    private func stampede(_ bench: Bench, _ origin: PictureOrigin, _ disk: DiskFolder) async throws -> Table {
        let redis = try await RedisPeer(disk)
        defer { redis.daemon.end() }
        let shared = ["--shared", redis.url]
        let ours = [
            (
                "two ImageServers on one folder",
                try await PictureServer(ours: bench, folder: disk.make("one")),
                try await PictureServer(ours: bench, folder: disk.path + "/one")
            ),
            (
                "two ImageServers on two folders and a Redis",
                try await PictureServer(ours: bench, folder: disk.make("two"), options: shared),
                try await PictureServer(ours: bench, folder: disk.make("three"), options: shared)
            ),
        ]
        let thumbors = [
            try await PictureServer(thumbor: bench, folder: disk.make("thumbor-1"), processes: 1),
            try await PictureServer(thumbor: bench, folder: disk.make("thumbor-2"), processes: 1),
        ]
        defer { for server in ours.flatMap({ [$0.1, $0.2] }) + thumbors { server.end() } }
        let source = origin.url("medium")
        var first = 0
        var asked: [String: [Int]] = [:]
        var made: [String: [Int]] = [:]
        func measure(_ name: String, _ ports: [Int], _ path: String, seconds: Int) async throws {
            let before = try origin.requests
            let load = PictureLoad(
                path: path, first: first, count: 200, atOnce: 4, seconds: seconds, isStampede: true)
            // A run that is too short for all pictures goes on in the next one, with those that are warm first.
            var runs = 0
            while try !atOnce(ports, { try load.run(bench, port: $0).requests }).allSatisfy({ $0 >= 800 }) {
                runs += 1
                guard runs < 10 else { throw BenchError("\(name) does not answer in time") }
            }
            asked[name, default: []].append(try origin.requests - before)
            say("  \(name): \(asked[name] ?? []) requests at the origin")
        }
        for round in 1...bench.rounds(3) {
            first = round * 1_000
            for (name, one, other) in ours {
                let counter = "image_server_pictures_made_total"
                let before = try await one.count(counter) + other.count(counter)
                try await measure(name, [one.port, other.port], Self.path(source), seconds: 5)
                made[name, default: []].append(try await one.count(counter) + other.count(counter) - before)
            }
            try await measure("two thumbors", thumbors.map(\.port), Self.thumborPath(source), seconds: 15)
            try await measure("two nginx proxy_caches with lock", origin.caches, "/medium/NUMBER", seconds: 5)
        }
        let names = ours.map(\.0) + ["two thumbors", "two nginx proxy_caches with lock"]
        let most = { (counts: [String: [Int]], name: String) in counts[name]?.max().map { Double($0) } ?? .nan }
        var table = Table(
            "200 pictures that eight clients want at once, from two servers",
            says:
                "1,600 requests for thumbnails of 400 × 300, in the same order from each of eight connections, four to "
                + "each server. The nginx caches pass the pictures on as they are. The most of "
                + "\(bench.rounds(3)) rounds.",
            header: ["", "requests at the origin", "pictures made"],
            rows: names.map { [$0, most(asked, $0).short, most(made, $0).short] })
        table.checks = ours.map(\.0).flatMap { name in
            [
                Check("requests at the origin, \(name)", most(asked, name), .atMost, 200, ""),
                Check("pictures made, \(name)", most(made, name), .atMost, 200, ""),
            ]
        }
        return table
    }

    // MARK: Speed and memory

    private func speed(_ bench: Bench, _ origin: PictureOrigin, _ disk: DiskFolder) async throws -> Table {
        var figures = Figures()
        let rounds = bench.rounds(3)
        let settings = ["big", "medium", "warm"].flatMap { kind in [1, 8].map { "\(kind), \($0) at once" } }
        var first = 1_000_000
        var memory = Double.nan
        for (kind, name, seconds) in [("big", "photo", 4), ("medium", "medium", 3)] {
            let source = origin.url(name)
            let ours = try await PictureServer(ours: bench, folder: disk.make("ours"), memory: Self.memoryLimit)
            let thumbor = try await PictureServer(thumbor: bench, folder: disk.make("thumbor"), processes: 2)
            defer { for server in [ours, thumbor] { server.end() } }
            let servers = [
                (Self.ours, ours.port, Self.path(source)), (Self.thumbor, thumbor.port, Self.thumborPath(source)),
            ]
            for atOnce in [1, 8] {
                let competitors = servers.map { name, port, path in
                    let load = PictureLoad(path: path, atOnce: atOnce, seconds: seconds)
                    return Competitor(name: name) {
                        first += 1_000_000
                        var load = load
                        load.first = first
                        defer { sleep(1) }
                        return try load.run(bench, port: port).perSecond
                    }
                }
                try await figures.measure("\(kind), \(atOnce) at once", rounds: rounds, competitors)
            }
            guard kind == "medium" else { continue }
            var made = 0
            while made < Self.many {
                first += 1_000_000
                made += try PictureLoad(path: Self.path(source), first: first, atOnce: 8, seconds: 10)
                    .run(bench, port: ours.port).requests
            }
            memory = try ours.daemon.memory
            first += 1_000_000
            try await warm(bench, origin, servers, first, &figures)
        }
        var table = Table(
            "Thumbnails of 400 × 300 of JPEG photographs",
            says:
                "Answers a second, as `wrk` on the same machine counts them. Big: 4000 × 3000, 2.6 MB; medium: 1200 × 900, 0.24 MB; "
                + "each picture for the first time. Warm: 200 pictures that the servers have kept. thumbor keeps results, "
                + "and no sources; nginx keeps files that are thumbnails already.",
            unit: "a second", competitors: [Self.ours, Self.thumbor, Self.nginx], settings: settings, figures: figures)
        let targets = [
            ("big, 1 at once", Self.thumbor, 1.2), ("big, 8 at once", Self.thumbor, 1.1),
            ("medium, 1 at once", Self.thumbor, 1.3), ("medium, 8 at once", Self.thumbor, 1.3),
            ("warm, 8 at once", Self.thumbor, 8), ("warm, 8 at once", Self.nginx, 0.4),
        ]
        table.checks = targets.map { setting, peer, limit in
            let peerName = peer == Self.nginx ? "nginx proxy_cache" : "thumbor"
            return Check("\(setting) ÷ \(peerName)", figures.ratio(Self.ours, peer, setting), .atLeast, limit)
        }
        table.checks.append(
            Check(
                "memory beyond its limit, after 10,000 pictures", memory - Double(Self.memoryLimit), .atMost, 64,
                " MB"))
        table.remarks = [disk.remark]
        return table
    }

    private func warm(
        _ bench: Bench, _ origin: PictureOrigin, _ servers: [(name: String, port: Int, path: String)], _ first: Int,
        _ figures: inout Figures
    ) async throws {
        // nginx gets a thumbnail of ours.
        let address =
            "http://127.0.0.1:\(servers[0].port)" + servers[0].path.replacingOccurrences(of: "NUMBER", with: "0")
        guard let url = URL(string: address) else { throw BenchError("no URL: \(address)") }
        try origin.add("thumbnail", Data(contentsOf: url))
        let all = servers + [(Self.nginx, origin.caches[0], "/thumbnail/NUMBER")]
        for (_, port, path) in all {
            _ = try PictureLoad(path: path, first: first, count: 200, atOnce: 8, seconds: 5).run(bench, port: port)
        }
        for atOnce in [1, 8] {
            let competitors = all.map { name, port, path in
                Competitor(name: name) {
                    try PictureLoad(path: path, first: first, count: 200, atOnce: atOnce, seconds: 3)
                        .run(bench, port: port).perSecond
                }
            }
            try await figures.measure("warm, \(atOnce) at once", rounds: bench.rounds(3), competitors)
        }
    }
}

/// Runs a blocking closure for all items, each on a thread of its own.
func atOnce<Item: Sendable, Result: Sendable>(
    _ items: [Item], _ body: @Sendable (Item) throws -> Result
) throws -> [Result] {
    let results = Mutex<[Int: Swift.Result<Result, any Error>]>([:])
    DispatchQueue.concurrentPerform(iterations: items.count) { number in
        let result = Swift.Result { try body(items[number]) }
        results.withLock { $0[number] = result }
    }
    return try results.withLock { results in try items.indices.compactMap { try results[$0]?.get() } }
}
