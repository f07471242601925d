import DipperRedis
import Glibc
import TestSupport
import Testing

/// A `redis-server` of Debian that keeps nothing on disk, in a folder of its own. Releasing it kills the server.
final class RedisProcess: Sendable {
    private static let program = "/usr/bin/redis-server"
    static let isInstalled = access(program, X_OK) == 0

    let folder: TemporaryFolder
    private let arguments: [String]
    private let process = Box<ChildProcess?>(nil)

    /// - Parameter options: by default a server on a Unix-domain socket alone.
    init(_ options: [String] = ["--port", "0"], in folder: TemporaryFolder = TemporaryFolder()) async throws {
        self.folder = folder
        let fixed = ["--unixsocket", folder.path + "/s", "--save", "", "--appendonly", "no", "--dir", folder.path]
        arguments = fixed + options
        try await start()
    }

    func start() async throws {
        let output = Pipe()
        let started = try ChildProcess(Self.program, arguments, output: output.fileHandleForWriting)
        process.update { $0 = started }
        var log: [String] = []
        for await line in linesWritten(to: output.fileHandleForReading) {
            log.append(line)
            if line.lowercased().contains("ready to accept connections at") { return }
        }
        throw Unavailable(what: log.joined(separator: "\n"))
    }

    func kill() { process.update { $0.take() }?.end() }
    func send(_ signal: Int32) { process.value?.send(signal) }

    var socket: String { folder.path + "/s" }
    var url: String { "unix://\(socket)" }

    /// Asks the server by its own client, for values that are texts.
    @discardableResult
    func ask(_ words: String...) throws -> String {
        let reply = try runProgram("/usr/bin/redis-cli", ["-s", socket] + words)
        return String(decoding: reply, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    var keys: [String] { get throws { try ask("KEYS", "*").split(separator: "\n").map(String.init).sorted() } }

    /// A port that nobody uses now.
    static func freePort() throws -> Int {
        let descriptor = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        return try bound(descriptor)
    }
}

/// Binds a socket to a free port of this machine.
private func bound(_ descriptor: Int32) throws -> Int {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    return try withUnsafeMutablePointer(to: &address) { pointer in
        try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            guard bind(descriptor, $0, size) == 0, getsockname(descriptor, $0, &size) == 0 else {
                throw Unavailable(what: "a port: \(String(cString: strerror(errno)))")
            }
        }
        return Int(UInt16(bigEndian: pointer.pointee.sin_port))
    }
}

/// A server of a few lines that greets as Redis does, and leaves all else to the test. Each connection has a thread.
final class ScriptedRedis: Sendable {
    struct Connection: Sendable {
        let number: Int
        fileprivate let descriptor: Int32

        func send(_ text: String) { send(Data(text.utf8)) }

        func send(_ bytes: Data) {
            var rest = bytes[...]
            while !rest.isEmpty {
                let sent = rest.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                if sent <= 0 { return }
                rest = rest.dropFirst(sent)
            }
        }

        func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    let port: Int
    let commands = Box<[[String]]>([])
    private let descriptor: Int32
    var url: String { "redis://127.0.0.1:\(port)" }

    /// - Parameter serve: is called for each command but those of the greeting, on the thread of its connection.
    init(_ serve: @escaping @Sendable (_ words: [String], Connection) -> Void) throws {
        let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        descriptor = listening
        port = try bound(listening)
        listen(listening, 16)
        Thread.detachNewThread { [commands] in
            var number = 0
            while case let accepted = accept(listening, nil, nil), accepted >= 0 {
                let connection = Connection(number: number, descriptor: accepted)
                number += 1
                Thread.detachNewThread {
                    while let words = Self.command(accepted) {
                        switch words.first {
                        case "CLIENT", "AUTH": connection.send("+OK\r\n")
                        case "PING": connection.send("+PONG\r\n")
                        default:
                            commands.update { $0.append(words) }
                            serve(words, connection)
                        }
                    }
                    close(accepted)
                }
            }
        }
    }

    deinit {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }

    private static func command(_ descriptor: Int32) -> [String]? {
        func line() -> String? {
            var bytes: [UInt8] = []
            var byte: UInt8 = 0
            while recv(descriptor, &byte, 1, 0) == 1 {
                if byte == UInt8(ascii: "\n") { return String(decoding: bytes.dropLast(), as: UTF8.self) }
                bytes.append(byte)
            }
            return nil
        }
        guard let count = line().flatMap({ Int($0.dropFirst()) }) else { return nil }
        return (0..<count).reduce([String]?.some([])) { words, _ in
            guard let words, let size = line().flatMap({ Int($0.dropFirst()) }) else { return nil }
            var bytes = [UInt8](repeating: 0, count: size + 2)
            guard recv(descriptor, &bytes, size + 2, Int32(MSG_WAITALL)) == size + 2 else { return nil }
            return words + [String(decoding: bytes.dropLast(2), as: UTF8.self)]
        }
    }
}

extension RedisTier {
    /// Returns when the servers are there and answer. Each attempt waits for its own end.
    func reconnected() async {
        while !Task.isCancelled {
            do { return try await connect() } catch { continue }
        }
    }

    func error(of name: String) async -> DipperError? {
        do {
            _ = try await record(named: name)
            return nil
        } catch {
            return error as? DipperError
        }
    }
}

/// A tier whose look-ups are not limited by what the machine does beside the tests.
func patient(_ urls: String..., authorities: String? = nil) throws -> RedisTier {
    var options = RedisTier.Options()
    options.timeLimit = .seconds(20)
    options.authorities = authorities.map { URL(fileURLWithPath: $0) }
    return try RedisTier(urls, options)
}

/// Returns a name as a cache gives it.
func name(_ number: Int) -> String {
    let digits = String(UInt64(truncatingIfNeeded: number) &* 0x9E37_79B9_7F4A_7C15 | 1 << 63, radix: 16)
    return String(repeating: digits, count: 4)
}

/// Returns bytes of which each part is different.
func bytes(_ count: Int, _ seed: Int = 1) -> Data {
    var word = UInt64(seed) &+ 1
    var data = Data(count: count / 8 * 8 + 8)
    data.withUnsafeMutableBytes { bytes in
        let words = bytes.bindMemory(to: UInt64.self)
        for index in words.indices {
            word = word &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            words[index] = word
        }
    }
    return data.prefix(count)
}
