import TestSupport
import Testing

@Suite(
    "A real disk that is full or read-only", .enabled(if: geteuid() == 0, "mounting a tmpfs needs root"),
    .timeLimit(.minutes(2)))
struct RealDiskTests {
    @Test("full: the cache goes on in memory, durable writes fail, and it writes again when there is room")
    func full() async throws {
        let mount = try Mount(megabytes: 2)
        let test = TestCache { $0.directory = mount.cache }
        for number in 0..<40 {
            try await test.cache.addDataAndWait(DiskBytes.of(100_000, "\(number)"), for: CacheKey("\(number)"))
        }
        await test.cache.expectNotDurable(1 << 20)
        for number in 0..<40 { #expect(test.cache.data(for: CacheKey("\(number)"))?.count == 100_000, "in memory") }
        test.cache.clearMemory()
        for number in 0..<40 {
            let read = test.cache.data(for: CacheKey("\(number)"))
            #expect(read == nil || read == DiskBytes.of(100_000, "\(number)"))
        }
        test.cache.clear()
        await test.cache.synchronize()
        try await test.cache.addDataAndWait(Data(count: 50_000), for: "after")
        test.cache.clearMemory()
        #expect(test.cache.data(for: "after")?.count == 50_000)
        #expect(await test.cache.verify().isSound)
        await test.cache.shutdown()
    }

    @Test("read-only: large entries are read, and nothing is an error")
    func readOnly() async throws {
        let mount = try Mount(megabytes: 8)
        let writer = TestCache { $0.directory = mount.cache }
        try await writer.cache.keep(["large"], size: 9_000)
        await writer.cache.shutdown()
        try mount.makeReadOnly()
        let reader = TestCache { $0.directory = mount.cache }
        #expect(reader.cache.data(for: "large") == DiskBytes.of(9_000, "large"))
        try await reader.cache.addDataAndWait(Data(count: 10), for: "new")
        #expect(reader.cache.data(for: "new")?.count == 10, "in memory")
        try await reader.cache.addDataAndWait(Data(count: 20), for: "large")
        reader.cache.clearMemory()
        #expect(reader.cache.data(for: "large")?.count != 9_000, "it is out of date")
        reader.cache.removeData(for: "large")
        reader.cache.clear()
        await reader.cache.synchronize()
        #expect(!reader.cache.hasData(for: "large"))
        await reader.cache.shutdown()
    }
}

private final class Mount {
    struct Failed: Error { let code: Int32 }

    let folder = TemporaryFolder()
    var cache: URL { folder.url.appendingPathComponent("cache") }

    init(megabytes: Int) throws { try mount(0, "size=\(megabytes)m") }

    func makeReadOnly() throws { try mount(UInt(MS_REMOUNT | MS_RDONLY)) }

    private func mount(_ flags: UInt, _ options: String? = nil) throws {
        guard Glibc.mount("tmpfs", folder.path, "tmpfs", flags, options) == 0 else { throw Failed(code: errno) }
    }

    deinit { umount2(folder.path, Int32(MNT_DETACH)) }
}
