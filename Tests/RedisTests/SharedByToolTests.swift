import FaultServer
import TestSupport
import Testing

@Suite(
    "The tool's --shared", .timeLimit(.minutes(3)),
    .enabled(if: RedisProcess.isInstalled, "redis-server is not installed (package redis-server)"))
struct SharedByToolTests {
    private func run(_ arguments: [String]) async throws -> (lines: [String], errors: String, status: Int32) {
        let folder = TemporaryFolder()
        let output = try await ChildProcess(
            Built.executable("dipper"), arguments + ["--cache-dir", folder.path + "/cache", "--json"]
        ).output()
        let text = String(decoding: output.data, as: UTF8.self)
        return (text.split(separator: "\n").map(String.init), output.errors, output.status)
    }

    @Test("what one process has fetched answers another with a folder of its own, by any of the fetching commands")
    func twoProcesses() async throws {
        let files = Dictionary(uniqueKeysWithValues: (0..<20).map { ("/\($0)", bytes(3_000, $0)) })
        let (server, origin) = (try await RedisProcess(), try await FaultServer.start(files: files))
        let urls = (0..<20).map { origin.url("/\($0)").absoluteString }
        let first = try await run(["get", "--shared", server.url] + urls)
        #expect(first.status == 0, "\(first)")
        let password = TemporaryFolder()
        let file = try password.place(server.url + "\n", at: "server")
        let second = try await run(["prefetch", "--shared", "@\(file.path)"] + urls)
        #expect(second.lines.count { $0.contains("\"source\":\"shared\"") } == 20, "\(second)")
        #expect(origin.requests.count == 20)
    }

    @Test("six processes with folders of their own ask the server once for each of 200 files")
    func sixProcesses() async throws {
        let files = Dictionary(uniqueKeysWithValues: (0..<200).map { ("/\($0)", bytes(3_000, $0)) })
        let (server, origin) = (try await RedisProcess(), try await FaultServer.start(files: files))
        let urls = (0..<200).map { origin.url("/\($0)").absoluteString }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 {
                group.addTask {
                    let result = try await run(["get", "--shared", server.url] + urls)
                    #expect(result.status == 0 && result.lines.count { $0.contains("\"status\":200") } == 200)
                }
            }
            try await group.waitForAll()
        }
        #expect(origin.requests.count <= 205)
    }

    @Test("while the server is killed all calls end well")
    func killed() async throws {
        let files = Dictionary(uniqueKeysWithValues: (0..<200).map { ("/\($0)", bytes(3_000, $0)) })
        let (server, origin) = (try await RedisProcess(), try await FaultServer.start(files: files))
        let urls = (0..<200).map { origin.url("/\($0)").absoluteString }
        async let run = run(["get", "--shared", server.url] + urls)
        await origin.waitForRequests(50)
        server.kill()
        let result = try await run
        #expect(result.status == 0 && result.lines.count { $0.contains("\"status\":200") } == 200, "\(result.errors)")
    }

    @Test("a wrong password, and a server that is none, are told without the password, and the calls go on")
    func told() async throws {
        let origin = try await FaultServer.start(files: ["/a": Data("a".utf8)])
        let server = try await RedisProcess(["--port", "0", "--requirepass", "right"])
        let url = origin.url("/a").absoluteString
        let wrong = try await run(["get", url, "--shared", "unix://:batterystaple@\(server.socket)"])
        #expect(wrong.status == 0 && wrong.errors.contains("WRONGPASS") && !wrong.errors.contains("battery"))
        let none = try await run(["get", url, "--shared", "http://u:batterystaple@host"])
        #expect(none.status != 0 && !none.errors.contains("battery") && none.errors.contains("redis://"))
        let both = try await run(["get", url, "--shared", server.url, "--memory-only"])
        #expect(both.status == 64)
    }
}
