import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Files of entries, for other programs", .timeLimit(.minutes(2)))
struct FileNamingTests {
    private let folder = TemporaryFolder()

    @Test(
        "a file has the name that the rule gives it, begins with the entry's bytes, and is found after a restart",
        arguments: [
            (.md5, "900150983cd24fb0d6963f7d28e17f72"), (.sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (.sha256(extension: .fixed("PNG")), "015ad.PNG"), (.custom { key in "page-\(key.string)" }, "page-abc"),
        ] as [(FileNaming, String)])
    func names(naming: FileNaming, expected: String) async throws {
        for round in 0..<2 {
            let cache = TestCache.onDisk(folder) { $0.fileNaming = naming }.cache
            if round == 0 { try await cache.keep(["abc": 9_000]) }
            let file = try #require(cache.file(for: "abc"))
            #expect(file.lastPathComponent.contains(expected), "\(file.lastPathComponent)")
            #expect(try Data(contentsOf: file).prefix(9_000) == DiskBytes.of(9_000, "abc"))
            #expect(cache.data(for: "abc") == DiskBytes.of(9_000, "abc"))
            #expect(await cache.verify().sound == 1)
            await cache.shutdown()
        }
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
        #expect(cache.data(for: "two") == DiskBytes.of(10_000, "two"))
        let one = cache.data(for: "one")
        #expect(one == nil || one == DiskBytes.of(9_000, "one"))
        #expect(await cache.verify().isSound)
    }
}
