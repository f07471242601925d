import FaultServer
import TestSupport
import Testing

@Suite("Servers that send elsewhere", .timeLimit(.minutes(2)))
struct HostileRedirectTests {
    private static func redirect(_ location: String, status: Int = 302) -> [RawStep] {
        [.send("HTTP/1.1 \(status) Elsewhere\r\nContent-Length: 0\r\nLocation: \(location)\r\n\r\n")]
    }

    private static let hello: [RawStep] = [.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")]

    // MARK: Places

    @Test(
        "a redirect to anything but http and https ends the call",
        arguments: [
            ("file:///etc/passwd", DipperError.unsupportedScheme), ("FILE:///etc/passwd", .unsupportedScheme),
            ("ftp://127.0.0.1/x", .unsupportedScheme), ("javascript:alert(1)", .unsupportedScheme),
            ("data:text/plain,hello", .unsupportedScheme), ("gopher://127.0.0.1:1/x", .unsupportedScheme),
            ("ws://127.0.0.1/", .unsupportedScheme), ("mailto:a@b.test", .unsupportedScheme),
            ("about:blank", .unsupportedScheme), ("unix:/run/docker.sock", .unsupportedScheme),
            ("http://", .malformedResponse), ("http:///", .malformedResponse), ("https://", .malformedResponse),
            ("https:", .malformedResponse), ("//", .malformedResponse), ("///", .malformedResponse),
            ("http://127.0.0.1:99999/", .malformedResponse), ("http://127.0.0.1:-1/", .malformedResponse),
            ("http://127.0.0.1:x/", .malformedResponse), ("http://[::1/", .malformedResponse),
            ("", .malformedResponse), (" ", .malformedResponse), ("/a\r\nLocation: /b", .malformedResponse),
        ])
    func targets(location: String, error: DipperError) async throws {
        let hostile = try await HostileServer { _ in Self.redirect(location) }
        let outcome = await hostile.outcome()
        #expect(outcome == .error(error), "\(outcome)")
        #expect(hostile.server.requests.count == 1)
    }

    @Test(
        "a redirect to garbage ends in an error, and asks no other server", .inCheck,
        arguments: [
            "\u{1}\u{2}\u{3}", "%%%", "/a b c", "/\u{FF}", "/?#??##", "..//..//../", "\\x",
            "/" + String(repeating: "x", count: 40_000), "/" + String(repeating: "../", count: 9_000),
            "http:/x", "http://[zz]/", "?", "#", ";", "/\u{202E}x",
        ])
    func garbage(location: String) async throws {
        let hostile = try await HostileServer { _ in Self.redirect(location) }
        let outcome = await hostile.outcome()
        let errors = [.tooManyRedirects, .malformedResponse, .invalidURL, .unsupportedScheme].map {
            HostileServer.Outcome.error($0)
        }
        #expect(errors.contains(outcome), "\(outcome)")
        #expect(hostile.server.requests.count <= 11)
        for request in hostile.server.requests { #expect(!request.path.utf8.contains { $0 <= 0x20 || $0 >= 0x7F }) }
    }

    @Test("a redirect without a place is the answer", .inCheck, arguments: 300...308)
    func nowhere(status: Int) async throws {
        let answer = "HTTP/1.1 \(status) Elsewhere\r\nContent-Length: 0\r\n\r\n"
        try await HostileAnswer("no place", [.send(answer), .close], .status(status)).check()
    }

    @Test("a loop, and any number of hops, end after the allowed ones", .inCheck, arguments: [0, 1, 10, 20])
    func hops(allowed: Int) async throws {
        let hostile = try await HostileServer({ $0.maximumRedirects = allowed }) { request in
            if request.path == "/loop" { return Self.redirect("/loop") }
            let number = Int(request.path.dropFirst()) ?? 0
            return number < 300 ? Self.redirect("/\(number + 1)") : Self.hello
        }
        #expect(await hostile.outcome("/loop") == .error(.tooManyRedirects))
        #expect(hostile.server.requests.count == allowed + 1)
        #expect(await hostile.outcome("/0") == .error(.tooManyRedirects))
        #expect(await hostile.outcome("/\(300 - allowed)") == .body("hello"))
    }

    @Test("a redirect with an endless body is followed all the same", .inCheck)
    func endlessBody() async throws {
        let hostile = try await HostileServer { request in
            guard request.path == "/" else { return Self.hello }
            return [.send("HTTP/1.1 302 Found\r\nLocation: /next\r\n\r\n"), .repeat("x")]
        }
        #expect(await hostile.outcome() == .body("hello"))
        await hostile.expectLeft()
    }

    // MARK: Secrets

    private static let secrets = ["Authorization", "Cookie", "Proxy-Authorization", "X-Secret"]

    private static func request(_ url: String, credentials: Credentials? = nil) -> DataRequest {
        var request = DataRequest(string: url)
        request.headers = ["Cookie": "secret", "Proxy-Authorization": "secret", "X-Secret": "secret", "Accept": "open"]
        if credentials == nil { request.headers.append("Authorization", "secret") }
        request.credentials = credentials
        request.sensitiveHeaders = ["x-secret"]
        return request
    }

    @Test(
        "secrets stay with their origin: not elsewhere, not on the way back", arguments: [false, true],
        [301, 302, 303, 307, 308])
    func secrets(usesCredentials: Bool, status: Int) async throws {
        let home = Box("")
        let other = try await RawServer.start { request in
            request.path == "/other"
                ? Self.redirect("/other2", status: status) : Self.redirect(home.value + "/back", status: status)
        }
        let away = other.url("/other")
        let hostile = try await HostileServer { request in
            let port = request.header("Host")?.split(separator: ":").last ?? ""
            return switch request.path {
            case "/": Self.redirect("/same", status: status)
            case "/same": Self.redirect(away, status: status)
            // Another name for the same server is another origin.
            case "/back": Self.redirect("http://localhost:\(port)/named", status: status)
            default: Self.hello
            }
        }
        home.update { $0 = hostile.server.url("") }
        let credentials: Credentials? = usesCredentials ? .bearer("secret") : nil
        let request = Self.request(hostile.server.url("/"), credentials: credentials)
        #expect(await hostile.outcome(request) == .body("hello"))
        let requests = hostile.server.requests
        #expect(Set(requests.map(\.path)) == ["/", "/same", "/back", "/named"])
        for request in requests + other.requests {
            let isTrusted = ["/", "/same"].contains(request.path)
            for name in Self.secrets {
                #expect((request.header(name) != nil) == isTrusted, "\(request.path) \(name)")
            }
            #expect(request.header("Accept") == "open")
            #expect(request.head.contains("secret") == isTrusted)
        }
        #expect(other.requests.count == 2)
    }

    /// Two parsers may take different parts of these locations for the host.
    @Test("a place that can be read in two ways gets no secrets", .inCheck)
    func ambiguous() async throws {
        let other = try await RawServer.start(host: "127.0.0.2") { _ in Self.hello }
        let places = [
            "http://HOME\\@AWAY/", "http://AWAY\\@HOME/", "http://HOME#@AWAY/", "http://HOME?@AWAY/",
            "http://AWAY#@HOME/", "http://AWAY?@HOME/", "http://HOME@AWAY/", "http://HOME:80@AWAY/",
            "http://a@HOME@AWAY/", "http://HOME%2F@AWAY/", "http://HOME%40AWAY/", "http://HOME%23@AWAY/",
            "http:\\\\AWAY\\", "/\\AWAY/", "\\/AWAY/", "//HOME@AWAY/", "http:AWAY/", "http:/AWAY/", "///AWAY/",
            "http://HOME;@AWAY/", "http://HOME\t@AWAY/", "http://HOME @AWAY/", "http://HOME\u{1}@AWAY/",
            "http://HOME&@AWAY#@HOME/", "http://AWAY:@HOME/",
        ]
        for place in places {
            let hostile = try await HostileServer { [port = other.port] request in
                guard request.path == "/" else { return Self.hello }
                let home = "127.0.0.1:" + (request.header("Host")?.split(separator: ":").last ?? "")
                let location = place.replacingOccurrences(of: "HOME", with: home)
                return Self.redirect(location.replacingOccurrences(of: "AWAY", with: "127.0.0.2:\(port)"))
            }
            _ = await hostile.outcome(Self.request(hostile.server.url("/")))
            await hostile.stop()
        }
        for request in other.requests { #expect(!request.head.contains("secret"), "\(request.head)") }
        #expect(!other.requests.isEmpty)
    }
}
