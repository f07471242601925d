import DipperData
import FaultServer
import Foundation
import TestSupport
import Testing

@Suite(
    "TLS and HTTP/2", .timeLimit(.minutes(2)),
    .enabled(if: TLSServer.isInstalled, "nginx or openssl is not installed (packages nginx-light, openssl)"))
struct TLSTests {
    private func error(
        _ server: TLSServer, _ port: TLSServer.Port, _ change: (inout CurlConfiguration) -> Void = { _ in }
    ) async -> DipperError? {
        let cache = server.cache {
            // A certificate that is rejected must not be tried again.
            $0.retryPolicy = .fixed(.zero, retries: 3)
            change(&$0.network)
        }
        let task = cache.getData(server.url(port))
        let error = await task.error
        #expect(task.attempts == 1)
        await cache.shutdown()
        return error
    }

    @Test("HTTP/2: many requests share a connection; a server without it is spoken to in HTTP/1.1")
    func http2() async throws {
        let server = try TLSServer()
        let cache = server.cache()
        for (port, version, mostConnections) in [(TLSServer.Port.good, "HTTP/2", 1), (.http1, "HTTP/1.1", 8)] {
            let tasks = (0..<40).map { cache.getData(server.url(port, "/\($0)")) }
            var connections = 0
            for task in tasks {
                let response = try await task.response
                #expect(response.data == server.body)
                let metrics = try #require(response.metrics)
                #expect(metrics.httpVersion == version)
                if !metrics.reusedConnection {
                    connections += 1
                    #expect(metrics.tls > .zero)
                }
            }
            #expect(connections <= mostConnections, "\(version)")
        }
    }

    @Test(
        "only a certificate that is in date, for this host and vouched for is taken; a pinned key must be the server's")
    func certificates() async throws {
        let server = try TLSServer()
        for port in TLSServer.Port.allCases where port != .asksForClient {
            #expect(await error(server, port) == (port.isTrusted ? nil : .tlsRejected), "\(port)")
        }
        #expect(await error(server, .asksForClient) == .status(400), "it is shown no certificate")
        #expect(await error(server, .good) { $0.caBundle = nil } == .tlsRejected, "the system does not vouch for it")
        let (good, other) = (try server.pin(.good), try server.pin(.misnamed))
        for (port, pins, isTaken) in [
            (TLSServer.Port.good, [good], true), (.good, [other, good], true), (.good, [other], false),
            (.good, ["nonsense"], false), (.selfSigned, [try server.pin(.selfSigned)], false),
        ] {
            #expect(
                await error(server, port) { $0.pinnedPublicKeys = pins } == (isTaken ? nil : .tlsRejected), "\(pins)")
        }
    }

    @Test("what a proxy says of its tunnel is not taken for the answer", .inCheck)
    func tunnel() async throws {
        let server = try TLSServer()
        let proxy = try await RawServer.start { request in
            let port = request.path.split(separator: ":").last.flatMap { Int($0) } ?? 0
            let head = "HTTP/1.1 200 Connection established\r\nCache-Control: max-age=100\r\nX-Proxy: yes\r\n\r\n"
            return [.send(head), .tunnel(port: port)]
        }
        let cache = server.cache { $0.network.proxy = proxy.url("") }
        let response = try await cache.getData(server.url()).response
        #expect(response.data == server.body)
        #expect(response.headers["X-Proxy"] == nil && response.headers["Cache-Control"] == nil)
        await cache.shutdown()
        await proxy.stop()
    }

    // MARK: The oldest version

    struct Proxy: Sendable {
        let variable: String
        let target: String
    }

    @Test(
        "TLS before 1.2 is not offered, to a server or a proxy, also where the system would allow it",
        arguments: [
            nil, Proxy(variable: "https_proxy", target: "https://192.0.2.1/"),
            Proxy(variable: "http_proxy", target: "http://192.0.2.1/"),
        ])
    func floor(proxy: Proxy?) async throws {
        let listener = try BoundSocket()
        #expect(listen(listener.descriptor, 1) == 0)
        let folder = TemporaryFolder()
        let settings = try folder.place(
            """
            openssl_conf = all
            [all]
            ssl_conf = ssl
            [ssl]
            system_default = lenient
            [lenient]
            MinProtocol = TLSv1
            CipherString = ALL:@SECLEVEL=0
            """, at: "openssl.cnf")
        let here = "https://127.0.0.1:\(listener.port)/"
        let process = try ChildProcess(
            Built.executable("dipper"),
            ["get", "--retries", "0", "--cache-dir", folder.path + "/cache", proxy?.target ?? here],
            environment: ProcessInfo.processInfo.environment
                .filter { !$0.key.lowercased().hasSuffix("_proxy") }
                .merging(["OPENSSL_CONF": settings.path]) { $1 }
                .merging(proxy.map { [$0.variable: here] } ?? [:]) { $1 })
        // Waiting blocks, so it needs a thread outside of Swift concurrency.
        let bytes = await withCheckedContinuation { [descriptor = listener.descriptor] continuation in
            Thread {
                let connection = accept(descriptor, nil, nil)
                var bytes = [UInt8](repeating: 0, count: 16_384)
                let count = recv(connection, &bytes, bytes.count, 0)
                close(connection)
                continuation.resume(returning: Array(bytes.prefix(max(0, count))))
            }.start()
        }
        process.end()
        let versions = try #require(Self.offeredVersions(bytes), "\(bytes.count) bytes")
        #expect(versions.contains(0x0303))
        #expect(versions.allSatisfy { $0 >= 0x0303 }, "\(versions)")
    }

    /// Returns the versions that a client offers to speak in its first message, such as 0x0303 for TLS 1.2: an
    /// extension of type 43, with its length, the length of the list, and the list (RFC 8446, section 4.2.1).
    private static func offeredVersions(_ message: [UInt8]) -> [Int]? {
        for start in message.indices.dropLast(7) where message[start..<(start + 3)].elementsEqual([0, 43, 0]) {
            let (length, count) = (Int(message[start + 3]), Int(message[start + 4]))
            let list = message.dropFirst(start + 5).prefix(count)
            guard length == count + 1, list.count == count, count.isMultiple(of: 2) else { continue }
            return stride(from: list.startIndex, to: list.endIndex, by: 2).map {
                Int(list[$0]) << 8 | Int(list[$0 + 1])
            }
        }
        return nil
    }
}
