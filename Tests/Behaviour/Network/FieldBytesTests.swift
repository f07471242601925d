import FaultServer
import TestSupport
import Testing

@Suite("Bytes of header fields that are not UTF-8", .timeLimit(.minutes(2)))
struct FieldBytesTests {
    private static func answer(_ fields: [String], _ body: String = "", status: Int = 200, length: Int? = nil)
        -> [RawStep]
    {
        let head = ["HTTP/1.1 \(status) Yes", "Content-Length: \(length ?? body.utf8.count)"] + fields
        // The byte E9 in place of an é: Latin-1, as old servers write.
        let text = (head + ["", body]).joined(separator: "\r\n")
        return [.bytes(text.unicodeScalars.map { UInt8($0.value) })]
    }

    @Test("a redirect asks for the bytes that the server wrote, and so does one whose location is UTF-8")
    func location() async throws {
        let hostile = try await HostileServer { request in
            switch request.path {
            case "/": Self.answer(["Location: /caf\u{E9}.png?\u{E9}%20#\u{E9}"], status: 302)
            case "/utf8": Self.answer(["Location: /caf\u{C3}\u{A9}.png"], status: 302)
            default: Self.answer([], "hello")
            }
        }
        for path in ["/", "/utf8"] { #expect(await hostile.outcome(path) == .body("hello")) }
        #expect(hostile.server.requests.map(\.path) == ["/", "/caf%E9.png?%E9%20", "/utf8", "/caf%C3%A9.png"])
        await hostile.stop()
    }

    @Test("validators come back byte for byte, also from disk, from a shared tier and with a range")
    func validators() async throws {
        let folder = TemporaryFolder()
        let shelf = Shelf()
        let server = try await RawServer.start { request in
            switch request.header("If-None-Match") {
            case nil:
                Self.answer(["ETag: \"\u{E9}-1\"", "Last-Modified: \u{C3}\u{A9}", "Cache-Control: no-cache"], "1")
            case "\"\u{E9}-1\"": Self.answer([], status: 304)
            default: Self.answer([], status: 400)
            }
        }
        // Memory; then the disk alone; then the tier alone.
        for directory in [folder.url, folder.url, nil] {
            let configuration = HostileServer.configuration {
                $0.directory = directory
                $0.tiers = [shelf]
                $0.tierTimeLimit = .seconds(60)
            }
            let cache = DataCache(configuration)
            for _ in 0..<2 {
                let response = try await cache.getData(server.url("/")).response
                #expect(response.data == Data("1".utf8))
            }
            await cache.synchronize()
            await cache.shutdown()
        }
        let conditions = server.requests.map { $0.header("If-None-Match") }
        #expect(conditions == [nil] + Array(repeating: "\"\u{E9}-1\"", count: 5))
        await server.stop()
    }

    @Test("a partial body continues under a validator of any bytes")
    func range() async throws {
        let hostile = try await HostileServer({ $0.retryPolicy = .fixed(.zero) }) { request in
            if request.header("Range") == nil { return Self.answer(["ETag: \"\u{E9}\""], "12", length: 4) + [.close] }
            guard request.header("If-Range") == "\"\u{E9}\"" else { return Self.answer([], status: 400) }
            return Self.answer(["Content-Range: bytes 2-3/4", "ETag: \"\u{E9}\""], "34", status: 206)
        }
        #expect(await hostile.outcome() == .body("1234"))
        await hostile.stop()
    }

    @Test("a challenge reaches the program, and what it makes of it the server, byte for byte")
    func challenge() async throws {
        let hostile = try await HostileServer { request in
            switch request.header("Authorization") {
            case "Digest nonce=\"\u{E9}\u{80}\"": Self.answer([], "hello")
            default: Self.answer(["WWW-Authenticate: Digest nonce=\"\u{E9}\u{80}\""], status: 401)
            }
        }
        let request = DataRequest(string: hostile.server.url("/")).with(\.credentials, .provider { $0.demand })
        #expect(await hostile.outcome(request) == .body("hello"))
        await hostile.stop()
    }

    @Test("the names of this machine need no name server, with a final dot or below localhost")
    func localhost() async throws {
        let hostile = try await HostileServer { _ in Self.answer([], "hello") }
        for host in ["localhost", "localhost.", "LocalHost.", "a.localhost", "a.b.localhost."] {
            let request = DataRequest(string: "http://\(host):\(hostile.server.port)/")
            #expect(await hostile.outcome(request) == .body("hello"), "\(host)")
        }
        await hostile.stop()
    }
}
