import Foundation

/// A redis-server of a comparison, which keeps nothing on disk.
struct RedisPeer {
    let port: Int
    let daemon: Daemon
    var url: String { "redis://127.0.0.1:\(port)" }

    init(_ disk: DiskFolder) async throws {
        port = try Daemon.freePort()
        daemon = try await Daemon(
            Command.require("redis-server"),
            [
                "--port", "\(port)", "--bind", "127.0.0.1", "--save", "", "--dir", disk.make("redis"), "--maxmemory",
                "1gb",
                "--maxmemory-policy", "allkeys-lru",
            ], port: port)
    }
}

/// The costs of sharing with other processes, a part of the comparison `server`.
enum Sharing {
    private static let count = 2_000
    private static let waits = 60

    static func table(_ bench: Bench, _ disk: DiskFolder) async throws -> Table {
        let program = bench.package.appendingPathComponent("SharingBench/.build/release/SharingBench").path
        guard FileManager.default.isExecutableFile(atPath: program) else {
            throw Unsuitable("SharingBench is not built; `make bench` builds it")
        }
        let peer = try bench.compile("redis_get", "hiredis")
        let redis = try await RedisPeer(disk)
        defer { redis.daemon.end() }
        let files = try await WebServer(bench, files: count, size: 20_000)
        defer { files.end() }
        var figures = Figures()
        let hit = "hit of 20 KB in the Redis, µs"
        try await figures.measure(
            hit, rounds: bench.rounds(5),
            [
                Competitor(name: "DataCache") {
                    try Command.number(program, ["hit", redis.url, files.base, "\(count)"])
                },
                Competitor(name: "hiredis GET") { try Command.number(peer, ["\(redis.port)", "\(count)", "20000"]) },
            ])
        let stopped = try (0..<bench.rounds(3)).map { _ in
            try Command.run(
                program,
                ["stopped", redis.url, "\(files.base)/0?", "\(redis.daemon.process.processIdentifier)"]
            ).numbers(2)
        }
        let waits = [
            ("folder", try await waits(bench, program, ["-"], disk)),
            ("Redis", try await waits(bench, program, [redis.url], disk)),
        ]
        var table = Table(
            "Sharing with other processes",
            says:
                "A hit in the tier of a cache that has the entry neither in memory nor on disk, beside a GET of as many bytes "
                + "by hiredis, one after the other. A stopped Redis (SIGSTOP): the mean time that calls for files of nginx "
                + "take longer than those of a cache without a tier, in the four seconds after the first one. A waiter: the "
                + "time by which a process gets an entry later than the process that has fetched it, of \(Self.waits) keys "
                + "that both want at the same moment.",
            header: ["", "median"],
            rows: [
                ["hit of 20 KB in the Redis, µs", figures["DataCache", hit].short],
                ["GET of 20 KB by hiredis, µs", figures["hiredis GET", hit].short],
                ["a call with a stopped Redis, mean, ms more", stopped.map { $0[0] }.median.short],
                ["a call with a stopped Redis, median, ms more", stopped.map { $0[1] }.median.short],
            ] + waits.map { ["a waiter after the holder, \($0), ms", $1.median.short] })
        table.checks = [
            Check("shared hit of 20 KB ÷ GET by hiredis", figures.ratio("DataCache", "hiredis GET", hit), .atMost, 1.5),
            Check("Redis stopped, added to a call", stopped.map { $0[0] }.median, .atMost, 0.1, " ms"),
        ]
        table.checks += waits.map { Check("waiter after the holder, \($0)", $1.median, .atMost, 3, " ms") }
        return table
    }

    /// Two processes that want the same keys at the same moments, one after the other.
    /// - Parameter redis: `-` for one folder, or a Redis for two folders.
    /// - Returns: the milliseconds by which the one that waited was later than the other one.
    private static func waits(
        _ bench: Bench, _ program: String, _ redis: [String], _ disk: DiskFolder
    ) async throws -> [Double] {
        let port = try Daemon.freePort()
        let origin = try await Daemon(
            Command.require("python3"), [bench.peer("slow_origin.py"), "\(port)", "0.03", "20000"], port: port)
        defer { origin.end() }
        let one = try disk.make("waits")
        let folders = [one, redis == ["-"] ? one : try disk.make("waits-too")]
        let begin = monotonicSeconds() + 1
        let answers = try atOnce(folders) { folder in
            try Command.run(
                program,
                ["wait", folder] + redis + ["http://127.0.0.1:\(port)", "\(waits)", "\(begin)", "0.1"]
            ).output.split(separator: "\n").compactMap { line -> (source: Substring, time: Double)? in
                let words = line.split(separator: " ")
                guard words.count == 2, let time = Double(words[1]) else { return nil }
                return (words[0], time)
            }
        }
        guard answers.allSatisfy({ $0.count == waits }) else { throw BenchError("a process that waits has failed") }
        let times = zip(answers[0], answers[1]).compactMap { one, other -> Double? in
            switch (one.source == "network", other.source == "network") {
            case (true, false): (other.time - one.time) * 1e3
            case (false, true): (one.time - other.time) * 1e3
            default: nil
            }
        }
        guard times.count > waits * 9 / 10 else { throw BenchError("only \(times.count) of \(waits) waited") }
        return times
    }
}
