import TestSupport
import Testing

@Suite("Damage on disk is a miss: never wrong bytes, and never fatal", .timeLimit(.minutes(2)))
struct DamageTests {
    private let folder = TemporaryFolder()
    private static let all = (0..<60).map { "k\($0)" } + ["l0", "l1", "l2"]

    private func size(_ key: String) -> Int { key.hasPrefix("l") ? 9_000 : 400 }

    private func fill() async throws {
        let test = TestCache(folder: folder)
        for key in Self.all { try test.cache.addData(DiskBytes.of(size(key), key), for: CacheKey(key)) }
        await test.cache.shutdown()
    }

    enum Harm: CaseIterable {
        case flips, otherFlips, halved, emptied, zeroed, garbage, removed, folder, pipe, link

        /// Whether a file with other bytes, or none, is in the place.
        var isOfBytes: Bool { ![.folder, .pipe, .link].contains(self) }

        func harm(_ file: URL) throws {
            var bytes = try Data(contentsOf: file)
            switch self {
            case .flips, .otherFlips:
                if bytes.isEmpty { return }
                let start = self == .flips ? 0 : 7_919
                for step in 0..<40 { bytes[(start + step * bytes.count / 40) % bytes.count] ^= 0x11 }
                return try bytes.write(to: file)
            case .halved: return try bytes.prefix(bytes.count / 2).write(to: file)
            case .emptied: return try Data().write(to: file)
            case .zeroed: return try Data(count: bytes.count).write(to: file)
            case .garbage: return try DiskBytes.noise(max(100, bytes.count)).write(to: file)
            case .removed, .folder, .pipe, .link: break
            }
            try FileManager.default.removeItem(at: file)
            switch self {
            case .folder:
                try FileManager.default.createDirectory(
                    at: file.appendingPathComponent("x"), withIntermediateDirectories: true)
            case .pipe: mkfifo(file.path, 0o600)
            case .link: symlink("/proc/self/none", file.path)
            default: break
            }
        }
    }

    @Test("any file of the folder, damaged while no cache is open", arguments: Harm.allCases)
    func anyFile(harm: Harm) async throws {
        try await fill()
        for name in folder.files {
            let folder = try folder.copied()
            try harm.harm(folder.url.appendingPathComponent(name))
            let test = TestCache.onDisk(folder)
            for key in Self.all {
                guard let read = test.cache.readData(for: CacheKey(key)) else { continue }
                #expect(read == DiskBytes.of(size(key), key), "\(name): \(key)")
            }
            #expect(test.cache.listedKeys.isSubset(of: Self.all))
            test.cache.removeExpired()
            test.cache.flush(olderThan: .seconds(1_000))
            test.cache.trimDisk(to: 20_000)
            _ = await test.cache.verify()
            // A folder without its marker is nobody's, and one with a link or a pipe in it may be refused.
            let isOurs = harm.isOfBytes && name != "dipper-cache"
            try await expectRecovery(test.cache, isOurs ? folder : nil, name)
        }
    }

    @Test("a verification repairs an index that is damaged where no call reads")
    func freePages() async throws {
        try await fill()
        let emptied = TestCache(folder: folder)
        for key in Self.all { emptied.cache.removeData(for: CacheKey(key)) }
        await emptied.cache.shutdown()
        let index = folder.url.appendingPathComponent("index.sqlite")
        var bytes = try Data(contentsOf: index)
        // The number of the first free page (SQLite's file format, 1.3.10), of which there must be some.
        let isFreePageThere = bytes[36..<40].contains { $0 > 0 }
        try #require(isFreePageThere)
        bytes.replaceSubrange(32..<36, with: [0x20, 0, 0, 0x88])
        try bytes.write(to: index)
        let test = TestCache.onDisk(folder)
        #expect(await !test.cache.verify().isSound)
        #expect(await test.cache.verify().isSound)
        try await expectRecovery(test.cache, folder)
    }

