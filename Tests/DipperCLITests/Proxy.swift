import FaultServer
import TestSupport
import Testing

final class Proxy: Sendable {
    let address: String
    private let tool: LineTool

    /// Starts the proxy on a free port; it accepts connections on return.
    init(_ arguments: [String]) async throws {
        let tool = try LineTool(Built.executable("CacheProxy"), ["--port", "0"] + arguments)
        self.tool = tool
        let line = await tool.nextLine()
        address = try #require(line?.split(separator: " ").last.map(String.init))
    }

    /// Ends the proxy as Ctrl-C does, and returns its exit status.
    func stop() async -> Int32 {
        tool.process.send(SIGINT)
        return await tool.process.output().status
    }

    struct Answer: Sendable {
        var status = 0
        /// The header fields by lower-case name; of several with one name, the last.
        var fields: [String: String] = [:]
        var body = Data()
    }

    func get(_ url: URL, _ arguments: String...) async throws -> Answer {
        try await Self.curl(arguments + ["\(address)/\(url.absoluteString)"])
    }

    /// Asks for a target as it is.
    func get(target: String, _ arguments: String...) async throws -> Answer {
        try await Self.curl(arguments + ["--path-as-is", address + target])
    }

    static func curl(_ arguments: [String]) async throws -> Answer { try parse(try await bytes(arguments)) }

    /// Returns all that curl receives, as it came.
    static func text(_ arguments: [String]) async throws -> String {
        String(decoding: try await bytes(arguments), as: UTF8.self)
    }

    private static func bytes(_ arguments: [String]) async throws -> Data {
        let all = ["curl", "--silent", "--include", "--max-time", "20", "--noproxy", "*"] + arguments
        return try await ChildProcess("/usr/bin/env", all).output().data
    }

    private static func parse(_ bytes: Data) throws -> Answer {
        let end = try #require(bytes.range(of: Data("\r\n\r\n".utf8)))
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        var answer = Answer(body: Data(bytes[end.upperBound...]))
        answer.status = try #require(lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            answer.fields[parts[0].lowercased()] = parts.last?.trimmingCharacters(in: .whitespaces)
        }
        // What precedes the answer proper.
        return answer.status == 100 ? try parse(answer.body) : answer
    }
}

func withProxy(
    _ arguments: [String] = ["--allow-private"], _ body: (Proxy, FaultServer) async throws -> Void
) async throws {
    let server = try await FaultServer.start()
    let proxy = try await Proxy(arguments)
    do {
        try await body(proxy, server)
    } catch {
        _ = await proxy.stop()
        throw error
    }
    #expect(await proxy.stop() == 0)
    await server.stop()
}
