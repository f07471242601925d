import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite(
    "TLS and HTTP/2", .serialized, .enabled(if: NginxServer.isInstalled, "nginx and openssl are not installed"),
    .timeLimit(.minutes(5)))
struct TLSTests {
    private func cache(_ change: (inout CurlConfiguration) -> Void) -> DataCache {
        var configuration = DataCache.Configuration()
        configuration.retryPolicy = .fixed(.zero, retries: 1)
        configuration.logger.logLevel = .critical
        change(&configuration.network)
        return DataCache(configuration)
    }

    @Test("HTTP/2 over TLS: many requests share a connection; a server without it is spoken to in HTTP/1.1")
    func http2() async throws {
        let server = try await NginxServer.start()
        let cache = cache { $0.caBundle = server.authority }
        for (port, version, mostConnections) in [(server.port, "HTTP/2", 1), (server.oldPort, "HTTP/1.1", 8)] {
            let tasks = (0..<40).map { cache.getData(server.url("/file\($0)", port: port)) }
            var connections = 0
            for task in tasks {
                let response = try await task.response
                #expect(response.data == server.body)
                #expect(response.metrics?.httpVersion == version)
                if response.metrics?.reusedConnection == false { connections += 1 }
                if response.metrics?.reusedConnection == false { #expect(response.metrics!.tls > .zero) }
            }
            #expect(connections <= mostConnections, "\(version)")
        }
        await cache.shutdown()
        server.stop()
    }

    @Test("a certificate that nobody vouches for ends the call, after one attempt")
    func untrusted() async throws {
        let server = try await NginxServer.start()
        let cache = cache { _ in }
        let task = cache.getData(server.url("/file0"))
        #expect(await task.error == .tlsRejected)
        #expect(task.attempts == 1)
        await cache.shutdown()
        server.stop()
    }

    @Test("a client identity is shown to a server that asks for it")
    func clientIdentity() async throws {
        let server = try await NginxServer.start()
        let anonymous = cache { $0.caBundle = server.authority }
        #expect(await anonymous.getData(server.url("/file0", port: server.strictPort)).error == .status(400))
        await anonymous.shutdown()
        let known = cache {
            $0.caBundle = server.authority
            $0.clientCertificate = server.clientCertificate
            $0.clientKey = server.clientKey
        }
        #expect(try await known.getData(server.url("/file0", port: server.strictPort)).value == server.body)
        await known.shutdown()
        server.stop()
    }
}
