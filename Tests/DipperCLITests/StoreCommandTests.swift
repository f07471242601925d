import FaultServer
import TestSupport
import Testing

@Suite("The command line and the cache's folder", .timeLimit(.minutes(2)))
struct StoreCommandTests {
    private let folder = TemporaryFolder()
    private static let url = "http://127.0.0.1:9/none"
    private static let commands = [
        ["stats"], ["list"], ["show", url], ["export", url, "-"], ["remove", url], ["trim", "--size", "0"], ["clear"],
        ["verify"], ["get", url], ["prefetch", url], ["batch"],
    ]

    @Test("a folder that is not the cache's is refused with an exit status and a sentence, and stays as it was")
    func refused() async throws {
        for name in ["README", "staging/config/app.yml", "blobs/ab/data", "partial/x", "index.sqlite"] {
            try folder.place("theirs", at: "project/\(name)")
        }
        let before = folder.inventory
        for command in Self.commands {
            let output = try await Dipper.run(command + ["--cache-dir", folder.path + "/project"])
            #expect(output.status == 1 && output.lines.isEmpty, "\(command)")
            #expect(output.errors.contains("is not a folder of Dipper's"), "\(command): \(output.errors)")
            #expect(folder.inventory == before, "\(command)")
        }
        try folder.place("", at: "file")
        for command in Self.commands.prefix(2) {
            let output = try await Dipper.run(command + ["--cache-dir", folder.path + "/file"])
            #expect(output.status == 1 && output.errors.contains("Not a directory"), "\(command): \(output.errors)")
        }
    }

    @Test("a folder that is not there is told, and an empty one is an empty cache; neither is made or changed")
    func missing() async throws {
        for command in Self.commands.prefix(8) + [["get", Self.url, "--cache-only"]] {
            let path = folder.path + "/none/cache"
            let output = try await Dipper.run(command + ["--cache-dir", path])
            #expect(output.status == 1 && output.lines.isEmpty, "\(command)")
            #expect(output.errors == "dipper: cannot open '\(path)': No such file or directory\n", "\(command)")
            _ = try await Dipper.run(command, environment: ["XDG_CACHE_HOME": folder.path])
            _ = try await Dipper.run(command + ["--cache-dir", folder.path])
            #expect(folder.inventory.isEmpty, "\(command)")
        }
        for command in [["stats"], ["list"], ["verify"], ["clear"], ["trim", "--size", "0"]] {
            let output = try await Dipper.run(command + ["--cache-dir", folder.path])
            #expect(output.status == 0 && output.errors.isEmpty, "\(command): \(output.errors)")
        }
    }

