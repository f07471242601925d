import Foundation

/// An nginx on a free port of the loopback interface, with files at `/0`, `/1`, … of random bytes or of the caller's.
final class WebServer {
    let base: String
    let port: Int
    /// The folder of the files.
    let files: URL
    private let cleanUp: Int

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
        port = try Self.freePort()
        base = "http://127.0.0.1:\(port)"
        let template = try String(
            contentsOf: bench.package.appendingPathComponent("nginx/nginx.conf"), encoding: .utf8)
        let text = template.replacingOccurrences(of: "@WORK@", with: work.path)
            .replacingOccurrences(of: "@PORT@", with: "\(port)")
            // nginx started as root switches by default to a user who may not enter the folder.
            .replacingOccurrences(of: "@USER@", with: getuid() == 0 ? "user root;" : "")
        let configuration = work.appendingPathComponent("nginx.conf")
        try Data(text.utf8).write(to: configuration)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: nginx)
        process.arguments = ["-p", work.path, "-c", configuration.path]
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        let identifier = process.processIdentifier
        cleanUp = CleanUp.add {
            kill(identifier, SIGTERM)
            process.waitUntilExit()
        }
        for _ in 0..<200 where !Self.accepts(port) { try await Task.sleep(for: .milliseconds(20)) }
        guard Self.accepts(port) else {
            CleanUp.run(cleanUp)
            throw BenchError("nginx does not start; see \(work.path)/nginx-error.log")
        }
    }

    func end() { CleanUp.run(cleanUp) }

    private static func freePort() throws -> Int {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(socket) }
        var address = loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(socket, address, length) == 0 && getsockname(socket, address, &length) == 0
            }
        }
        guard result else { throw BenchError("no free port on the loopback") }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    private static func accepts(_ port: Int) -> Bool {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(socket) }
        var address = loopback(UInt16(port))
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        return address
    }
}
