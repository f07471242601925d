import Foundation
import TestSupport
import Testing

@testable import DipperData

/// The first message of a TLS client.
private struct ClientHello {
    /// The versions that the client offers to speak, such as 0x0303 for TLS 1.2 (RFC 8446, section 4.2.1).
    let versions: [Int]

    /// - Parameter bytes: the record it came in.
    init?(_ bytes: [UInt8]) {
        var rest = bytes.dropFirst(5 + 4 + 2 + 32)
        func number(_ count: Int) -> Int {
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count).reduce(0) { $0 << 8 | Int($1) }
        }
        for lengthSize in [1, 2, 1] {
            let length = number(lengthSize)
            rest = rest.dropFirst(length)
        }
        _ = number(2)
        while rest.count > 4 {
            let (kind, length) = (number(2), number(2))
            guard kind == 0x2B else {
                rest = rest.dropFirst(length)
                continue
            }
            versions = (0..<(number(1) / 2)).map { _ in number(2) }
            return
        }
        return nil
    }
}

@Suite("The oldest TLS that is spoken", .timeLimit(.minutes(5)))
struct TLSFloorTests {
    /// A proxy that speaks TLS, set in the environment, and a URL that the cache fetches through it.
    private struct Proxy: Sendable {
        let variable: String
        let target: String
    }

    @Test(
        "TLS before 1.2 is not offered, to a server or a proxy, also where the system would allow it",
        arguments: [
            nil, Proxy(variable: "https_proxy", target: "https://192.0.2.1/"),
            Proxy(variable: "http_proxy", target: "http://192.0.2.1/"),
        ])
    private func floor(proxy: Proxy?) async throws {
        let (listener, port) = try NginxServer.boundSocket()
        defer { close(listener) }
        #expect(listen(listener, 1) == 0)
        let folder = TemporaryFolder()
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let settings = folder.url.appendingPathComponent("openssl.cnf")
        let text = """
            openssl_conf = all
            [all]
            ssl_conf = ssl
            [ssl]
            system_default = lenient
            [lenient]
            MinProtocol = TLSv1
            CipherString = ALL:@SECLEVEL=0
            """
        try Data(text.utf8).write(to: settings)
        let here = "https://127.0.0.1:\(port)/"
        let target = proxy?.target ?? here
        let process = Process()
        process.executableURL = Built.executable("dipper")
        process.arguments = ["get", "--retries", "0", "--cache-dir", folder.url.path + "/cache", target]
        process.environment = ProcessInfo.processInfo.environment
            .filter { !$0.key.lowercased().hasSuffix("_proxy") }
            .merging(["OPENSSL_CONF": settings.path]) { $1 }
            .merging(proxy.map { [$0.variable: here] } ?? [:]) { $1 }
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        // Waiting blocks, so it needs a thread outside of Swift concurrency.
        let bytes = await withCheckedContinuation { continuation in
            Thread {
                let connection = accept(listener, nil, nil)
                var bytes = [UInt8](repeating: 0, count: 16_384)
                let count = recv(connection, &bytes, bytes.count, 0)
                close(connection)
                continuation.resume(returning: Array(bytes.prefix(max(0, count))))
            }.start()
        }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        let hello = try #require(ClientHello(bytes), "\(bytes.count) bytes")
        #expect(hello.versions.contains(0x0303))
        #expect(hello.versions.filter { $0 < 0x0303 } == [], "\(hello.versions)")
    }
}