    /// Expects that entries can be added, and are there when the folder is opened again.
    private func expectRecovery(
        _ cache: DataCache, _ folder: TemporaryFolder?, writes: Int = 2, _ comment: String = ""
    ) async throws {
        // The damage may be noticed by the first write.
        for _ in 0..<writes { try await cache.keep(["after", "l after"], size: 9_000) }
        await cache.shutdown()
        guard let folder else { return }
        let again = TestCache.onDisk(folder).cache
        for key in ["after", "l after"] {
            #expect(again.readData(for: CacheKey(key)) == DiskBytes.of(9_000, key), "\(comment)")
        }
        #expect(await again.verify().isSound, "\(comment)")
        await again.shutdown()
    }

    /// Runs a program of Python with the arguments in `a`.
    ///
    /// What an open cache's index is read or changed with is another process: one that closes a database's file
    /// gives up all locks that SQLite has on it in this process, and then neither cache nor program can rely on them.
    private func python(_ program: String, _ arguments: String...) throws -> String {
        let program = "import os, sqlite3, sys; a = sys.argv[1:]\n" + program
        return try String(decoding: runProgram("/usr/bin/python3", ["-c", program] + arguments), as: UTF8.self)
    }

    private func databases() throws -> [URL] {
        try folder.files.filter { !$0.contains("/") }.filter { name in
            try python("print(open(a[0], 'rb').read(15) == b'SQLite format 3')", folder.url.path + "/" + name)
                == "True\n"
        }
        .map { folder.url.appendingPathComponent($0) }
    }

    private func run(_ statement: String, in database: URL) throws {
        _ = try python(
            "c = sqlite3.connect(a[0]); c.execute(a[1]); c.commit(); c.close()", database.path, statement)
    }

    /// Writes over the whole file, whose place and size stay.
    private func overwrite(_ file: URL, with bytes: Data) throws {
        let handle = try FileHandle(forWritingTo: file)
        try handle.write(contentsOf: bytes)
        try handle.truncate(atOffset: UInt64(bytes.count))
        try handle.close()
    }

    @Test(
        "an index that is overwritten, or has impossible numbers, is replaced, also while it is open",
        arguments: [
            nil, "DELETE FROM total", "UPDATE total SET cleared = 9223372036854775807",
            "UPDATE entry SET place = 9223372036854775807 WHERE place = 1",
        ], [false, true])
    func brokenIndex(statement: String?, isOpen: Bool) async throws {
        try await fill()
        var cache = TestCache.onDisk(folder).cache
        #expect(cache.readData(for: "k0") != nil)
        if !isOpen { await cache.shutdown() }
        let index = try #require(databases().first)
        if let statement {
            try run(statement, in: index)
        } else {
            _ = try python("f = open(a[0], 'r+b'); f.write(os.urandom(os.path.getsize(a[0])))", index.path)
        }
        if !isOpen { cache = TestCache.onDisk(folder).cache }
        for key in Self.all {
            let read = cache.readData(for: CacheKey(key))
            #expect(read == nil || read == DiskBytes.of(size(key), key))
        }
        try await expectRecovery(cache, folder, writes: statement == nil ? 3 : 2)
    }

    @Test("a database of another program in the place of the index is left alone, and the cache goes on in memory")
    func foreignIndex() async throws {
        try await fill()
        let file = try #require(databases().first)
        try FileManager.default.removeItem(at: file)
        try run("CREATE TABLE note (t)", in: file)
        let bytes = try Data(contentsOf: file)
        let test = TestCache(folder: folder)
        try test.cache.addData(Data("here".utf8), for: "note")
        #expect(test.cache.readData(for: "note") == Data("here".utf8))
        #expect(test.cache.readData(for: "k0") == nil)
        test.cache.clear()
        await test.cache.shutdown()
        #expect(try Data(contentsOf: file) == bytes)
    }

