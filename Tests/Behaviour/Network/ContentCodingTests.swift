import CZlib
import FaultServer
import TestSupport
import Testing

@Suite("Content codings are taken off the body, and must be whole", .timeLimit(.minutes(2)))
struct ContentCodingTests {
    private static let text = String(repeating: "a body that is long enough to be coded. ", count: 40)

    /// The text in a coding, made by the tools of that coding.
    private static let coded: [String: [UInt8]] = [
        "gzip": deflated(Array(text.utf8), windowBits: 15 + 16),
        "x-gzip": deflated(Array(text.utf8), windowBits: 15 + 16),
        "deflate": deflated(Array(text.utf8), windowBits: 15),
        "br": base64("Gz8GQI3TZfbTimwJEkbWLmJlaWAiB45tYXhyeINUr5nyA/VMiC9ngEs3CA=="),
        "zstd": base64("KLUv/WRABY0BAIQCYSBib2R5IHRoYXQgaXMgbG9uZyBlbm91Z2ggdG8gYmUgY29kZWQuIAEAqHD9qgyCm62R"),
    ]

    private static func base64(_ text: String) -> [UInt8] { [UInt8](Data(base64Encoded: text) ?? Data()) }

    private static func deflated(_ bytes: [UInt8], windowBits: Int32) -> [UInt8] {
        var stream = z_stream()
        var input = bytes
        var output = [UInt8](repeating: 0, count: bytes.count + 1_000)
        deflateInit2_(
            &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        let count = input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                (stream.next_in, stream.avail_in) = (input.baseAddress, uInt(input.count))
                (stream.next_out, stream.avail_out) = (output.baseAddress, uInt(output.count))
                deflate(&stream, Z_FINISH)
                return Int(stream.total_out)
            }
        }
        deflateEnd(&stream)
        return Array(output[..<count])
    }

    private func outcome(_ coding: String, _ bytes: [UInt8], _ more: String = "") async throws -> HostileServer.Outcome
    {
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: \(coding)\r\n\(more)Content-Length: \(bytes.count)\r\n\r\n"
        let hostile = try await HostileServer { _ in [.send(head), .bytes(bytes), .close] }
        let outcome = await hostile.outcome()
        await hostile.stop()
        return outcome
    }

    @Test("a body is delivered without its coding", arguments: coded.keys.sorted())
    func whole(coding: String) async throws {
        #expect(try await outcome(coding, try #require(Self.coded[coding])) == .body(Self.text))
    }

    @Test(
        "a coded body that is cut is truncated, although all announced bytes have come", arguments: coded.keys.sorted())
    func cut(coding: String) async throws {
        let bytes = try #require(Self.coded[coding])
        for count in [1, bytes.count / 2, bytes.count - 1] {
            #expect(try await outcome(coding, Array(bytes.prefix(count))) == .error(.truncated), "\(count)")
        }
    }

    @Test("an empty body is empty in every coding", arguments: coded.keys.sorted())
    func empty(coding: String) async throws { #expect(try await outcome(coding, []) == .body("")) }

    @Test("further members continue the body, and what follows the end is ignored")
    func members() async throws {
        for coding in ["gzip", "zstd"] {
            let bytes = try #require(Self.coded[coding])
            #expect(try await outcome(coding, bytes + bytes) == .body(Self.text + Self.text))
            #expect(try await outcome(coding, bytes + bytes.dropLast()) == .error(.truncated))
        }
        for (coding, bytes) in Self.coded {
            #expect(
                try await outcome(coding, bytes + [UInt8](repeating: 0, count: 512)) == .body(Self.text), "\(coding)")
        }
    }

    @Test("`deflate` without its wrapper is accepted, as browsers do")
    func raw() async throws {
        #expect(try await outcome("deflate", Self.deflated(Array(Self.text.utf8), windowBits: -15)) == .body(Self.text))
    }

    @Test("codings are taken off in the reverse order, also of several fields")
    func several() async throws {
        let twice = Self.deflated(try #require(Self.coded["br"]), windowBits: 31)
        #expect(try await outcome("br, gzip", twice) == .body(Self.text))
        #expect(try await outcome("br", twice, "Content-Encoding: gzip\r\n") == .body(Self.text))
    }

    @Test(
        "a word that is no coding changes nothing, nor does `identity`",
        arguments: ["UTF-8", "aws-chunked", "binary", "none", "identity", "", "rot13", "identity, utf-8"])
    func noCoding(word: String) async throws {
        #expect(try await outcome(word, Array(Self.text.utf8)) == .body(Self.text))
        let bytes = Self.deflated(Array(Self.text.utf8), windowBits: 31)
        #expect(try await outcome("gzip, \(word)", bytes) == .body(Self.text))
    }

    @Test(
        "without a real coding the limit for bodies holds, and a body is continued",
        arguments: ["identity", "none", ""])
    func counted(word: String) async throws {
        let text = Self.text
        let head =
            "HTTP/1.1 200 OK\r\nETag: \"v\"\r\nContent-Encoding: \(word)\r\nContent-Length: \(text.utf8.count)\r\n\r\n"
        let hostile = try await HostileServer {
            $0.network.maximumDecodedSize = 1_000
            $0.retryPolicy = .fixed(.zero, retries: 1)
        } script: { request in
            guard request.header("Range") == "bytes=1200-" else {
                return [.send(head + text.prefix(1_200)), .reset]
            }
            let rest = text.dropFirst(1_200)
            return [
                .send(
                    "HTTP/1.1 206 Partial Content\r\nETag: \"v\"\r\nContent-Range: bytes 1200-1599/1600\r\n"
                        + "Content-Length: \(rest.count)\r\n\r\n\(rest)"), .close,
            ]
        }
        #expect(await hostile.outcome() == .body(text))
        await hostile.stop()
    }

    @Test("the bytes so far of a coded body are shown without the coding")
    func shown() async throws {
        let bytes = Self.deflated(Array(Self.text.utf8), windowBits: 31)
        let shown = Box(false)
        let hostile = try await HostileServer { request in
            [
                .send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"),
                .bytes(Array(bytes.prefix(bytes.count - 8))), .wait,
            ]
        }
        let task = hostile.cache.getData(DataRequest(string: hostile.server.url("/")))
        task.onBytes { part in if String(decoding: part, as: UTF8.self) == Self.text { shown.update { $0 = true } } }
        try await shown.wait { $0 }
        task.cancel()
        await hostile.stop()
    }

    @Test("a coded body that is broken off was no refusal of the condition, and the stale answer waits for the retries")
    func brokenOff() async throws {
        let bytes = Self.deflated(Array(Self.text.utf8), windowBits: 31)
        let conditions = Box<[String?]>([])
        let hostile = try await HostileServer {
            $0.retryPolicy = .fixed(.zero, retries: 1)
        } script: { request in
            conditions.update { $0.append(request.header("If-None-Match")) }
            let head = "HTTP/1.1 200 OK\r\nETag: \"v\"\r\nCache-Control: max-age=0\r\n"
            switch conditions.value.count {
            case 1: return [.send(head + "Content-Length: 3\r\n\r\nold"), .close]
            case 2:
                let half = Array(bytes.prefix(bytes.count / 2))
                return [
                    .send(head + "Content-Encoding: gzip\r\nContent-Length: \(bytes.count)\r\n\r\n"), .bytes(half),
                    .reset,
                ]
            default: return [.send(head + "Content-Length: 3\r\n\r\nnew"), .close]
            }
        }
        #expect(await hostile.outcome() == .body("old"))
        #expect(await hostile.outcome() == .body("new"))
        #expect(conditions.value == [nil, "\"v\"", "\"v\""])
        await hostile.stop()
    }
}