    @Test(
        "what removes entries fails in a folder that cannot be written; what reads them works",
        .enabled(if: geteuid() == 0, "mounting a tmpfs needs root"))
    func unwritable() async throws {
        let mount = try Mount(megabytes: 8)
        let cache = TestCache { $0.directory = mount.cache }.cache
        try await cache.addDataAndWait(Data(count: 9_000), for: CacheKey(try #require(URL(string: Self.url))))
        await cache.shutdown()
        try mount.makeReadOnly()
        for command in [["remove", Self.url], ["clear"], ["trim", "--size", "0"], ["trim", "--older-than", "0s"]] {
            let output = try await Dipper.run(command + ["--cache-dir", mount.cache.path])
            #expect(output.status == 1 && output.errors.contains("not removed"), "\(command): \(output)")
            let lines = output.errors.split(separator: "\n")
            #expect(lines.count == 2 && lines.allSatisfy { $0.hasPrefix("dipper: ") }, "the reason, and the failure")
            #expect(output.errors.contains("Read-only file system"))
        }
        for command in [["stats"], ["list"], ["verify"], ["show", Self.url], ["export", Self.url, "-"]] {
            let output = try await Dipper.run(command + ["--cache-dir", mount.cache.path])
            #expect(output.status == 0 && !output.data.isEmpty, "\(command): \(output)")
        }
        let folder = mount.cache.path
        let out = try await Dipper.run(["get", Self.url, "--out", folder, "--cache-dir", folder])
        #expect(out.errors == "dipper: cannot write to '\(folder)': Read-only file system\n" && out.status == 1)
    }

    @Test("show --json says all that show says, and export and remove tell what they did")
    func json() async throws {
        let dipper = try await Dipper()
        let url = dipper.url("/bytes/9000/a?etag=v&cacheControl=max-age=60&header=X-Token:secret")
        _ = try await dipper.run("prefetch", url)
        let show = try #require(try await dipper.run("show", url, "--json").calls.first)
        let listed = try #require(try await dipper.run("list", "--json").calls.first)
        #expect(show["url", "key", "bytes"] == listed["url", "key", "bytes"])
        #expect(show["bodyBytes", "status"] == [9_000, 200])
        #expect(
            show["fresh"]?.text?.hasPrefix("until 20") == true && show["file"]?.text?.hasPrefix(dipper.path) == true)
        let text = try await dipper.run("show", url, "--json").text
        #expect(
            text.contains("\"etag\":[\"\\\"v\\\"\"]") && text.contains("\"x-token\":") && !text.contains("[\"secret\"]")
        )
        let export = try await dipper.run("export", url, dipper.path + "/copy", "--json").calls.first
        #expect(export?["key", "file", "bytes"] == [listed["key"], .text(dipper.path + "/copy"), 9_000])
        #expect(try await dipper.run("export", url, "-", "--json").data.count == 9_000)
        #expect(
            try await dipper.run("remove", url, "--json").calls.first == ["removed": 1, "bytes": listed["bytes"] ?? 0])
    }

    @Test("with rules for keys, an entry is found and removed by any signature and by other values of named parameters")
    func keyRules() async throws {
        let dipper = try await Dipper(["/photo": Data("x".utf8)])
        let rules = ["--ignore-signatures", "--ignore-parameter", "token", "--ignore-parameter", "session-*", "--json"]
        func url(_ value: Int) -> String {
            dipper.url("/photo?X-Amz-Signature=\(value)&b=1&X-Amz-Date=\(value)&a=1&token=\(value)&session-id=\(value)")
        }
        for (value, source) in [(1, "network"), (2, "disk")] {
            let call = try await dipper.run(["get", url(value)] + rules).calls.first
            #expect(call?["source"] == .text(source))
        }
        let listed = try await dipper.run("list", "--json").calls
        #expect(listed.map { $0["url"] } == [.text(dipper.url("/photo?a=1&b=1"))])
        #expect(try await dipper.run(["show", url(3)] + rules).calls.first?["status"] == 200)
        #expect(try await dipper.run(["remove", url(4)] + rules).calls.first?["removed"] == 1)
        #expect(try await dipper.run(["get", url(5), "--cache-only", "--json"] + rules.prefix(5)).status == 1)
    }

    @Test("a list that had to go without the index fails")
    func lostIndex() async throws {
        let cache = TestCache(folder: folder).cache
        for (key, size) in [("small", 100), ("large", 9_000)] {
            try await cache.addDataAndWait(Data(count: size), for: CacheKey(key))
        }
        await cache.shutdown()
        let whole = try await Dipper.run(["list", "--cache-dir", folder.path])
        #expect(whole.status == 0 && whole.lines.count == 2, "\(whole.errors)")
        try folder.place(Data(repeating: 7, count: 8_192), at: "index.sqlite")
        let output = try await Dipper.run(["list", "--cache-dir", folder.path])
        #expect(output.status == 1 && output.errors.contains("may be missing"), "\(output.errors)")
    }

    @Test(
        "what cannot be removed from a read-only folder is an error of the command",
        .enabled(if: geteuid() == 0, "mounting a tmpfs needs root"))
    func readOnly() async throws {
        let mount = try Mount(megabytes: 8)
        let cache = TestCache { $0.directory = mount.cache }.cache
        try await cache.addDataAndWait(Data(count: 9_000), for: CacheKey(try #require(URL(string: Self.url))))
        await cache.shutdown()
        try mount.makeReadOnly()
        for command in [["remove", Self.url], ["trim", "--size", "0"], ["trim", "--older-than", "0s"], ["clear"]] {
            let output = try await Dipper.run(command + ["--cache-dir", mount.cache.path])
            #expect(output.status == 1 && output.errors.contains("not removed"), "\(command): \(output)")
        }
        #expect(mount.blobs == 1)
    }

    @Test("trim, clear and verify are safe beside a program that writes")
    func besideWriter() async throws {
        let cache = TestCache(folder: folder) { $0.memoryLimit = 0 }.cache
        let isStopped = Box(false)
        @Sendable func body(_ number: Int) -> Data {
            Data(repeating: UInt8(truncatingIfNeeded: number), count: 100 + number * 37 % 6_000)
        }
        defer { isStopped.update { $0 = true } }
        let writing = Task<Int, any Error> {
            var number = 0
            while !isStopped.value || number < 100 {
                try await cache.addDataAndWait(body(number), for: CacheKey("k\(number)"))
                if number >= 10, let data = cache.readData(for: CacheKey("k\(number - 10)")) {
                    #expect(data == body(number - 10))
                }
                number += 1
            }
            return number
        }
        for command in ["verify", "trim --size 100KB", "clear", "verify", "trim --size 50KB"] {
            let arguments = command.split(separator: " ").map(String.init)
            let output = try await Dipper.run(arguments + ["--cache-dir", folder.path])
            #expect(output.status == 0 && output.errors.isEmpty, "\(command): \(output)")
        }
        isStopped.update { $0 = true }
        let last = try await writing.value
        let more = last..<last + 100
        for number in more { try await cache.addDataAndWait(body(number), for: CacheKey("k\(number)")) }
        for number in more { #expect(cache.readData(for: CacheKey("k\(number)")) == body(number)) }
        let report = await cache.verify()
        #expect(report.isSound && report.sound == cache.diskCount && report.bytes == cache.diskSize, "\(report)")
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/index-2.sqlite"))
        await cache.shutdown()
    }
}
