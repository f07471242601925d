import DipperData
import FaultServer
import Foundation
import TestSupport
import Testing

@Suite(
    "A client certificate is shown to the origins that it is for, and to no others", .timeLimit(.minutes(2)),
    .enabled(if: TLSServer.isInstalled, "nginx or openssl is not installed (packages nginx-light, openssl)"))
struct ClientCertificateTests {
    @Test("to those that are listed, or else to the origin of the request, not where a redirect leads")
    func origins() async throws {
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
