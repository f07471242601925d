import FaultServer
import TestSupport
import Testing

@Suite(
    "A closure decides about the TLS of each origin, and files about its client certificate", .timeLimit(.minutes(2)),
    .enabled(if: TLSServer.isInstalled, "nginx or openssl is not installed (packages nginx-light, openssl)"))
struct TLSChallengeTests {
    private func pem(_ server: TLSServer, _ file: String) throws -> Data {
        try Data(contentsOf: URL(fileURLWithPath: server.path(file)))
    }

    @Test("private authorities, pinned keys and a client identity come from memory; all else is checked as ever")
    func answers() async throws {
        let server = try TLSServer()
        let (authority, other) = (try pem(server, "ca.pem"), try pem(server, "other.pem"))
        let (certificate, key) = (try pem(server, "client.pem"), try pem(server, "client.key"))
        let (own, wrong, locked) = (try server.pin(.good), try server.pin(.misnamed), try pem(server, "locked.key"))
        let identity = TLSAnswer(authorities: authority, clientCertificate: certificate, clientKey: key)
        let cases: [(TLSServer.Port, TLSAnswer?, DipperError?)] =
            [
                (.good, nil, .tlsRejected), (.good, TLSAnswer(), .tlsRejected),
                (.good, TLSAnswer(authorities: authority), nil), (.good, TLSAnswer(authorities: other), .tlsRejected),
                (.unknownAuthority, TLSAnswer(authorities: authority + other), nil),
                (.good, TLSAnswer(authorities: Data("no certificate".utf8)), .tlsRejected),
                (.misnamed, TLSAnswer(authorities: authority), .tlsRejected),
                (.expired, TLSAnswer(authorities: authority), .tlsRejected),
                (.good, TLSAnswer(authorities: authority, pinnedPublicKeys: [wrong, own]), nil),
                (.good, TLSAnswer(authorities: authority, pinnedPublicKeys: [wrong]), .tlsRejected),
                (.good, TLSAnswer(pinnedPublicKeys: [own]), .tlsRejected),
                (.asksForClient, TLSAnswer(authorities: authority), .status(400)), (.asksForClient, identity, nil),
                (.asksForClient, TLSAnswer(authorities: authority, clientCertificate: certificate + key), nil),
                (
                    .asksForClient, TLSAnswer(authorities: authority, clientCertificate: certificate, clientKey: other),
                    .tlsRejected
                ),
            ]
            + [nil, "wrong", "secret"].map { password in
                let identity = TLSAnswer(
                    authorities: authority, clientCertificate: certificate, clientKey: locked,
                    clientKeyPassword: password)
                return (.asksForClient, identity, password == "secret" ? nil : .tlsRejected)
            }
        for (number, (port, answer, expected)) in cases.enumerated() {
            let error = await server.error(server.url(port)) {
                $0.network.caBundle = nil
                $0.answerTLSChallenge = { _ in answer }
            }
            #expect(error == expected, "case \(number), \(port)")
        }
    }

