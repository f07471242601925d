import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Long fields of servers", .timeLimit(.minutes(5)))
struct FieldListTests {
    @Test("quotes that never close are looked for once, however many there are")
    func openQuotes() {
        for piece in ["\"\\\"", "\\\"", "\"a\"", "\"\\", ",\"\\\"", "\""] {
            let line = "\"" + String(repeating: piece, count: 20_000)
            #expect(FieldList([line]).steps <= 2 * line.utf8.count + 2, "\(piece)")
        }
    }

    @Test("remembering that no quote closes changes no member")
    func members() {
        /// Looks for the end of each quote anew.
        func plain(_ text: String) -> [String] {
            let bytes = Array(text.utf8)
            var (members, start, position): ([String], Int, Int) = ([], 0, 0)
            while position <= bytes.count {
                if position == bytes.count || bytes[position] == UInt8(ascii: ",") {
                    members.append(String(decoding: bytes[start..<position], as: UTF8.self).trimmingOptionalSpace)
                    start = position + 1
                } else if bytes[position] == UInt8(ascii: "\"") {
                    position = bytes.endOfQuotedString(from: position) ?? position
                }
                position += 1
            }
            return members.filter { !$0.isEmpty }
        }
        var random = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            let text = String(
                (0..<Int.random(in: 0...12, using: &random)).map { _ in "\"\"\\\\,a ".randomElement() ?? "a" })
            #expect(FieldList([text]).members == plain(text), "\(text)")
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
        let few = CacheControl(response: ["Cache-Control": "no-cache=\"a, b\", no-cache=\"b, c\""])
        #expect(!few.noCache && few.noCacheFields == ["a", "b", "c"])
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
