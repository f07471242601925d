import Foundation
import Testing

@testable import DipperData

@Suite("The hash by which keys are compared", .timeLimit(.minutes(1)))
struct KeyHashTests {
    @Test(
        "is SipHash-2-4 with 128 bits: the same as OpenSSL's, whatever the length",
        arguments: [
            (0, "a3817f04ba25a8e66df67214c7550293"), (11, "0151c568386b6677a2b4dc6f81e5dc18"),
        ])
    func vectors(count: Int, expected: String) {
        let bytes = (0..<count).map { UInt8($0) }
        let hash = bytes.withUnsafeBytes { KeyHash($0, key: (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908)) }
        let digits = [hash.first, hash.second].map { String($0.byteSwapped, radix: 16) }
            .map { String(repeating: "0", count: 16 - $0.count) + $0 }
        #expect(digits.joined() == expected)
    }

    @Test("is one for a URL and its text, and another for every other key")
    func keys() throws {
        let url = try #require(URL(string: "https://example.org/a?b=1"))
        #expect(CacheKey(url) == CacheKey(stringLiteral: "https://example.org/a?b=1"))
        let keys = Set((0..<10_000).map { CacheKey("https://example.org/\($0)") })
        #expect(
            keys.count == 10_000 && keys.contains("https://example.org/77") && !keys.contains("https://example.org/"))
    }
}

@Suite("The origins of keys", .timeLimit(.minutes(1)))
struct OriginTests {
    @Test("a picture is in the family of its own bytes, also if those are of another cache")
    func first() {
        for prefix in ["", "\n#originals 3\n"] {
            for key in ["https://example.org/a", "#mine", "a\nb"] {
                let origin = CacheKey(verbatim: prefix + key)
                #expect(origin.firstOrigin == nil && !origin.isDerived)
                for suffix in ["5:a", "5:a\n#5:b"] {
                    let derived = CacheKey(verbatim: origin.derivedPrefix + suffix)
                    #expect(derived.firstOrigin.map(String.init) == origin.string && derived.isDerived)
                    #expect(derived.isDerived(of: origin))
                }
            }
        }
    }
}
