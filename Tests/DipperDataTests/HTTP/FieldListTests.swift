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