    @Test("an origin is asked about once, also where a redirect leads, and its answer holds for no other origin")
    func origins() async throws {
        let server = try TLSServer()
        let redirecting = try await FaultServer.start()
        func origin(_ port: TLSServer.Port) -> String { server.url(port, "").absoluteString }
        let authority = try pem(server, "ca.pem")
        let answers = [
            origin(.good): TLSAnswer(authorities: authority), origin(.http1): TLSAnswer(authorities: authority),
            origin(.unknownAuthority): TLSAnswer(authorities: try pem(server, "other.pem")),
            origin(.asksForClient): TLSAnswer(
                authorities: authority, clientCertificate: try pem(server, "client.pem"),
                clientKey: try pem(server, "client.key")),
        ]
        let asked = Box<[String]>([])
        let cache = server.cache {
            $0.network.caBundle = nil
            $0.answerTLSChallenge = { origin in
                asked.update { $0.append(origin.absoluteString) }
                return answers[origin.absoluteString]
            }
        }
        let ports = [TLSServer.Port.good, .unknownAuthority, .selfSigned, .asksForClient]
        // The second round finds handles and connections of the first.
        for round in 0..<2 {
            let tasks = (0..<8).flatMap { number in
                ports.map { ($0, cache.getData(server.url($0, "/\(round)/\(number)"))) }
            }
            for (port, task) in tasks { #expect(await task.error == (port == .selfSigned ? .tlsRejected : nil)) }
        }
        #expect(asked.value.sorted() == ports.map(origin).sorted())
        let location = try #require(
            server.url(.http1).absoluteString.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
        #expect(await cache.getData(redirecting.url("/?redirect=\(location)")).error == nil)
        #expect(asked.value.last == origin(.http1) && asked.value.count == ports.count + 1)
        await cache.shutdown()
        await redirecting.stop()
    }

    // MARK: Client certificates in files

    @Test(
        "a client certificate is shown to the origins that are listed, or else to that of the request, not where a redirect leads"
    )
    func certificateOrigins() async throws {
        let server = try TLSServer()
        let asking = server.url(.asksForClient)
        let redirecting = try await FaultServer.start()
        let location = try #require(
            asking.absoluteString.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
        let redirected = redirecting.url("/?redirect=\(location)")
        let other = server.url(.good)
        for (origins, target, isShown) in [
            (nil, asking, true), ([asking], asking, true), ([other, asking], asking, true),
            ([other], asking, false), ([], asking, false),
            (nil, redirected, false), ([asking], redirected, true),
        ] as [([URL]?, URL, Bool)] {
            let error = await server.error(target) {
                $0.network.clientCertificate = server.path("client.pem")
                $0.network.clientKey = server.path("client.key")
                $0.network.clientCertificateOrigins = origins
            }
            #expect(error == (isShown ? nil : .status(400)), "\(origins as Any) \(target)")
        }
        await redirecting.stop()
    }

    @Test("an encrypted key without its password is an error, and nobody is asked for it at the terminal")
    func lockedKey() async throws {
        let server = try TLSServer()
        let cases: [(String?, String?, DipperError?)] = [
            (nil, nil, .tlsRejected), ("secret", nil, nil), (nil, "secret", nil), ("secret", "wrong", .tlsRejected),
        ]
        for (password, answer, error) in cases {
            let outcome = await server.error(server.url(.asksForClient)) {
                $0.network.clientCertificate = server.path("client.pem")
                $0.network.clientKey = server.path("locked.key")
                $0.network.clientKeyPassword = password
                $0.answerTLSChallenge = { _ in TLSAnswer(clientKeyPassword: answer) }
            }
            #expect(outcome == error, "\(password ?? "none"), \(answer ?? "none")")
        }
    }
}

@Suite("The closure that decides about TLS is asked before anything is sent", .timeLimit(.minutes(2)))
struct TLSQuestionTests {
    private let slow = URL(string: "https://slow.test/a")!
    private let slowToo = URL(string: "https://SLOW.test:443/b?secret=1")!
    private let quick = URL(string: "https://quick.test/")!

    @Test("a closure that does not answer holds up only the calls to its origin, and these until their time is up")
    func hanging() async throws {
        let (gate, asked) = (Gate(), Box<[String]>([]))
        let test = TestCache {
            $0.answerTLSChallenge = { origin in
                asked.update { $0.append(origin.absoluteString) }
                if origin.host() == "slow.test" { await gate.pass() }
                return TLSAnswer(pinnedPublicKeys: ["pin"])
            }
        }
        for url in [quick, slowToo] { test.transport.script(url, [.body(Data("here".utf8))]) }
        let hurried = test.cache.getData(DataRequest(slow).with(\.timeout, .seconds(5)))
        try await gate.waitForArrival()
        let patient = test.cache.getData(slowToo)
        #expect(await test.cache.getData(quick).error == nil)
        try await test.clock.wake(after: .seconds(5))
        #expect(await hurried.error == .timedOut)
        gate.open()
        #expect(await patient.error == nil)
        #expect(test.transport.transfers.map(\.request.url) == [quick, slowToo])
        #expect(test.transport.transfers.allSatisfy { $0.request.tls?.pinnedPublicKeys == ["pin"] })
        #expect(asked.value == ["https://slow.test", "https://quick.test"])
    }

    @Test("an error ends the calls to the origin for good, unless it may pass")
    func refusal() async {
        struct Refusal: Error {}
        let asked = Box<[String]>([])
        let test = TestCache {
            $0.retryPolicy = .fixed(.zero, retries: 3)
            $0.answerTLSChallenge = { origin in
                let host = origin.host() ?? ""
                let count = asked.update { (asked: inout [String]) -> Int in
                    asked.append(host)
                    return asked.count { $0 == host }
                }
                if host == "quick.test" { throw Refusal() }
                throw count == 1 ? DipperError.timedOut : .rejected
            }
        }
        for _ in 0..<2 {
            #expect(await test.cache.getData(slow).error == .rejected)
            #expect(await test.cache.getData(quick).error == .tlsRejected)
        }
        #expect(asked.value == ["slow.test", "slow.test", "quick.test"])
        #expect(test.transport.transfers.isEmpty)
    }
}
