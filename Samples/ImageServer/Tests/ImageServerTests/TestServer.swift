import Dipper
import Foundation
import Metrics

@testable import ImageServer

/// A server in this process, with a folder of its own, and a client without a cache.
final class TestServer: Sendable {
    static let key = "a key for the tests alone"

    let address: String
    let server: ImageServer
    let folder: Folder
    private let client = CurlTransport()
    private let running: Task<Void, any Error>

    /// - Parameter arguments: options of the command line, after those that each test needs.
    init(_ arguments: [String] = [], allowsPrivate: Bool = true, in folder: Folder = Folder()) async throws {
        self.folder = folder
        let all =
            try [
                "--port", "0", "--log-level", "error", "--folder", folder.path("cache"), "--key-file", folder.keyFile(),
            ]
            + (allowsPrivate ? ["--allow-private"] : []) + arguments
        let server = try ImageServer(Options.parse(all))
        self.server = server
        let (addresses, listening) = AsyncStream.makeStream(of: String.self)
        running = Task { try await server.run(until: []) { listening.yield($0) } }
        var iterator = addresses.makeAsyncIterator()
        address = await iterator.next() ?? ""
    }

    /// Ends the server and its cache.
    func stop() async {
        await client.shutdown()
        running.cancel()
        _ = await running.result
    }

    func signed(_ path: String) -> String { "/\(server.signer.signature(of: path) ?? "")/\(path)" }

    func get(_ path: String, _ fields: HTTPHeaders = [:]) async throws -> TransferResponse {
        try await client.answer(address + signed(path), fields)
    }

    func get(unsigned path: String) async throws -> TransferResponse { try await client.answer(address + path) }

    /// Returns the answer to a request with another method.
    func send(_ method: String, _ path: String) async throws -> TransferResponse {
        try await client.answer(address + path, method: method)
    }

    func prefetch(_ paths: [String], _ fields: HTTPHeaders = [:]) async throws -> TransferResponse {
        try await client.answer(address + "/prefetch", fields, body: JSONEncoder().encode(paths))
    }

    func post(_ path: String, _ body: Data) async throws -> TransferResponse {
        try await client.answer(address + path, body: body)
    }
}

extension CurlTransport {
    func answer(
        _ url: String, _ fields: HTTPHeaders = [:], method: String = "GET", body: Data? = nil
    ) async throws -> TransferResponse {
        var request = TransferRequest(url: URL(string: url)!, headers: fields)
        (request.method, request.body) = (body == nil ? method : "POST", body)
        request.keepsErrorBody = true
        return try await withCheckedContinuation { continuation in
            _ = start(request) { event in
                if case .finished(let result) = event { continuation.resume(returning: result) }
            }
        }.get()
    }
}

extension TransferResponse {
    var text: String { String(decoding: body, as: UTF8.self) }
}

/// The backend of swift-metrics, of which a process has one.
enum Figures {
    private static let installed: Void = MetricsSystem.bootstrap(PrometheusMetrics.shared)

    static func install() { installed }
}

/// A new folder, deleted with the last reference to it.
final class Folder: Sendable {
    private let url = FileManager.default.temporaryDirectory.appendingPathComponent("image-server-\(UUID())")

    init() { try? FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(at: url) }

    func path(_ name: String) -> String { url.appendingPathComponent(name).path }

    func keyFile() throws -> String {
        let file = path("keys")
        try "\(TestServer.key)\nan older key of the tests\n".write(toFile: file, atomically: true, encoding: .utf8)
        return file
    }
}

/// A program that runs beside the test, and what it writes, line by line. Releasing it kills it.
final class Program: Sendable {
    let id: pid_t
    private let lines: AsyncStream<String>
    private let statuses: AsyncStream<Int32>

    init(_ path: String, _ arguments: [String]) throws {
        var ends: [Int32] = [-1, -1]
        // Other programs that start meanwhile must not keep the end to write to.
        pipe(&ends)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for output: Int32 in [1, 2] { posix_spawn_file_actions_adddup2(&actions, ends[1], output) }
        let words = ([path] + arguments).map { strdup($0) } + [nil]
        let variables = ProcessInfo.processInfo.environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in words + variables { free(text) } }
        var id = pid_t()
        let error = posix_spawn(&id, path, &actions, nil, words, variables)
        close(ends[1])
        let output = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        guard error == 0 else { throw POSIXError(POSIXErrorCode(rawValue: error) ?? .ENOENT) }
        let (lines, read) = AsyncStream.makeStream(of: String.self)
        let (statuses, ended) = AsyncStream.makeStream(of: Int32.self)
        (self.id, self.lines, self.statuses) = (id, lines, statuses)
        Thread.detachNewThread { [id] in
            var rest = Data()
            while case let bytes = output.availableData, !bytes.isEmpty {
                rest += bytes
                while let end = rest.firstIndex(of: 0x0A) {
                    read.yield(String(decoding: rest[..<end], as: UTF8.self))
                    rest = Data(rest[(end + 1)...])
                }
            }
            read.finish()
            var status: Int32 = 0
            while waitpid(id, &status, 0) < 0, errno == EINTR {}
            ended.yield(status & 0x7F == 0 ? status >> 8 & 0xFF : -(status & 0x7F))
            ended.finish()
        }
    }

    deinit { kill(id, SIGKILL) }

    /// Returns the path of a program that is built beside the tests.
    static func built(_ name: String) -> String {
        URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
            .appendingPathComponent(name).path
    }

    func send(_ signal: Int32) { kill(id, signal) }

    /// Waits for a line with a text; `nil` if the program ends without it.
    func line(with text: String) async -> String? {
        for await line in lines where line.contains(text) { return line }
        return nil
    }

    /// Waits for the end: the exit status, or minus the number of the signal that ended the program.
    func status() async -> Int32? {
        for await status in statuses { return status }
        return nil
    }
}
