import Logging
import TestSupport
import Testing

@Suite("A folder is used only if it is the cache's own, and for the user alone", .timeLimit(.minutes(2)))
struct FolderSafetyTests {
    private let folder = TemporaryFolder()

    /// Expects that a cache refuses the folder, changes nothing in it, works in memory, and says so in one line.
    private func expectRefusal(_ folder: TemporaryFolder, _ comment: String = "") async throws {
        let before = folder.inventory
        let lines = Box<[String]>([])
        let test = TestCache(folder: folder) {
            $0.logger = .recording(lines: { line in lines.update { $0.append(line) } })
            $0.logger.logLevel = .notice
        }
        try await test.cache.addDataAndWait(Data("here".utf8), for: "here")
        #expect(test.cache.readData(for: "here") == Data("here".utf8), "\(comment)")
        #expect(test.cache.diskCount == 0 && test.cache.listedKeys.isEmpty, "\(comment)")
        try await test.cache.useAll()
        #expect(folder.inventory == before, "\(comment)")
        let errors = lines.value.filter { $0.hasPrefix("error") }
        #expect(errors.count == 1 && errors[0].contains(folder.path), "\(comment): \(lines.value)")
    }

    @Test("a folder that is neither empty nor has the marker of this format is refused, whatever its files are called")
    func foreign() async throws {
        let texts = ["", "somebody's text", "dipper-cache 3\nand more", "dip\0\0x", String(repeating: "\0", count: 16)]
        let names = ["notes.txt", ".new.0123456789abcdef", "blobs/ab/abfile", "index.sqlite", "data.mdb"]
        // The markers of other formats, and of something else.
        let markers = ["dipper-cache 99\n", "dipper-cache 2\n", "", "something else\n", "dipper-cache 3 or so\n"]
        let files = names.flatMap { name in texts.map { (name, $0) } } + markers.map { ("dipper-cache", $0) }
        for (name, text) in files where !name.hasPrefix(".new") || !text.isEmpty {
            let folder = TemporaryFolder()
            try folder.place(text, at: name)
            try await expectRefusal(folder, "\(name): \(text.debugDescription)")
        }
        let (folder, other) = (TemporaryFolder(), TemporaryFolder())
        try other.place("kept", at: "precious")
        symlink(other.path, folder.path + "/stores")
        let before = other.inventory
        try await expectRefusal(folder)
        #expect(other.inventory == before)
    }

