import Foundation

/// A server that runs as a child process, until ``end()`` or the end of the run.
final class Daemon {
    let process: Process
    private let cleanUp: Int

    /// Starts a program, and waits until it accepts connections on a port of the loopback interface.
    init(_ program: String, _ arguments: [String], port: Int) async throws {
        let process = Process()
        // This program ignores SIGTERM for a handler of its own, and what it starts inherits that.
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["--default-signal=TERM", program] + arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        self.process = process
        let identifier = process.processIdentifier
        cleanUp = CleanUp.add {
            let children = try? String(
                contentsOfFile: "/proc/\(identifier)/task/\(identifier)/children", encoding: .utf8)
            kill(identifier, SIGTERM)
            // Those of thumbor do not end with it, and the wait would be for them as well.
            for child in (children ?? "").split(separator: " ") { Int32(child).map { _ = kill($0, SIGTERM) } }
            process.waitUntilExit()
        }
        for _ in 0..<500 where !Self.accepts(port) && process.isRunning { try await Task.sleep(for: .milliseconds(20)) }
        guard Self.accepts(port) else {
            CleanUp.run(cleanUp)
            throw BenchError("\(program) does not start")
        }
    }

    func end() { CleanUp.run(cleanUp) }

    /// The resident memory, in MB of 2^20 bytes.
    var memory: Double { get throws { try Machine.memory("VmRSS", of: "\(process.processIdentifier)") } }

    static func freePort() throws -> Int {
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

extension Bench {
    /// Fills in a template of a configuration, and writes it into a folder.
    func fill(_ template: String, _ words: [String: String], into folder: URL) throws -> String {
        var text = try String(contentsOfFile: template, encoding: .utf8)
        // nginx started as root switches by default to a user who may not enter the folder.
        let user = getuid() == 0 ? "user root;" : ""
        for (word, value) in words.merging(["WORK": folder.path, "USER": user], uniquingKeysWith: { own, _ in own }) {
            text = text.replacingOccurrences(of: "@\(word)@", with: value)
        }
        let file = folder.appendingPathComponent((template as NSString).lastPathComponent)
        try Data(text.utf8).write(to: file)
        return file.path
    }
}
