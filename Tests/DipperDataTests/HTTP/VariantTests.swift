import Testing

@testable import DipperData

@Suite("Vary", .timeLimit(.minutes(2)))
struct VariantTests {
    @Test("an answer that does not vary has no variant")
    func none() {
        #expect(Variant(vary: [:], request: ["Foo": "1"]) == nil)
        #expect(Variant(vary: ["Vary": ""], request: ["Foo": "1"]) == nil)
        #expect(Variant(vary: ["Vary": " , ,", "vary": ""], request: ["Foo": "1"]) == nil)
    }

    @Test("names are lower-cased, sorted, each once, from all lines")
    func names() throws {
        let variant = try #require(
            Variant(vary: ["Vary": "Foo, accept", "vary": "FOO,Bar"], request: ["foo": " 1 ", "Bar": ""]))
        #expect(variant.names == ["accept", "bar", "foo"])
        #expect(variant.values == [nil, CacheKey.digest(""), CacheKey.digest("1")])
        let other = try #require(Variant(vary: ["Vary": "bar,foo,Accept"], request: ["BAR": " ", "FOO": "1"]))
        #expect(variant == other)
        #expect(variant.selection(for: ["Foo": "1"]) == "6:accept-3:bar-3:foo\(CacheKey.digest("1"))")
    }

    @Test("a request matches if it has the same under every name, and lacks the same")
    func match() throws {
        for (vary, one, other, doMatch) in [
            ("Foo", ["Foo": "1"], ["foo": "1"], true), ("Foo", ["Foo": "1", "X": "2"], ["Foo": "1", "X": "3"], true),
            ("Foo", ["Foo": "1"], ["Foo": "2"], false), ("Foo", ["Foo": "1"], [:], false),
            ("Foo", [:], ["Foo": "1"], false), ("Foo", [:], ["Foo": ""], false), ("Foo", [:], [:], true),
            ("Foo", ["Foo": "a"], ["Foo": "A"], false),
            ("Foo, Bar", ["Foo": "1", "Bar": "abc"], ["Bar": "abc", "Foo": "1"], true),
            ("Foo, Bar", ["Foo": "1", "Bar": "abc"], ["Foo": "2", "Bar": "abc"], false),
            ("Bar, Foo", ["Foo": "1", "Bar": "2"], ["Foo": "2", "Bar": "1"], false),
            ("Foo, Bar, Baz", ["Foo": "1", "Baz": "7"], ["Foo": "1", "Baz": "7"], true),
            ("Foo, Bar, Baz", ["Foo": "1", "Bar": "4"], ["Foo": "1", "Bar": "44"], false),
            // White space around commas and the number of lines make no difference; what is quoted does.
            ("Foo", ["Foo": "1,2"], ["Foo": " 1 ,\t2 "], true), ("Foo", ["Foo": "1,,2,"], ["Foo": "1, 2"], true),
            ("Foo", ["Foo": "1, 2"], ["Foo": "1", "Bar": "x", "foo": "2"], true),
            ("Foo", ["Foo": "1, 2"], ["Foo": "2, 1"], false), ("Foo", ["Foo": "1 2"], ["Foo": "1  2"], false),
            ("Foo", ["Foo": "\"1,2\""], ["Foo": "\"1, 2\""], false),
            // No values can be mistaken for others in a key.
            ("A, B", ["A": "1-", "B": "2"], ["A": "1", "B": "-2"], false),
            ("A, B", ["A": "1:b1:2"], ["A": "1", "B": "2"], false),
        ] as [(String, HTTPHeaders, HTTPHeaders, Bool)] {
            let variant = try #require(Variant(vary: ["Vary": vary], request: one))
            #expect(variant.matches(other) == doMatch, "\(vary): \(one.fields), \(other.fields)")
            #expect((variant.selection(for: one) == variant.selection(for: other)) == doMatch)
        }
    }

    @Test("Vary: * matches nothing", arguments: ["*", "*, *", ", *", "*, Foo", "Foo, *"])
    func star(text: String) throws {
        let variant = try #require(Variant(vary: ["Vary": text], request: ["Foo": "1"]))
        #expect(variant.isUnmatchable && !variant.matches(["Foo": "1"]) && !variant.matches(["*": "1", "Foo": "1"]))
    }
}
