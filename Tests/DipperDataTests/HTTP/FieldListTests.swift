import Foundation
import Testing

@testable import DipperData

@Suite("Long fields of servers", .timeLimit(.minutes(2)))
struct FieldListTests {
    @Test("members end at commas outside of quotes; a quote that never closes is a letter like any other")
    func members() {
        for (text, members) in [
            ("a, b ,,c", ["a", "b", "c"]), ("\"a,b\",c", ["\"a,b\"", "c"]), ("\"a,b", ["\"a", "b"]),
            ("a\"b,c\"d,e", ["a\"b,c\"d", "e"]), ("\"a\\\",b\",c", ["\"a\\\",b\"", "c"]), ("\\\"a,b", ["\\\"a", "b"]),
            ("\"\",\"", ["\"\"", "\""]), ("\"\\", ["\"\\"]), (" , ", []),
        ] {
            #expect(FieldList([text]).members == members, "\(text)")
        }
    }

    @Test("fields are found by name in any case as a search of all of them finds them, whatever has been changed")
    func byName() {
        let names = [
            "Age", "ETag", "Date", "Vary", "Via", "Link", "Range", "Cookie", "Set-Cookie", "X-A", "X-B", "x_a", "X@A",
            "x`a", "Content-Length", "Content-Type", "Content-Range", "", "~", "Ä", "ä", "Authorization",
            "proxy-authorization",
        ]
        var random = SystemRandomNumberGenerator()
        func spelling(_ name: String) -> String {
            String(decoding: name.utf8.map { Bool.random(using: &random) ? $0.flipped : $0 }, as: UTF8.self)
        }
        for _ in 0..<300 {
            var (headers, plain): (HTTPHeaders, [HTTPHeaders.Field]) = ([:], [])
            for step in 0..<12 {
                let (name, value) = (spelling(names.randomElement(using: &random)!), "\(step)")
                let place = plain.firstIndex { $0.name.isSameHeaderName(as: name) }
                switch Int.random(in: 0..<5, using: &random) {
                case 0:
                    headers[name] = nil
                    plain.removeAll { $0.name.isSameHeaderName(as: name) }
                case 4:
                    headers[name] = value
                    plain.removeAll { $0.name.isSameHeaderName(as: name) }
                    plain.insert(.init(name, value), at: min(place ?? plain.count, plain.count))
                case 1:
                    headers = HTTPHeaders(headers.fields.reversed())
                    plain.reverse()
                default:
                    headers.append(name, value)
                    plain.append(.init(name, value))
                }
            }
            #expect(headers.fields == plain && headers == HTTPHeaders(plain))
            for name in names {
                let asked = spelling(name)
                let values = plain.filter { $0.name.isSameHeaderName(as: asked) }.map(\.value)
                #expect(headers.values(asked) == values && headers[asked] == values.first, "\(asked) in \(plain)")
                #expect(headers.has(asked) != values.isEmpty)
                #expect(FieldNames(plain.map(\.name)).contains(asked) != values.isEmpty)
            }
        }
    }

    @Test("a set of names is not slow, however many there are, and of whatever spelling")
    func manyNames() {
        let names = FieldNames((0..<50_000).map { $0.isMultiple(of: 2) ? "X-\($0)" : "x-\($0)" })
        #expect((0..<50_000).allSatisfy { names.contains("x-\($0)") && names.contains("X-\($0)") })
        #expect(!names.contains("x-50000"))
    }

    @Test("a line is no part of a value if it cannot be sent back, also a folded one")
    func lines() {
        var answer = CurlAnswer()
        let lines = ["HTTP/1.1 200 OK", "ETag: a", " b\rc", " d\0e", " f", "X: g\rh", "X: i\0j", "Y: k", ""]
        for line in lines { Array((line + "\r\n").utf8).withUnsafeBytes { answer.take($0) } }
        #expect(answer.isComplete && answer.fields == ["ETag": "a f", "Y": "k"])
    }

    @Test("of a field with more members than are read the cautious half holds")
    func cut() {
        let names = (0..<50_000).map { "f\($0)" }
        let many: HTTPHeaders = ["Vary": names.joined(separator: ",")]
        #expect(many.list("Vary").count == FieldList.most && many.fieldList("Vary").isCut)
        #expect(many.varying.contains("*") && Variant(vary: many, request: [:])?.isUnmatchable == true)
        let lines = HTTPHeaders(names.map { .init("Cache-Control", "max-age=5, x-\($0)") })
        let control = CacheControl(response: lines)
        #expect(control.noStore && control.maxAge == 5)
        for name in ["Vary", "Connection", "Cache-Control"] {
            var headers: HTTPHeaders = ["Cache-Control": "max-age=5"]
            #expect(Storing.mayStore(status: 200, request: [:], response: headers))
            headers.append(name, names.joined(separator: ","))
            #expect(!Storing.mayStore(status: 200, request: [:], response: headers), "\(name)")
        }
        var lengths = HTTPHeaders([.init("Vary", names.prefix(FieldList.most).joined(separator: ","))])
        #expect(!lengths.fieldList("Vary").isCut && !lengths.varying.contains("*"))
        lengths.append("Vary", ", ,")
        #expect(!lengths.fieldList("Vary").isCut)
        lengths.append("Vary", "x")
        #expect(lengths.fieldList("Vary").isCut)
    }

    @Test("no-cache that names more fields than are looked at is about all of them")
    func noCacheFields() {
        let lines = (0..<900).map { line in
            "no-cache=\"" + (0..<60).map { "f\(line)-\($0)" }.joined(separator: ",") + "\""
        }
        let control = CacheControl(response: HTTPHeaders(lines.map { .init("Cache-Control", $0) }))
        #expect(control.noCache && control.noCacheFields.count <= FieldList.most && !control.noStore)
        let one = CacheControl(response: [
            "Cache-Control": "no-cache=\"\(Array(repeating: "a", count: 50_000).joined(separator: ","))\""
        ])
        #expect(one.noCache && one.noCacheFields.count <= 1)
    }

    @Test("lengths that are too many to compare are none")
    func lengths() {
        var answer = CurlAnswer()
        func take(_ line: String) { Array(line.utf8).withUnsafeBytes { answer.take($0) } }
        take("HTTP/1.1 200 OK\r\n")
        take("Content-Length: " + Array(repeating: "5", count: FieldList.most).joined(separator: ",") + ",6\r\n")
        take("\r\n")
        #expect(answer.isMalformed)
    }
}

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

extension UInt8 {
    /// The other case of a letter of ASCII; other bytes as they are.
    fileprivate var flipped: UInt8 {
        (0x41...0x5A).contains(self & 0xDF) ? self ^ 0x20 : self
    }
}
