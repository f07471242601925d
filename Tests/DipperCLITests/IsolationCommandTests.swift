import FaultServer
import TestSupport
import Testing

@Suite("The command line decodes pictures apart", .timeLimit(.minutes(2)))
struct IsolationCommandTests {
    private let folder = TemporaryFolder()

    /// Runs a command that decodes, with its helpers or where it cannot have any.
    private func run(_ command: String, _ isolation: String, hasHelpers: Bool) async throws -> Dipper.Output {
        let dipper = try await Dipper(["/photo": try PictureFiles.photoBytes])
        let (photo, url, cache) = (PictureFiles.photo.path, dipper.url("/photo"), ["--cache-dir", dipper.path])
        let arguments =
            switch command {
            case "get": ["get", url, "--resize", "40x40", "--json"] + cache
            case "batch": ["batch", "--resize", "40x40", "--json"] + cache
            case "info": ["info", photo, "--hashes", "--json"] + cache
            case "convert": ["convert", photo, folder.path + "/out.png", "--resize", "40x40"]
            default: ["sheet", photo, "--out", folder.path + "/out.png"] + cache
            }
        var environment = ProcessInfo.processInfo.environment
        // A helper has none of its own.
        if !hasHelpers { environment["DIPPER_DECODER"] = "1" }
        return try await ChildProcess(
            Dipper.executable, arguments + ["--isolation", isolation],
            input: .inMemory(command == "batch" ? "get \(url)\n" : ""), environment: environment
        ).output()
    }

    @Test(
        "where that is required, and fails without helpers; otherwise it decodes itself",
        arguments: ["get", "batch", "info", "convert", "sheet"])
    func required(_ command: String) async throws {
        #expect(try await run(command, "required", hasHelpers: true).status == 0)
        let refused = try await run(command, "required", hasHelpers: false)
        #expect(refused.status == 1)
        #expect((refused.text + refused.errors).contains("not isolated"), "\(refused.text) \(refused.errors)")
        #expect(try await run(command, "preferred", hasHelpers: false).status == 0)
        #expect(try await run(command, "off", hasHelpers: false).status == 0)
    }

    @Test("info says what the wall is like on this machine, without pictures too")
    func posture() async throws {
        let dipper = try await Dipper()
        let text = try await dipper.run("info", "--isolation", "required")
        #expect(text.status == 0 && text.lines.count == 1)
        #expect(text.text.hasPrefix("isolation: '/proc/self/exe' decodes; the wall is complete"))
        let json = try await dipper.run("info", PictureFiles.photo.path, "--isolation", "preferred", "--json")
        #expect(json.calls.count == 2 && json.calls[0]["width"] == 900)
        #expect(json.calls[1]["isolation", "program", "complete"] == ["preferred", "/proc/self/exe", true])
        let missing = try await Dipper.run(
            ["info", "--isolation", "required", "--cache-dir", dipper.path], environment: ["DIPPER_DECODER": "1"])
        #expect(missing.status == 1 && missing.text.hasPrefix("isolation: missing: "))
        let automatic = try await dipper.run("info", "--isolation", "automatic", "--json")
        #expect(automatic.status == 0 && automatic.calls.map { $0["isolation"] } == ["automatic"])
        #expect(try await dipper.run("info").status == 64)
        #expect(try await dipper.run("info", "--isolation", "perhaps").status == 64)
    }

    @Test("inspect shows small pictures that are decoded as isolated", arguments: [("required", 404), ("off", 200)])
    func inspect(_ isolation: String, _ status: Int) async throws {
        let dipper = try await Dipper(["/photo": try PictureFiles.photoBytes])
        #expect(try await dipper.run("get", dipper.url("/photo")).status == 0)
        // A helper has none of its own.
        let command = ["DIPPER_DECODER=1", Dipper.executable, "inspect", "--isolation", isolation]
        let tool = try LineTool("/usr/bin/env", command + ["--cache-dir", dipper.path + "/cache"])
        let page = try #require(await tool.nextLine())
        let entries = try await Proxy.curl([page + "entries"]).body
        let names = try #require(try JSONSerialization.jsonObject(with: entries) as? [String: Any])["rows"]
        let name = try #require((names as? [[String: Any]])?.first?["i"] as? String)
        #expect(try await Proxy.curl([page + "thumbnail?key=" + name]).status == status)
        tool.end()
    }

    @Test(
        "The default is that of the library: automatic",
        arguments: ["get", "batch", "info", "convert", "sheet", "inspect"])
    func standard(_ command: String) async throws {
        let help = try await Dipper.run([command, "--help"]).text
        #expect(help.split(whereSeparator: \.isWhitespace).joined(separator: " ").contains("(default: automatic)"))
    }

    #if SVG
        @Test("Formats that ask for it are decoded apart by default, where text has no fonts")
        func formats() async throws {
            let file = folder.url.appendingPathComponent("text.svg")
            try Data("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><text y='9'>a</text></svg>".utf8)
                .write(to: file)
            let convert = ["convert", file.path, folder.path + "/out.png"]
            let apart = try await Dipper.run(convert)
            #expect(apart.status == 1 && apart.errors.contains("fonts"), "\(apart.errors)")
            #expect(try await Dipper.run(convert + ["--isolation", "off"]).status == 0)
        }
    #endif
}
