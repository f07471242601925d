import Foundation

/// A load on a server of pictures.
struct PictureLoad {
    /// The path of a picture, with the word `NUMBER`.
    let path: String
    /// The number of the first picture.
    var first = 0
    /// The number of pictures, after which the first one comes again.
    var count = 1_000_000_000
    let atOnce: Int
    let seconds: Int
    /// Whether each connection asks for all pictures, in the same order as the others.
    var isStampede = false

    struct Result {
        let requests: Int
        let perSecond: Double
    }

    /// Runs wrk.
    /// - Throws: ``BenchError`` if an answer is a failure.
    func run(_ bench: Bench, port: Int) throws -> Result {
        let output = try Command.run(
            Command.require("wrk"),
            [
                "-t\(isStampede ? atOnce : 1)", "-c\(atOnce)", "-d\(seconds)s", "--timeout", "20s", "-s",
                bench.peer("pictures.lua"), "http://127.0.0.1:\(port)", "--", path, "\(first)", "\(count)",
            ]
        ).output
        let figures = output.split(separator: "\n").last { $0.hasPrefix("figures ") } ?? ""
        let numbers = figures.split(separator: " ").dropFirst().compactMap { Double($0) }
        guard numbers.count == 4 else { throw BenchError("wrk printed \(output)") }
        guard numbers[3] == 0 else { throw BenchError("\(Int(numbers[3])) answers of port \(port) are failures") }
        return Result(requests: Int(numbers[0]), perSecond: numbers[0] / numbers[1])
    }
}

/// A running server of pictures: ours or a peer.
final class PictureServer {
    let port: Int
    let daemon: Daemon

    /// Runs the sample ImageServer, which is a package of its own.
    init(ours bench: Bench, folder: String, memory: Int = 256, options: [String] = []) async throws {
        let program = bench.package.deletingLastPathComponent()
            .appendingPathComponent("Samples/ImageServer/.build/release/ImageServer").path
        guard FileManager.default.isExecutableFile(atPath: program) else {
            throw Unsuitable("ImageServer is not built; `make bench` builds it")
        }
        port = try Daemon.freePort()
        daemon = try await Daemon(
            program,
            [
                "serve", "--port", "\(port)", "--unsafe", "--allow-private", "--folder", folder, "--memory",
                "\(memory)",
                "--log-level", "error",
            ] + options, port: port)
    }

    init(thumbor bench: Bench, folder: String, processes: Int) async throws {
        let python = try Self.thumbor(bench)
        let file = try bench.fill(bench.peer("thumbor.conf"), ["FOLDER": folder], into: URL(fileURLWithPath: folder))
        port = try Daemon.freePort()
        daemon = try await Daemon(
            python,
            [
                "-m", "thumbor.server", "--ip", "127.0.0.1", "--port", "\(port)", "--processes", "\(processes)",
                "--conf",
                file, "--log-level", "error",
            ], port: port)
    }

    func end() { daemon.end() }

    /// A count of `/metrics`; 0 if there is none yet.
    func count(_ name: String) async throws -> Int {
        guard let url = URL(string: "http://127.0.0.1:\(port)/metrics") else { throw BenchError("no URL") }
        let lines = try String(contentsOf: url, encoding: .utf8).split(separator: "\n")
        return lines.first { $0.hasPrefix(name) }.flatMap { $0.split(separator: " ").last }.flatMap { Int($0) } ?? 0
    }

    /// Returns the path of a Python with thumbor; the first call creates its environment.
    static func thumbor(_ bench: Bench) throws -> String {
        let environment = bench.work.appendingPathComponent("venv-thumbor").path
        let python = environment + "/bin/python"
        guard (try? Command.run(python, ["-c", "import thumbor.server"])) == nil else { return python }
        say("installing thumbor in .work/venv-thumbor")
        try Command.run("/usr/bin/env", ["python3", "-m", "venv", environment])
        try Command.run(python, ["-m", "pip", "install", "--quiet", "thumbor"])
        return python
    }
}

/// An nginx with the sources of the image servers, and two caches in front of it.
final class PictureOrigin {
    let port: Int
    /// The ports of the caches.
    let caches: [Int]
    private let folder: URL
    private let daemon: Daemon

    /// - Parameter files: the sources, by their names.
    init(_ bench: Bench, _ files: [String: Data]) async throws {
        folder = bench.work.appendingPathComponent("images")
        try? FileManager.default.removeItem(at: folder)
        for name in ["www", "tmp"] {
            try FileManager.default.createDirectory(
                at: folder.appendingPathComponent(name), withIntermediateDirectories: true)
        }
        for (name, file) in files { try file.write(to: folder.appendingPathComponent("www/\(name).jpg")) }
        port = try Daemon.freePort()
        caches = [try Daemon.freePort(), try Daemon.freePort()]
        let configuration = try bench.fill(
            bench.package.appendingPathComponent("nginx/images.conf").path,
            ["PORT": "\(port)", "PORT1": "\(caches[0])", "PORT2": "\(caches[1])"], into: folder)
        daemon = try await Daemon(Command.require("nginx"), ["-p", folder.path, "-c", configuration], port: port)
    }

    func end() { daemon.end() }

    func url(_ name: String) -> String { "http://127.0.0.1:\(port)/\(name)/NUMBER" }

    func add(_ name: String, _ file: Data) throws {
        try file.write(to: folder.appendingPathComponent("www/\(name).jpg"))
    }

    /// The number of requests so far.
    var requests: Int {
        get throws {
            let log = try Data(contentsOf: folder.appendingPathComponent("origin.log"))
            return log.count { $0 == UInt8(ascii: "\n") }
        }
    }
}
