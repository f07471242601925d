import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Keys of the caller's own are not those of what was made from entries", .timeLimit(.minutes(5)))
struct CacheKeyTests {
    private static let origin = "http://host.test/a.jpg"
    private static let tricky = [
        "\n#", "\n\\#", "\n\\\\#", "\\\n#", "\n\n#", "\n\\\n#", "\n#\n#", "\n\\#\n#", "\n#\n\\#", "\n", "#", "\n\\",
        "\n #",
        "\r\n#", "\n#é", "\n\\é#", "",
    ].map { origin + $0 }

    @Test("no text becomes a key of something made, and no two texts one key")
    func kept() {
        let keys = Self.tricky.map { CacheKey($0) }
        #expect(Set(keys).count == keys.count)
        for key in keys {
            #expect(!key.isDerived && !key.isDerived(of: CacheKey(Self.origin)), "\(key)")
        }
        let made = CacheKey(verbatim: Self.origin + "\n#")
        #expect(made.isDerived(of: CacheKey(Self.origin)) && !keys.contains(made))
    }

    @Test("text without a line break before a number sign is the key as it is")
    func plain() {
        for text in ["a", "a#b", "a\nb#", "a\n#".replacingOccurrences(of: "\n", with: " "), "a\n\\b#", "", "\n", "é\n"]
        {
            #expect(CacheKey(text).string == text)
        }
        #expect(CacheKey("a\n#b").string == "a\n\\#b")
        let literal: CacheKey = "a\n#b"
        #expect(literal == CacheKey("a\n#b"))
    }

    @Test("entries with such keys do not go with what was made from another, and are found in the next run")
    func entries() async throws {
        let folder = TemporaryFolder()
        let origin = CacheKey(Self.origin)
        let made = CacheKey(verbatim: Self.origin + "\n#")
        let keys = Self.tricky.map { CacheKey($0) }
        let test = TestCache(folder: folder)
        for key in keys + [made] { try await test.cache.addDataAndWait(Data(key.string.utf8), for: key) }
        test.cache.removeDerived(of: origin)
        await test.cache.shutdown()
        let next = TestCache(folder: folder)
        #expect(!next.cache.hasData(for: made))
        for key in keys { #expect(next.cache.data(for: key) == Data(key.string.utf8), "\(key)") }
        let listed = Listed()
        next.cache.forEachEntry { listed.keys.insert($0.key) }
        #expect(listed.keys == Set(keys))
        await next.cache.shutdown()
    }

    private final class Listed {
        var keys: Set<CacheKey> = []
    }
}
