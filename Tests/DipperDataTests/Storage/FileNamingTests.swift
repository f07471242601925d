import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("File names may end with an extension", .timeLimit(.minutes(5)))
struct FileNamingTests {
    private func end(_ key: String, _ end: FileExtension = .ofURL) -> String? {
        let name = FileNaming.sha256(extension: end).name(CacheKey(verbatim: key))
        let digest = KeyDigest.sha256(CacheKey(verbatim: key))
        #expect(name.hasPrefix(digest))
        return name == digest ? nil : String(name.dropFirst(digest.count))
    }

    @Test(
        "the extension is that of the URL's path, plain and short, or there is none",
        arguments: [
            ("http://host/a/cat.jpg", ".jpg"), ("http://host/a/Cat.JPEG?size=2.5#x.y", ".jpeg"),
            ("http://host/archive.tar.gz", ".gz"), ("http://host/cat.jpg\n6:accept3:x.y", ".jpg"),
            ("http://host/cat.jpg\n17\nde", ".jpg"), ("avatar.png", ".png"), ("people/1.webp", ".webp"),
            ("http://host/a.12345678", ".12345678"),
            ("http://host.com", nil), ("http://host.com?a.b", nil), ("http://host/a.b/c", nil), ("http://host/", nil),
            ("http://host/.png", nil), ("http://host/a.", nil), ("http://host/a.123456789", nil),
            ("http://host/a.j_g", nil), ("http://host/a.j%67", nil), ("http://host/a.é", nil), ("http://host/a..", nil),
            ("http://host/a.jpg/..", nil), ("http://host/a.\u{212A}", nil), ("a", nil), ("", nil),
            // What was made from it may be of another format.
            ("http://host/cat.jpg\n#round", nil), ("http://host/cat.jpg\n#round\n17\nx.png", nil),
        ] as [(String, String?)])
    func ofURL(key: String, expected: String?) {
        #expect(end(key) == expected)
    }

    @Test("a fixed extension is that of all, unless it is no plain one")
    func fixed() {
        #expect(end("http://host/cat.jpg", .fixed("bin")) == ".bin")
        #expect(end("a\n#b", .fixed("PNG")) == ".PNG")
        for text in ["", ".bin", "a/b", "../x", "123456789", "é", "a b", "\0"] {
            #expect(end("a", .fixed(text)) == nil)
        }
    }

    @Test("a file is found on disk with its extension, and by the cache again after a new start")
    func onDisk() async throws {
        let folder = TemporaryFolder()
        let body = Data((0..<9_000).map { UInt8(truncatingIfNeeded: $0) })
        for _ in 0..<2 {
            let test = TestCache(folder: folder) { $0.fileNaming = .sha256(extension: .ofURL) }
            test.transport.script(url("photo.jpg?w=100"), [.body(body)])
            #expect(try await test.cache.getData(url("photo.jpg?w=100")).value == body)
            await test.cache.synchronize()
            let file = try #require(test.cache.file(for: CacheKey(url("photo.jpg?w=100"))))
            #expect(file.pathExtension == "jpg")
            #expect(try Data(contentsOf: file).prefix(9_000) == body)
            #expect(await test.cache.verify().isSound)
            await test.cache.shutdown()
        }
        #expect(folder.files.filter { $0.hasSuffix(".jpg") }.count == 1)
    }
}
