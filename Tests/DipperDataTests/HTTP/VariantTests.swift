import Testing

@testable import DipperData

@Suite("Vary", .timeLimit(.minutes(5)))
struct VariantTests {
    private func matches(_ vary: HTTPHeaders, _ one: HTTPHeaders, _ other: HTTPHeaders) throws -> Bool {
        let variant = try #require(Variant(vary: vary, request: one))
        let sameText = variant.selection(for: one) == variant.selection(for: other)
        let doesMatch = variant.matches(other)
        #expect(variant.isUnmatchable || sameText == doesMatch)
        return doesMatch
    }

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
        #expect(try matches(["Vary": "Foo"], ["Foo": "1"], ["foo": "1"]))
        #expect(try matches(["Vary": "Foo"], ["Foo": "1", "Other": "2"], ["Foo": "1", "Other": "3"]))
        #expect(try !matches(["Vary": "Foo"], ["Foo": "1"], ["Foo": "2"]))
        #expect(try !matches(["Vary": "Foo"], ["Foo": "1"], [:]))
        #expect(try !matches(["Vary": "Foo"], [:], ["Foo": "1"]))
        #expect(try !matches(["Vary": "Foo"], [:], ["Foo": ""]))
        #expect(try !matches(["Vary": "Foo"], ["Foo": "a"], ["Foo": "A"]))
        #expect(try matches(["Vary": "Foo"], [:], [:]))
        #expect(try matches(["Vary": "Foo, Bar"], ["Foo": "1", "Bar": "abc"], ["Bar": "abc", "Foo": "1"]))
        #expect(try !matches(["Vary": "Foo, Bar"], ["Foo": "1", "Bar": "abc"], ["Foo": "2", "Bar": "abc"]))
        #expect(try !matches(["Vary": "Bar, Foo"], ["Foo": "1", "Bar": "2"], ["Foo": "2", "Bar": "1"]))
        #expect(try matches(["Vary": "Foo, Bar, Baz"], ["Foo": "1", "Baz": "7"], ["Foo": "1", "Baz": "7"]))
        #expect(try !matches(["Vary": "Foo, Bar, Baz"], ["Foo": "1", "Bar": "4"], ["Foo": "1", "Bar": "44"]))
    }

    @Test("white space around commas and the number of lines make no difference; what is quoted does")
    func normalised() throws {
        #expect(try matches(["Vary": "Foo"], ["Foo": "1,2"], ["Foo": " 1 ,\t2 "]))
        #expect(try matches(["Vary": "Foo"], ["Foo": "1, 2"], ["Foo": "1", "Bar": "x", "foo": "2"]))
        #expect(try matches(["Vary": "Foo"], ["Foo": "1,,2,"], ["Foo": "1, 2"]))
        #expect(try !matches(["Vary": "Foo"], ["Foo": "1, 2"], ["Foo": "2, 1"]))
        #expect(try !matches(["Vary": "Foo"], ["Foo": "1 2"], ["Foo": "1  2"]))
        #expect(try !matches(["Vary": "Foo"], ["Foo": "\"1,2\""], ["Foo": "\"1, 2\""]))
    }

    @Test("no values can be mistaken for others in a key")
    func selection() throws {
        #expect(try !matches(["Vary": "A, B"], ["A": "1-", "B": "2"], ["A": "1", "B": "-2"]))
        #expect(try !matches(["Vary": "A, B"], ["A": "1:b1:2"], ["A": "1", "B": "2"]))
    }

    @Test("Vary: * matches nothing", arguments: ["*", "*, *", ", *", "*, Foo", "Foo, *"])
    func star(text: String) throws {
        let variant = try #require(Variant(vary: ["Vary": text], request: ["Foo": "1"]))
        #expect(variant.isUnmatchable)
        #expect(!variant.matches(["Foo": "1"]))
        #expect(!variant.matches(["*": "1", "Foo": "1"]))
    }
}
