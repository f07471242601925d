import Testing

@testable import DipperData

@Suite("Header lines as libcurl hands them over", .timeLimit(.minutes(5)))
struct CurlAnswerTests {
    private func answer(_ pieces: [String]) -> CurlAnswer {
        var answer = CurlAnswer()
        for piece in pieces { Array(piece.utf8).withUnsafeBytes { answer.take($0) } }
        return answer
    }

    @Test("several lines at once are as good as one after the other, and no value holds a line break")
    func severalLines() {
        let lines = ["HTTP/1.1 200 OK\r\n", "ETag: \"a\"\r\n", "Vary: X\r\n", " Y\r\n", "Date: now\r\n", "\r\n"]
        let one = answer(lines)
        #expect(one.fields == ["ETag": "\"a\"", "Vary": "X Y", "Date": "now"])
        for first in lines.indices {
            for last in first..<lines.count {
                let joined = Array(lines[..<first]) + [lines[first...last].joined()] + Array(lines[(last + 1)...])
                let other = answer(joined)
                #expect(other.fields == one.fields && other.size == one.size)
            }
        }
    }
}
