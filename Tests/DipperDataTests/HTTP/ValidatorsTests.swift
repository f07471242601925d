import Foundation
import Testing

@testable import DipperData

@Suite("Validators, 304 and ranges", .timeLimit(.minutes(2)))
struct ValidatorsTests {
    private let modified = "Sun, 06 Nov 1994 08:49:37 GMT"
    private let minuteLater = "Sun, 06 Nov 1994 08:50:37 GMT"

    @Test("the server gets its validators back as it wrote them")
    func conditions() {
        let both = Validators(["etag": " W/\"a\" ", "Last-Modified": modified])
        #expect(both.etag == "W/\"a\"")
        #expect(
            both.conditionalFields == [.init("If-None-Match", "W/\"a\""), .init("If-Modified-Since", modified)])
        #expect(Validators(["ETag": "abc"]).conditionalFields == [.init("If-None-Match", "abc")])
        #expect(Validators(["ETag": "", "Last-Modified": " "]).isEmpty)
        #expect(Validators([:]).conditionalFields.isEmpty)
        #expect(!Validators(["Last-Modified": modified]).isEmpty)
    }

    @Test("only a strong validator asks for a range")
    func rangeValidator() {
        #expect(Validators.rangeValidator(of: ["ETag": "\"a\""]) == "\"a\"")
        #expect(Validators.rangeValidator(of: ["ETag": "\"\""]) == "\"\"")
        for weak in ["W/\"a\"", "w/\"a\"", "a", "\"a", "a\"", "\"", "", "\"a\"b\"", "\"a b\"", "\"a\", \"b\""] {
            #expect(Validators.rangeValidator(of: ["ETag": weak]) == nil, "\(weak)")
            // The date does not do instead.
            let headers: HTTPHeaders = ["ETag": weak, "Last-Modified": modified, "Date": minuteLater]
            #expect(Validators.rangeValidator(of: headers) == nil, "\(weak)")
        }
        #expect(Validators.rangeValidator(of: ["ETag": "\"a\"", "etag": "\"b\""]) == nil)
        #expect(Validators.rangeValidator(of: ["Last-Modified": modified, "Date": minuteLater]) == modified)
        #expect(
            Validators.rangeValidator(of: ["Last-Modified": modified, "Date": "Sun, 06 Nov 1994 08:50:36 GMT"]) == nil)
        #expect(Validators.rangeValidator(of: ["Last-Modified": modified]) == nil)
        #expect(Validators.rangeValidator(of: ["Last-Modified": "long ago", "Date": minuteLater]) == nil)
        #expect(Validators.rangeValidator(of: [:]) == nil)
    }

    @Test("the fields of a 304 take the place of the stored ones, all lines of them; the rest stays, but for cookies")
    func refresh() {
        let stored: HTTPHeaders = [
            "Cache-Control": "max-age=1", "Set-Cookie": "a=1", "Set-Cookie": "b=2", "X-Kept": "1", "ETag": "\"a\"",
            "Content-Length": "5", "Content-Type": "image/png", "Content-Encoding": "gzip", "Date": "then", "Age": "9",
        ]
        let news: HTTPHeaders = [
            "cache-control": "max-age=3600", "set-cookie": "c=3", "ETag": "\"a\"", "Content-Length": "0",
            "Content-Type": "text/html", "Content-Encoding": "br", "Content-Range": "bytes 0-1/2", "Date": "now",
            "X-New": "2", "Content-Foo": "3", "Connection": "X-Hop", "X-Hop": "4", "Transfer-Encoding": "chunked",
            "Keep-Alive": "5", "Proxy-Authenticate": "6",
        ]
        let result = Refreshing.headers(stored, refreshedBy: news)
        #expect(
            Set(result.fields)
                == [
                    .init("cache-control", "max-age=3600"), .init("X-Kept", "1"),
                    .init("ETag", "\"a\""), .init("Content-Length", "5"), .init("Content-Type", "image/png"),
                    .init("Content-Encoding", "gzip"), .init("Date", "now"), .init("X-New", "2"),
                    .init("Content-Foo", "3"),
                ])
        #expect(result.fields.count == 9)
        #expect(Refreshing.headers(result, refreshedBy: news) == Refreshing.headers(stored, refreshedBy: news))
        // When the old answer was made says nothing of a 304 without Date and Age.
        let undated = Refreshing.headers(
            ["Date": modified, "Age": "90", "Cache-Control": "max-age=60"], refreshedBy: ["ETag": "\"a\""])
        #expect(undated.fields.map(\.name) == ["Cache-Control", "ETag"])
        let forbidden = Refreshing.headers(["X-A": "1"], refreshedBy: ["Cache-Control": "no-cache=\"x-a\""])
        #expect(forbidden.fields.map(\.name) == ["Cache-Control"])
    }

    @Test(
        "a 304 is about what is stored if its tag is the same, or without one its date",
        arguments: [
            (["ETag": "\"a\""], ["ETag": "\"a\""], true), (["ETag": "\"a\""], ["ETag": "\"b\""], false),
            (["ETag": "W/\"a\""], ["ETag": "\"a\""], true), (["ETag": "\"a\""], ["ETag": "W/\"a\""], true),
            (["ETag": "W/\"a\""], ["ETag": "W/\"b\""], false), (["ETag": "abc"], ["ETag": "abc"], true),
            (["ETag": "\"a\""], ["ETag": "\"A\""], false), (["ETag": "\"a\""], [:], true), ([:], [:], true),
            ([:], ["ETag": "\"a\""], false), ([:], ["Last-Modified": "x"], false),
            (["Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"], ["Last-Modified": "Sun Nov  6 08:49:37 1994"], true),
            (["Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"], ["Last-Modified": "Sun Nov  6 08:49:38 1994"], false),
            (["Last-Modified": "x"], ["Last-Modified": "x"], true),
            (["Last-Modified": "x"], ["Last-Modified": "y"], false), (["Last-Modified": "x"], [:], true),
            (["Last-Modified": "x"], ["ETag": "\"a\""], false),
            (["Last-Modified": "x"], ["ETag": "\"a\"", "Last-Modified": "x"], true),
            (["ETag": "\"a\"", "Last-Modified": "x"], ["ETag": "\"a\"", "Last-Modified": "y"], true),
            (["ETag": "\"a\"", "Last-Modified": "x"], ["ETag": "\"b\"", "Last-Modified": "x"], false),
            (["ETag": "\"a\"", "Last-Modified": "x"], ["Last-Modified": "x"], true),
            (["ETag": "\"a\"", "Last-Modified": "x"], ["Last-Modified": "y"], false),
            (["ETag": "\"a\""], ["Last-Modified": "y"], true),
        ] as [(HTTPHeaders, HTTPHeaders, Bool)])
    func concerns(stored: HTTPHeaders, notModified: HTTPHeaders, expected: Bool) {
        #expect(Refreshing.concerns(stored, notModified) == expected)
    }

    @Test("Content-Range in its forms")
    func contentRange() {
        func parts(_ text: String) -> [Int?]? { ContentRange(text).map { [$0.first, $0.last, $0.total] } }
        #expect(parts("bytes 0-99/100") == [0, 99, 100])
        #expect(parts("bytes 5-5/*") == [5, 5, nil])
        #expect(parts(" BYTES  7-8/9 ") == [7, 8, 9])
        for text in [
            "", "bytes", "bytes 0-99", "bytes 0-99/", "bytes 99-0/100", "bytes 0-100/100", "bytes -5/100",
            "bytes 5-/100", "bytes */100", "items 0-9/10", "bytes=0-9/10", "bytes 0-9/10/11", "bytes 0 - 9/10",
            "bytes 0-9/x", "bytes 0-99999999999999999999/*", "bytes +0-9/10", "bytes 0--9/10", "bytes 0-9, 10-11/12",
        ] {
            #expect(parts(text) == nil, "\(text)")
        }
    }

    @Test("a 206 is appended only if it goes on where the bytes end, and is of the same whole")
    func continuation() {
        let (date, other) = (modified, "Sun, 06 Nov 1994 08:49:38 GMT")
        let range = "bytes 10-19/20"
        func accepts(
            _ fields: HTTPHeaders = [:], range: String? = range, tag: String? = "\"a\"", status: Int = 206,
            offset: Int = 10, total: Int? = 20, validator: String = "\"a\""
        ) -> Bool {
            var headers = fields
            if let range { headers.append("Content-Range", range) }
            if let tag { headers.append("ETag", tag) }
            return Continuation.accepts(
                status: status, headers: headers, offset: offset, total: total, validator: validator)
        }
        #expect(accepts() && accepts(total: nil) && accepts(range: "bytes 10-19/*"))
        #expect(
            accepts(["Content-Encoding": "Identity"]) && accepts(["Last-Modified": date], tag: nil, validator: date))
        for status in [200, 416] { #expect(!accepts(status: status)) }
        for offset in [9, 11] { #expect(!accepts(offset: offset)) }
        #expect(!accepts(total: 21))
        for validator in ["\"b\"", "", "W/\"a\"", date] { #expect(!accepts(validator: validator)) }
        for range in [nil, "bytes 10-20/20", "items 10-19/20"] { #expect(!accepts(range: range)) }
        for tag in [nil, "W/\"a\""] { #expect(!accepts(tag: tag)) }
        #expect(!accepts(["ETag": "\"b\""]) && !accepts(["Content-Range": range]))
        #expect(!accepts(["Content-Encoding": "gzip"]) && !accepts(["Last-Modified": other], tag: nil, validator: date))
        #expect(!accepts(["Content-Type": "Multipart/ByteRanges; boundary=x"]))
    }
}
