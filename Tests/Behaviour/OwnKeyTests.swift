import DipperData
import Foundation
import TestSupport
import Testing

@Suite("Keys of the caller's own", .timeLimit(.minutes(2)))
struct OwnKeyTests {
    private static let origin = "http://host.test/a.jpg"
    /// Keys like those that a cache could use itself for what it makes of an entry.
    private static let tricky = [
        "\n#", "\n\\#", "\n\\\\#", "\\\n#", "\n\n#", "\n\\\n#", "\n#\n#", "\n\\#\n#", "\n#\n\\#", "\n", "#", "\n\\",
        "\n #", "\r\n#", "\n#é", "\n\\é#", "\n1:a1:b", "",
    ].map { origin + $0 }

    @Test("a key is its text, unless that has a line break before a number sign, and no two texts are one key")
    func text() {
        for text in ["a", "a#b", "a\nb#", "a #", "a\n\\b#", "", "\n", "é\n"] { #expect(CacheKey(text).string == text) }
        let literal: CacheKey = "a\n#b"
        #expect(literal == CacheKey("a\n#b"))
        #expect(Set(Self.tricky.map { CacheKey($0) }).count == Self.tricky.count)
        #expect(Set(Self.tricky.map { CacheKey($0).digest }).count == Self.tricky.count)
    }

    @Test("an entry with any text as its key is listed, found in the next run, and does not go with another entry")
    func entries() async throws {
        let folder = TemporaryFolder()
        let keys = Self.tricky.map { CacheKey($0) }
        let test = TestCache(folder: folder)
        for key in keys { try test.cache.addData(Data(key.string.utf8), for: key) }
        test.cache.removeData(for: CacheKey(Self.origin))
        await test.cache.shutdown()
        let next = TestCache(folder: folder)
        let others = keys.filter { $0 != CacheKey(Self.origin) }
        for key in others { #expect(next.cache.data(for: key) == Data(key.string.utf8), "\(key)") }
        var listed: Set<CacheKey> = []
        next.cache.forEachEntry { listed.insert($0.key) }
        #expect(listed == Set(others))
    }
}
