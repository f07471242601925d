import Dipper
import Foundation

/// The comparison of flings over a slow link: the time until the pictures that a list stops at are loaded.
struct Scrolling: Comparison {
    let name = "scrolling"
    let title = "Scrolling through 5,000 pictures"

    private static let adapter = "ListLoader"
    private static let queue = "one queue, first come"
    private static let alone = "visible ones alone"
    private static let modes = [(adapter, "list"), (queue, "queue"), (alone, "alone")]

    private struct Run {
        var settled = 0.0
        var stopped = 0.0
        var complete = 0.0
        var requests = 0.0
    }

    func run(_ bench: Bench) async throws -> [Table] {
        let link = try ShapedLink(bench, LinkLoad.shape)
        defer { link.end() }
        let files = LinkServer.Files(
            folder: "picture", count: 5_000, size: 0, contents: try Self.pictures(bench))
        let server = try await LinkServer(bench, link, [files])
        defer { server.end() }
        var runs: [String: [Run]] = [:]
        for round in 0..<bench.rounds(1) {
            for version in LinkServer.Version.allCases {
                for (name, mode) in Self.modes {
                    try await link.settle()
                    let run = try Self.measure(link, server, version, mode)
                    say(
                        "  \(round) \(version.rawValue) · \(name): \(run.settled.short) ms, stopped "
                            + "\(run.stopped.short) ms, \(run.complete.short) %")
                    runs[name + version.rawValue, default: []].append(run)
                }
            }
        }
        func median(_ name: String, _ version: LinkServer.Version, _ value: (Run) -> Double) -> Double {
            (runs[name + version.rawValue] ?? []).map(value).median
        }
        let versions = LinkServer.Version.allCases
        let size = files.contents.map(\.count).reduce(0, +) / files.contents.count
        var table = Table(
            "Flings over a slow link",
            says:
                "60 frames a second, 12 pictures of \(size >> 10) KB on screen, flings of 7 to 30 screens, reading in between. "
                + "Time: from the last movement of a fling to all 12 pictures being there, mean of 3 flings that run out, "
                + "and of 3 that are stopped at half their speed. Frames: those in which all 12 were there, of those in "
                + "which the list moved slowly or rested for up to a second. Link: \(LinkLoad.shape.description); "
                + "nginx, cubic.",
            header: [
                "", "runs out, HTTP/1.1", "runs out, HTTP/2", "stopped, HTTP/1.1", "stopped, HTTP/2",
                "frames, HTTP/1.1", "frames, HTTP/2", "requests, HTTP/1.1",
            ],
            rows: Self.modes.map { name, _ in
                [name] + versions.map { median(name, $0, \.settled).short + " ms" }
                    + versions.map { median(name, $0, \.stopped).short + " ms" }
                    + versions.map { median(name, $0, \.complete).short + " %" }
                    + [median(name, .http1, \.requests).short]
            })
        for version in versions {
            for (what, time) in [("runs out", \Run.settled), ("stopped", \Run.stopped)] {
                let ours = median(Self.adapter, version, { $0[keyPath: time] })
                let beside = what == "stopped" ? (version == .http1 ? 1.05 : 1.1) : 1.15
                for (peer, limit) in [(Self.queue, 0.5), (Self.alone, beside)] {
                    table.checks.append(
                        Check(
                            "\(what), \(version.rawValue): \(Self.adapter) ÷ \(peer)",
                            ours / median(peer, version, { $0[keyPath: time] }), .atMost, limit))
                }
            }
        }
        return [table]
    }

    private static func measure(
        _ link: ShapedLink, _ server: LinkServer, _ version: LinkServer.Version, _ mode: String
    ) throws -> Run {
        let numbers = try link.runAtClient(
            Command.myself,
            [
                "scrolling-child", "--base", version.base + "/picture", "--certificate", server.certificate, "--rows",
                "5000", "--mode", mode,
            ]
        ).numbers(4)
        return Run(settled: numbers[0], stopped: numbers[1], complete: numbers[2], requests: numbers[3])
    }

    /// Returns the sample's photographs as JPEG files in the size of a list.
    private static func pictures(_ bench: Bench) throws -> [Data] {
        let folder = bench.photographs
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".jpg") }
        return try names.sorted().map { name in
            let image = try CodecRegistry.standard.decode(Data(contentsOf: folder.appendingPathComponent(name)))
            let small = try ImageProcessors.Resize(width: 480, height: 360).process(image, .init())
            return try CodecRegistry.standard.encode(small, as: .jpeg, EncodeOptions(quality: 0.85))
        }
    }
}
