import FaultServer
import Foundation
import TestSupport
import Testing

@Suite("The tool prints no secrets, and tells failures on standard error", .timeLimit(.minutes(2)))
struct SecretsInOutputTests {
    private static let canary = "c4n4ry"

    /// A URL with secrets in it.
    private func url(_ server: FaultServer, _ target: String) -> String {
        server.url(target).absoluteString.replacingOccurrences(of: "://", with: "://\(Self.canary):\(Self.canary)@")
            + "\(target.contains("?") ? "&" : "?")access_token=\(Self.canary)&size=visible"
    }

    private func expectNoSecret(_ output: Dipper.Output, sourceLocation: SourceLocation = #_sourceLocation) {
        let text = output.text + output.errors
        #expect(!text.contains(Self.canary), "\(text)", sourceLocation: sourceLocation)
    }

    @Test("get, batch, list, show, info: URLs without passwords and tokens, other values, and keys that name entries")
    func commands() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let header = ["--header", "X-Api-Key: \(Self.canary)"]
        let dir = ["--cache-dir", folder.path + "/cache"]
        let good = url(server, "/bytes/3000/a;jsessionid=\(Self.canary)?header=Set-Cookie:session=\(Self.canary)")
        let missing = url(server, "/nothing")

        let table = try await Dipper.run(["get", good, missing, "nonsense?key=\(Self.canary)"] + header + dir)
        expectNoSecret(table)
        #expect(table.status == 1)
        #expect(table.lines.contains { $0.contains("size=visible") && $0.contains("network") })
        #expect(table.errors.contains("size=visible: status 404"))

        let out = ["--out", folder.path + "/out", "--timeline", folder.path + "/t.svg"]
        let json = try await Dipper.run(["get", good, missing, "--json"] + header + dir + out)
        expectNoSecret(json)
        #expect(folder.text("t.svg")?.contains(Self.canary) == false)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/out")
        #expect(names.count == 1 && !names.joined().contains(Self.canary))

        let batch = try await Dipper.run(
            ["batch"] + header + dir, input: "get \(good)\nfetch \(good)\nget a:\(Self.canary)@b c\nslow \(missing)\n")
        expectNoSecret(batch)
        #expect(batch.status == 2 && batch.errors.contains("line 2") && batch.errors.contains("line 3"))

        for command in [["list"], ["list", "--json"], ["info", good, missing], ["info", good, missing, "--json"]] {
            expectNoSecret(try await Dipper.run(command + dir))
        }
        let sheet = ["sheet", good, "--out", folder.path + "/s.png"]
        expectNoSecret(try await Dipper.run(sheet + dir))

        let entries = try await Dipper.run(["list", "--json"] + dir).calls
        let listed = try #require(entries.first)
        #expect((listed["url"] as? String)?.contains("size=visible") == true)
        let shown = try await Dipper.run(["show", good] + header + dir)
        expectNoSecret(shown)
        #expect(shown.status == 0)
        #expect(!shown.lines.contains { $0.contains("Set-Cookie: ") }, "cookies are not kept")
        #expect(shown.lines.contains { $0.hasPrefix("url") && $0.contains("size=visible") })

