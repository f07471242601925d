import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite(
    "Servers with bad certificates", .timeLimit(.minutes(2)),
    .enabled(if: TLSServer.isInstalled, "openssl is not installed"))
struct HostileCertificateTests {
    private func error(
        _ kind: Certificates.Kind, _ certificates: Certificates, _ change: (inout CurlConfiguration) -> Void = { _ in }
    ) async throws -> DipperError? {
        let server = try TLSServer(kind, certificates)
        let cache = DataCache(
            HostileServer.configuration {
                // A certificate that is rejected must not be tried again.
                $0.retryPolicy = .fixed(.zero, retries: 3)
                $0.network.caBundle = certificates.authority
                change(&$0.network)
            })
        let task = cache.getData(DataRequest(string: server.url))
        let error = await task.error
        #expect(task.attempts == 1)
        await cache.shutdown()
        server.stop()
        return error
    }

    @Test("only a certificate that is in date, for this host and vouched for is taken")
    func certificates() async throws {
        let certificates = try Certificates()
        #expect(try await error(.good, certificates) == nil)
        for kind in Certificates.Kind.allCases where kind != .good {
            #expect(try await error(kind, certificates) == .tlsRejected, "\(kind)")
        }
    }

    @Test("a pinned key must be the server's, and be vouched for as well")
    func pins() async throws {
        let certificates = try Certificates()
        let (good, other) = (try certificates.pin(.good), try certificates.pin(.misnamed))
        #expect(good != other)
        #expect(try await error(.good, certificates) { $0.pinnedPublicKeys = [good] } == nil)
        #expect(try await error(.good, certificates) { $0.pinnedPublicKeys = [other, good] } == nil)
        #expect(try await error(.good, certificates) { $0.pinnedPublicKeys = [other] } == .tlsRejected)
        #expect(try await error(.good, certificates) { $0.pinnedPublicKeys = ["nonsense"] } == .tlsRejected)
        let untrusted = try certificates.pin(.selfSigned)
        #expect(try await error(.selfSigned, certificates) { $0.pinnedPublicKeys = [untrusted] } == .tlsRejected)
    }

    @Test("what a proxy says of its tunnel is not taken for the answer")
    func tunnel() async throws {
        let certificates = try Certificates()
        let server = try TLSServer(.good, certificates)
        let proxy = try await ConnectProxy.start(fields: "Cache-Control: max-age=100\r\nX-Proxy: yes\r\n")
        let cache = DataCache(
            HostileServer.configuration {
                $0.network.caBundle = certificates.authority
                $0.network.proxy = "http://127.0.0.1:\(proxy.port)"
            })
        let response = try await cache.getData(DataRequest(string: server.url)).response
        #expect(response.headers["Content-Type"] != nil)
        #expect(response.headers["X-Proxy"] == nil && response.headers["Cache-Control"] == nil)
        await cache.shutdown()
        await proxy.stop()
        server.stop()
    }
}
