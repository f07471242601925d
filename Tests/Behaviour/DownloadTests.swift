import TestSupport
import Testing

@Suite("A download puts the bytes of a call into a file", .timeLimit(.minutes(2)))
struct DownloadTests {
    private let folder = TemporaryFolder()
    private let downloads = TemporaryFolder()
    private let target = url("a")
    private let test: TestCache

    init() { test = TestCache.onDisk(folder) { $0.retryPolicy = .never } }

    private var file: URL { downloads.url.appendingPathComponent("film.bin") }

    private func status(_ file: URL) -> stat {
        var status = stat()
        lstat(file.path, &status)
        return status
    }

    private func isRight(_ body: Data, at file: URL) -> Bool {
        (try? Data(contentsOf: file)) == body && downloads.files == [file.lastPathComponent]
    }

    @Test("bytes that are on disk are not written again, and stay when the entry goes")
    func shared() async throws {
        let body = DiskBytes.of(100_000, "film")
        test.transport.script(target, [.body(body)])
        for _ in 0..<2 {
            let response = try await test.cache.getData(target).download(to: file)
            #expect(response.data == body && isRight(body, at: file))
        }
        let kept = try #require(test.cache.file(for: CacheKey(target)))
        // A file system that shares bytes between files has two files.
        if status(kept).st_ino == status(file).st_ino {
            #expect(status(file).st_nlink == 2 && status(file).st_mode & 0o777 == 0o400)
        } else {
            #expect(status(file).st_mode & 0o200 != 0)
        }
        test.cache.clear()
        try await test.cache.finishRemovals()
        #expect(isRight(body, at: file))
    }

    @Test("a program that changes the file all the same does not change what the cache gives")
    func changed() async throws {
        let body = DiskBytes.of(100_000, "film")
        test.transport.script(target, [.body(body)])
        try await test.cache.getData(target).download(to: file)
        chmod(file.path, 0o600)
        let handle = try FileHandle(forUpdating: file)
        try handle.write(contentsOf: Data("changed".utf8))
        try handle.close()
        let next = await test.reopened()
        next.transport.script(target, [.body(body)])
        #expect(try await next.cache.getData(target).value == body)
    }

    @Test(
        "bytes that have no file of their own are written",
        arguments: [(100, nil), (100_000, .memoryOnly), (100_000, .bypass)] as [(Int, DataRequest.CachePolicy?)])
    func written(size: Int, policy: DataRequest.CachePolicy?) async throws {
        let body = DiskBytes.of(size, "note")
        test.transport.script(target, [.body(body)])
        try Data("before".utf8).write(to: file)
        try await test.cache.slowGetData(DataRequest(target).with(\.cachePolicy, policy)).download(to: file)
        #expect(isRight(body, at: file) && status(file).st_nlink == 1 && status(file).st_mode & 0o600 == 0o600)
    }

    @Test("encoded and compressed bytes come out as they are", arguments: [true, false])
    func encoded(isEncoded: Bool) async throws {
        let test = TestCache.onDisk(TemporaryFolder()) {
            if isEncoded { $0.recordCodec = AESCodec(1) } else { $0.compression = .zstd }
        }
        let body = Data(repeating: 0x20, count: 100_000)
        test.transport.script(
            target, [.response(TransferResponse(headers: ["Content-Type": "text/plain"], body: body))])
        try await test.cache.getData(target).download(to: file)
        #expect(isRight(body, at: file) && status(file).st_nlink == 1)
    }

    @Test("a call that fails leaves the file as it was")
    func failed() async throws {
        try Data("before".utf8).write(to: file)
        test.transport.script(target, [.status(404)])
        await #expect(throws: DipperError.status(404)) { try await test.cache.getData(target).download(to: file) }
        #expect(isRight(Data("before".utf8), at: file))
    }

    @Test("what cannot be a file is refused, and nothing is left behind")
    func refused() async throws {
        test.transport.script(target, [.body(Data("a".utf8))])
        let inside = file.appendingPathComponent("deeper")
        try FileManager.default.createDirectory(at: inside, withIntermediateDirectories: true)
        for other in [file, URL(fileURLWithPath: "/dev/null"), downloads.url.appendingPathComponent("none/film")] {
            await #expect(throws: DipperError.notWritten) { try await test.cache.getData(target).download(to: other) }
        }
        await #expect(throws: DipperError.invalidURL) { try await test.cache.getData(target).download(to: target) }
        #expect(downloads.files == [] && FileManager.default.fileExists(atPath: inside.path))
        #expect(status(URL(fileURLWithPath: "/dev/null")).st_mode & S_IFMT == S_IFCHR)
    }

    @Test("a call of a cache that is gone has its bytes all the same")
    func late() async throws {
        let body = DiskBytes.of(100_000, "film")
        test.transport.script(target, [.body(body)])
        let task = test.cache.getData(target)
        #expect(try await task.value == body)
        await test.cache.shutdown()
        try await task.download(to: file)
        #expect(isRight(body, at: file))
    }
}