    @Test("no flipped bit and no truncation of an open cache's file is taken for whole, and the entry is gone")
    func openFile() async throws {
        let test = TestCache.onDisk(TemporaryFolder())
        let body = DiskBytes.of(9_000, "a")
        try await test.cache.addDataAndWait(body, for: "a")
        for place in stride(from: 0, to: 9_000, by: 211) {
            for isCut in [true, false] {
                let file = try #require(test.cache.file(for: "a"))
                var bytes = try Data(contentsOf: file)
                if isCut { bytes = bytes.prefix(place) } else { bytes[place] ^= UInt8(1 << (place % 8)) }
                try overwrite(file, with: bytes)
                #expect(test.cache.readData(for: "a") == nil, "\(place)")
                await test.cache.synchronize()
                #expect(test.cache.diskCount == 0 && test.cache.diskSize == 0)
                try await test.cache.addDataAndWait(body, for: "a")
                #expect(test.cache.readData(for: "a") == body, "fetched again, it is kept again")
            }
        }
    }

    @Test(
        "impossible times in an index end no program, and its entries are found, expired or gone",
        arguments: ["expires", "extension", "stored", "accessed"],
        ["-1e300", "1e300", "9e999", "-9e999", "'soon'", "x'00'", "-9223372036854775808"])
    func times(column: String, value: String) async throws {
        try await fill()
        try run("UPDATE entry SET \(column) = \(value)", in: #require(databases().first))
        let test = TestCache.onDisk(folder)
        for key in Self.all {
            let read = test.cache.readData(for: CacheKey(key))
            #expect(read == nil || read == DiskBytes.of(size(key), key))
        }
        test.cache.forEachEntry { _ = "\($0.stored) \($0.accessed) \($0.expires as Any)" }
        test.cache.removeExpired()
        test.cache.flush(olderThan: .seconds(1))
        await test.cache.synchronize()
        _ = await test.cache.verify()
        // The cache's thread has been told of the first expiration by now.
        test.transport.script(url("a"), [.body(Data(count: 10))])
        #expect(try await test.cache.getData(url("a")).value.count == 10)
        try await expectRecovery(test.cache, folder)
    }

    @Test("verifying finds the damaged entries, removes them, and says how many there were")
    func verify() async throws {
        let test = TestCache.onDisk(TemporaryFolder())
        try await test.cache.keep(["a": 9_000, "b": 9_000, "c": 9_000, "small": 100])
        var report = await test.cache.verify()
        #expect(report.isSound && report.sound == 4 && report.bytes == test.cache.diskSize)
        for key: CacheKey in ["a", "c"] { try #require(test.cache.file(for: key)).damage(at: 2_000) }
        report = await test.cache.verify()
        #expect(!report.isSound && report.damaged == 2 && report.sound == 2)
        #expect(test.cache.listedKeys == ["b", "small"] && test.cache.diskCount == 2)
        report = await test.cache.verify()
        #expect(report.isSound && report.sound == 2 && report.bytes == test.cache.diskSize)
    }

    @Test("a folder removed behind the cache's back counts as empty at once, and is made anew with the next write")
    func removedFolder() async throws {
        let test = TestCache.onDisk(folder)
        try await test.cache.keep(["a": 9_000, "b": 100])
        try FileManager.default.removeItem(at: folder.url)
        // Small entries have no file that is missed.
        #expect(test.cache.readData(for: "b") == nil && !test.cache.hasData(for: "b"))
        #expect(test.cache.diskCount == 0 && test.cache.listedKeys.isEmpty && test.cache.entry(for: "a") == nil)
        #expect(test.cache.readData(for: "a") == nil)
        try await test.cache.keep(["c", "d"], size: 9_000)
        #expect(test.cache.readData(for: "c") != nil && test.cache.diskCount == 2)
        await test.cache.shutdown()
        #expect(TestCache.onDisk(folder).cache.listedKeys == ["c", "d"])
    }
}