        expectNoSecret(try await Dipper.run(["show", good] + dir))
        expectNoSecret(try await Dipper.run(["remove", missing] + dir))
        expectNoSecret(try await Dipper.run(["export", missing, "-"] + dir))
        #expect(json.calls.allSatisfy { ($0["key"] as? String)?.count == 64 })
        let keys = entries.compactMap { $0["key"] as? String }
        #expect(json.calls.contains { keys.contains($0["key"] as? String ?? "") })
        await server.stop()
    }

    @Test("usage that is not understood is told without what may be secret in it")
    func usage() async throws {
        let url = "https://a:\(Self.canary)@host/?token=\(Self.canary)"
        for arguments in [
            ["get", "http://h/", "--header", "Authorization \(Self.canary)"], ["show", "http://h/", url],
            ["show", "http://h/", "--header", Self.canary], ["stats", url], ["stats", "a:\(Self.canary)@host"],
        ] {
            let output = try await Dipper.run(arguments)
            #expect(output.status == 64 && !output.errors.isEmpty)
            expectNoSecret(output)
        }
    }

    @Test("an entry is shown, exported and removed by its key, or by the beginning of it")
    func keys() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let dir = ["--cache-dir", folder.path + "/cache"]
        let urls = (0..<3).map { url(server, "/bytes/50/n\($0)") }
        _ = try await Dipper.run(["prefetch"] + urls + ["--header", "Accept: text/plain"] + dir)
        let keys = try await Dipper.run(["list", "--json"] + dir).calls.compactMap { $0["key"] as? String }
        #expect(Set(keys).count == 3)
        for (number, key) in keys.enumerated() {
            let name = number == 0 ? key : String(key.prefix(12)).uppercased()
            let table = try await Dipper.run(["list"] + dir)
            #expect(table.lines.contains { $0.contains(key.prefix(12)) })
            let shown = try await Dipper.run(["show", name, "--json"] + dir)
            #expect(shown.calls.first?["key"] as? String == key)
            #expect(try await Dipper.run(["export", name, folder.path + "/copy"] + dir).status == 0)
            #expect(try Data(contentsOf: folder.url.appendingPathComponent("copy")).count == 50)
            #expect(try await Dipper.run(["remove", name] + dir).status == 0)
            #expect(try await Dipper.run(["remove", name] + dir).status == 1)
        }
        #expect(try await Dipper.run(["list"] + dir).lines.isEmpty)
        await server.stop()
    }

    @Test("failures are told on standard error, one line each, and the table has the rest")
    func failures() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let dir = ["--cache-dir", folder.path]
        let (good, missing) = (server.url("/bytes/10/a").absoluteString, server.url("/nothing").absoluteString)
        let output = try await Dipper.run(["get", good, missing, "ftp://host/x", "--retries", "0"] + dir)
        #expect(output.status == 1)
        #expect(output.lines.count == 2, "a row and the sum: \(output.lines)")
        #expect(output.lines[0].contains(good) && output.lines[1].contains("2 failed"))
        let told = output.errors.split(separator: "\n").sorted()
        #expect(told.count == 2, "\(told)")
        #expect(told.first == "dipper: ftp://host/x: unsupported scheme: ftp")
        #expect(told.last == "dipper: \(missing): status 404")

        let json = try await Dipper.run(["get", good, missing, "--json"] + dir)
        #expect(json.status == 1 && json.errors.isEmpty)
        #expect(json.calls.count == 2)

        // A folder stands where the file is to go.
        try FileManager.default.createDirectory(
            atPath: folder.path + "/out/a", withIntermediateDirectories: true)
        let unwritten = try await Dipper.run(["get", good, "--out", folder.path + "/out"] + dir)
        #expect(unwritten.status == 1)
        #expect(unwritten.errors == "dipper: \(good): '\(folder.path)/out/a' cannot be written.\n")
        await server.stop()
    }

    @Test("standard output that is full changes the exit status")
    func fullOutput() async throws {
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let url = server.url("/bytes/9000/a").absoluteString
        let dir = ["--cache-dir", folder.path + "/cache"]
        #expect(try await Dipper.run(["prefetch", url] + dir).status == 0)
        for command in [["list"], ["stats"], ["get", url], ["export", url, "-"]] {
            let process = Process()
            let errors = Pipe()
            process.executableURL = Dipper.executable
            process.arguments = command + dir
            process.standardOutput = FileHandle(forWritingAtPath: "/dev/full")
            process.standardError = errors
            try process.run()
            let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(process.terminationReason == .exit && process.terminationStatus == 1, "\(command)")
            let isExport = command[0] == "export"
            #expect(isExport || text == "dipper: standard output: No space left on device\n", "\(command): \(text)")
        }
        await server.stop()
    }
}