    @Test("a folder that is new or empty becomes the cache's, also if many caches open it at once")
    func marking() async throws {
        let parent = TemporaryFolder()
        let place = parent.url.appendingPathComponent("new/cache")
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    let cache = TestCache { $0.directory = place }.cache
                    try? await cache.keep(["k\(number)": number * 900])
                    await cache.shutdown()
                }
            }
        }
        #expect(FileManager.default.fileExists(atPath: place.path + "/dipper-cache"))
        let test = TestCache { $0.directory = place }
        #expect(test.cache.diskCount == 8)
        for number in 0..<8 { #expect(test.cache.readData(for: CacheKey("k\(number)"))?.count == number * 900) }
    }

    private func mode(_ path: String) -> mode_t {
        var status = stat()
        lstat(path, &status)
        return status.st_mode & 0o777
    }

    @Test("no other user can read anything in the folder, whatever its mode and the umask")
    func modes() async throws {
        let parent = TemporaryFolder()
        chmod(folder.path, 0o755)
        for place in [parent.url.appendingPathComponent("made"), folder.url] {
            let test = TestCache { $0.directory = place }
            try await test.cache.keep(["a": 9_000, "b": 9_000, "c": 100])
            for name in FileManager.default.subpaths(atPath: place.path) ?? [] {
                #expect(mode(place.path + "/" + name) & 0o077 == 0, "\(name)")
            }
            await test.cache.shutdown()
        }
        #expect(mode(parent.path + "/made") == 0o700)
    }

    @Test("a folder in which every user may write is refused; one that is its group's is used, and said")
    func writable() async throws {
        chmod(folder.path, 0o777)
        try await expectRefusal(folder)
        chmod(folder.path, 0o775)
        let lines = Box<[String]>([])
        let test = TestCache(folder: folder) {
            $0.logger = .recording(lines: { line in lines.update { $0.append(line) } })
        }
        try await test.cache.keep(["a"], size: 9_000)
        #expect(test.cache.diskCount == 1)
        #expect(lines.value.count { $0.hasPrefix("warning") && $0.contains("group") } == 1, "\(lines.value)")
        await test.cache.shutdown()
    }

    @Test("a folder whose path is too long for SQLite is refused in words; one that is as long as it may be works")
    func longPath() async throws {
        let names = { (length: Int) in String(repeating: "x", count: length) }
        let start = folder.path + "/" + names(200) + "/"
        for length in [484, 485, 569, 900] {
            var path = start + names(200) + "/"
            while path.utf8.count + 201 < length { path += names(200) + "/" }
            path += names(length - path.utf8.count)
            let lines = Box<[String]>([])
            let test = TestCache {
                $0.memoryLimit = 0
                $0.directory = URL(fileURLWithPath: path)
                $0.logger = .recording(lines: { line in lines.update { $0.append(line) } })
            }
            try await test.cache.keep(["a": 9_000, "b": 100])
            #expect(test.cache.diskCount == (length == 484 ? 2 : 0), "\(length)")
            let words = "has \(length) bytes, and SQLite allows 484"
            #expect(lines.value.contains { $0.contains(words) } == (length > 484), "\(length): \(lines.value)")
            await test.cache.shutdown()
        }
    }

    @Test("no symbolic link in the folder is followed, for reading, writing or removing")
    func links() async throws {
        let first = TestCache(folder: folder)
        try await first.cache.keep(["a": 9_000])
        let large = try #require(first.cache.file(for: "a")).path
        await first.cache.shutdown()
        for name in folder.files + folder.folders {
            let (copy, other) = (try folder.copied(), TemporaryFolder())
            // What could be taken for the cache's own is elsewhere, behind a link.
            let place = copy.path + "/" + name
            try FileManager.default.moveItem(atPath: place, toPath: other.path + "/theirs")
            symlink(other.path + "/theirs", place)
            let before = other.inventory
            let test = TestCache.onDisk(copy)
            let read = test.cache.readData(for: "a")
            if large.hasSuffix("/" + name) { #expect(read == nil, "\(name)") }
            #expect(read == nil || read == DiskBytes.of(9_000, "a"))
            try await test.cache.useAll()
            #expect(other.inventory == before, "\(name)")
        }
    }

    @Test("files that the cache cannot have made stay, whatever is removed")
    func foreignFiles() async throws {
        let cache = TestCache(folder: folder).cache
        try await cache.keep(["a": 9_000])
        await cache.shutdown()
        let theirs = ([""] + folder.folders.map { $0 + "/" }).flatMap { [$0 + "notes.txt", $0 + "deep/app.yml"] }
        for name in theirs { try folder.place("theirs", at: name) }
        for _ in 0..<2 { try await TestCache(folder: folder).cache.useAll() }
        for name in theirs { #expect(folder.text(name) == "theirs", "\(name)") }
        #expect(folder.files.allSatisfy { !$0.hasPrefix("blobs/") || theirs.contains($0) })
    }

    @Test(
        "a folder of another user is refused, and another user's file in it counts as not there",
        .enabled(if: geteuid() == 0, "giving files away needs root"))
    func owner() async throws {
        let first = TestCache(folder: folder).cache
        try await first.keep(["a": 9_000])
        let file = try #require(first.file(for: "a")).path
        await first.shutdown()
        chown(file, 12_345, 12_345)
        let second = TestCache(folder: folder).cache
        #expect(second.readData(for: "a") == nil)
        await second.shutdown()
        chown(folder.path, 12_345, 12_345)
        try await expectRefusal(folder)
    }

    @Test(
        "names of one's own cannot leave the folder, and a shared name mixes no keys up",
        arguments: [
            "../../escape", "/etc/passwd", "..", ".", "", ".hidden", "a/b", "nul\0byte",
            String(repeating: "x", count: 300), "plain", "ab",
        ])
    func hostile(name: String) async throws {
        let cache = TestCache.onDisk(folder) { $0.fileNaming = .custom { _ in name } }.cache
        try await cache.keep(["one": 9_000])
        let file = try #require(cache.file(for: "one"))
        #expect(file.resolvingSymlinksInPath().path.hasPrefix(folder.url.resolvingSymlinksInPath().path + "/"))
        #expect(!FileManager.default.fileExists(atPath: folder.url.deletingLastPathComponent().path + "/escape"))
        try await cache.keep(["two": 10_000])
        #expect(cache.readData(for: "two") == DiskBytes.of(10_000, "two"))
        let one = cache.readData(for: "one")
        #expect(one == nil || one == DiskBytes.of(9_000, "one"))
        #expect(await cache.verify().isSound)
    }

    // MARK: Secrets

    @Test("nothing on disk holds cookies, passwords or values of request fields", arguments: [20_000, 100])
    func secrets(size: Int) async throws {
        let secrets = ["c00kie", "t0ken", "l4nguage", "p4ssword"]
        let test = TestCache(folder: folder) { $0.retryPolicy = .never }
        let target = try #require(URL(string: "http://user:p4ssword@host.test/a"))
        let request = DataRequest(target).with(\.headers, ["X-Key": "t0ken", "Accept-Language": "l4nguage"])
        var fields: HTTPHeaders = [
            "Set-Cookie": "session=c00kie", "set-cookie2": "session=c00kie", "ETag": "\"v\"",
            "Vary": "Accept-Language, X-Key", "Cache-Control": "max-age=100", "Content-Length": "\(size)",
        ]
        let task = test.cache.getData(request)
        try await test.transport.nextTransfer().finish(with: Data(count: size), headers: fields)
        #expect(try await task.response.headers["Set-Cookie"] != nil, "the caller gets what the server said")
        fields["Content-Length"] = "1000"
        let broken = test.cache.getData(request.with(\.cachePolicy, .ignoreCache))
        try await test.transport.nextTransfer().interrupt(with: .init(headers: fields, body: Data(count: 40)))
        _ = await broken.error
        await test.cache.synchronize()
        #expect(try folder.finding(secrets) == [])
        #expect(test.cache.readResponse(for: request)?.headers["Set-Cookie"] == nil)
        test.cache.clearMemory()
        let kept = try #require(test.cache.readResponse(for: request))
        #expect(kept.headers["Set-Cookie"] == nil && kept.headers["ETag"] == "\"v\"" && kept.data.count == size)
        await test.cache.shutdown()
        #expect(try folder.finding(secrets) == [])
    }
}
