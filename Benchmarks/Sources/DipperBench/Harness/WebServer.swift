import Foundation

/// An nginx on a free port of the loopback interface, with files at `/0`, `/1`, … of random bytes or of the caller's.
final class WebServer {
    let base: String
    let port: Int
    /// The folder of the files.
    let files: URL
    private let daemon: Daemon

    convenience init(_ bench: Bench, files: Int, size: Int) async throws {
        var random = SeededGenerator(seed: 7)
        try await self.init(bench, files: files) { _ in random.bytes(size) }
    }

    /// Starts the server with the caller's files.
    /// - Parameter file: A function that returns the bytes of the file with a number.
    init(_ bench: Bench, files: Int, _ file: (Int) -> Data) async throws {
        let nginx = try Command.require("nginx")
        let work = bench.work.appendingPathComponent("nginx")
        try? FileManager.default.removeItem(at: work)
        for folder in ["www", "tmp"] {
            try FileManager.default.createDirectory(
                at: work.appendingPathComponent(folder), withIntermediateDirectories: true)
        }
        for number in 0..<files { try file(number).write(to: work.appendingPathComponent("www/\(number)")) }
        self.files = work.appendingPathComponent("www")
        port = try Daemon.freePort()
        base = "http://127.0.0.1:\(port)"
        let configuration = try bench.fill(
            bench.package.appendingPathComponent("nginx/nginx.conf").path, ["PORT": "\(port)"], into: work)
        daemon = try await Daemon(nginx, ["-p", work.path, "-c", configuration], port: port)
    }

    func end() { daemon.end() }
}
