import FaultServer
import TestSupport
import Testing

@Suite("The tool prints no secrets, and tells failures on standard error", .timeLimit(.minutes(2)))
struct SecretsInOutputTests {
    private static let canary = "c4n4ry"
    private let canary = Self.canary

    private func url(_ dipper: Dipper, _ target: String) -> String {
        dipper.url(target).replacingOccurrences(of: "://", with: "://\(canary):\(canary)@")
            + "\(target.contains("?") ? "&" : "?")access_token=\(canary)&size=visible"
    }

    private func expectNoSecret(_ output: Dipper.Output, sourceLocation: SourceLocation = #_sourceLocation) {
        let text = output.text + output.errors
        #expect(!text.contains(canary), "\(text)", sourceLocation: sourceLocation)
    }

    @Test("get, batch, list, show, info: URLs without passwords and tokens, other values, and keys that name entries")
    func commands() async throws {
        let dipper = try await Dipper()
        func run(
            _ arguments: [String], input: String = "", sourceLocation: SourceLocation = #_sourceLocation
        ) async throws -> Dipper.Output {
            let output = try await dipper.run(arguments, input: input)
            expectNoSecret(output, sourceLocation: sourceLocation)
            return output
        }
        let header = ["--header", "X-Api-Key: \(canary)"]
        let good = url(dipper, "/bytes/3000/a;jsessionid=\(canary)?header=Set-Cookie:session=\(canary)")
        let missing = url(dipper, "/nothing")

        let table = try await run(["get", good, missing, "nonsense?key=\(canary)"] + header)
        #expect(table.status == 1 && table.errors.contains("size=visible: status 404"))
        #expect(table.lines.contains { $0.contains("size=visible") && $0.contains("network") })

        let out = ["--out", dipper.path + "/out", "--timeline", dipper.path + "/t.svg"]
        let json = try await run(["get", good, missing, "--json"] + header + out)
        let timeline = try #require(dipper.folder.text("t.svg"))
        #expect(timeline.contains("<svg") && !timeline.contains(canary))
        let names = try FileManager.default.contentsOfDirectory(atPath: dipper.path + "/out")
        #expect(names.count == 1 && !names.joined().contains(canary))

        let script = "get \(good)\nfetch \(good)\nget a:\(canary)@b c\nslow \(missing)\n"
        let batch = try await run(["batch"] + header, input: script)
        #expect(batch.status == 2 && batch.errors.contains("line 2") && batch.errors.contains("line 3"))

        for command in [
            ["list"], ["info", good, missing], ["info", good, missing, "--json"],
            ["sheet", good, "--out", dipper.path + "/s.png"], ["show", good], ["remove", missing],
            ["export", missing, "-"],
        ] { _ = try await run(command) }
        let entries = try await run(["list", "--json"]).calls
        #expect(entries.first?["url"]?.text?.contains("size=visible") == true)
        let shown = try await run(["show", good] + header)
        #expect(shown.status == 0 && shown.lines.contains { $0.hasPrefix("url") && $0.contains("size=visible") })
        #expect(!shown.lines.contains { $0.contains("Set-Cookie: ") }, "cookies are not kept")
        #expect(json.calls.allSatisfy { $0["key"]?.text?.count == 64 })
        #expect(!Set(json.calls.map { $0["key"] }).isDisjoint(with: entries.map { $0["key"] }))
    }

    @Test("usage that is not understood is told without what may be secret in it")
    func usage() async throws {
        let url = "https://a:\(canary)@host/?token=\(canary)"
        for arguments in [
            ["get", "http://h/", "--header", "Authorization \(canary)"], ["show", "http://h/", url],
            ["show", "http://h/", "--header", canary], ["stats", url], ["stats", "a:\(canary)@host"],
        ] {
            let output = try await Dipper.run(arguments)
            #expect(output.status == 64 && !output.errors.isEmpty)
            expectNoSecret(output)
        }
    }

    @Test("an entry is shown, exported and removed by its key, or by the beginning of it")
    func keys() async throws {
        let dipper = try await Dipper()
        let urls = (0..<3).map { url(dipper, "/bytes/50/n\($0)") }
        _ = try await dipper.run(["prefetch"] + urls + ["--header", "Accept: text/plain"])
        let keys = try await dipper.run("list", "--json").calls.compactMap { $0["key"]?.text }
        #expect(Set(keys).count == 3)
        for (number, key) in keys.enumerated() {
            let name = number == 0 ? key : String(key.prefix(12)).uppercased()
            #expect(try await dipper.run("list").lines.contains { $0.contains(key.prefix(12)) })
            #expect(try await dipper.run("show", name, "--json").calls.first?["key"]?.text == key)
            #expect(try await dipper.run("export", name, dipper.path + "/copy").status == 0)
            #expect(try dipper.file("copy").count == 50)
            #expect(try await dipper.run("remove", name).status == 0)
            #expect(try await dipper.run("remove", name).status == 1)
        }
        #expect(try await dipper.run("list").lines.isEmpty)
    }

    @Test("failures are told on standard error, one line each, and the table has the rest")
    func failures() async throws {
        let dipper = try await Dipper()
        let (good, missing) = (dipper.url("/bytes/10/a"), dipper.url("/nothing"))
        let output = try await dipper.run("get", good, missing, "ftp://host/x", "--retries", "0")
        #expect(output.status == 1)
        #expect(output.lines.count == 2, "a row and the sum: \(output.lines)")
        #expect(output.lines[0].contains(good) && output.lines[1].contains("2 failed"))
        let told = ["dipper: ftp://host/x: unsupported scheme: ftp", "dipper: \(missing): status 404"]
        #expect(output.errors.split(separator: "\n").map(String.init).sorted() == told)
        let json = try await dipper.run("get", good, missing, "--json")
        #expect(json.status == 1 && json.errors.isEmpty && json.calls.count == 2)
        // A folder stands where the file is to go.
        let out = dipper.path + "/out"
        try FileManager.default.createDirectory(atPath: out + "/a", withIntermediateDirectories: true)
        let unwritten = try await dipper.run("get", good, "--out", out)
        #expect(unwritten.status == 1)
        #expect(unwritten.errors == "dipper: \(good): cannot write '\(out)/a': Is a directory\n")
    }

    @Test("standard output that is full changes the exit status")
    func fullOutput() async throws {
        let dipper = try await Dipper()
        let url = dipper.url("/bytes/9000/a")
        #expect(try await dipper.run("prefetch", url).status == 0)
        for command in [["list"], ["stats"], ["get", url], ["export", url, "-"]] {
            let output = try await dipper.start(command, output: FileHandle(forWritingAtPath: "/dev/full")).output()
            #expect(output.status == 1, "\(command)")
            let isTold = output.errors == "dipper: standard output: No space left on device\n"
            #expect(isTold || command[0] == "export", "\(command): \(output.errors)")
        }
    }
}
