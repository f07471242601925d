import Foundation
import TestSupport

@testable import DipperData

/// An nginx server with TLS, HTTP/2 and new certificates, which serves forty copies of one file.
final class NginxServer: Sendable {
    static let isInstalled =
        FileManager.default.isExecutableFile(atPath: "/usr/sbin/nginx")
        && FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")

    let folder = TemporaryFolder()
    /// The port for HTTP/2 and HTTP/1.1 over TLS.
    let port: Int
    /// The port for HTTP/2 and HTTP/1.1 over TLS that requires a client certificate.
    let strictPort: Int
    /// The port for HTTP/1.1 only, over TLS.
    let oldPort: Int
    private let nginx = Process()

    struct Failed: Error {
        let what: String
    }

    var authority: String { folder.url.path + "/ca.pem" }
    var clientCertificate: String { folder.url.path + "/client.pem" }
    var clientKey: String { folder.url.path + "/client.key" }
    let body = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })

    func url(_ path: String, port: Int? = nil) -> URL { URL(string: "https://localhost:\(port ?? self.port)\(path)")! }

    /// Starts a server.
    ///
    /// Another program may take one of the free ports before nginx listens. nginx then ends, and this method starts it
    /// again with other ports.
    static func start() async throws -> NginxServer {
        for _ in 0..<5 {
            if let server = try? await NginxServer() { return server }
        }
        return try await NginxServer()
    }

    private init() async throws {
        // The three sockets are open at once, so that their ports differ.
        let free = try (0..<3).map { _ in try Self.boundSocket() }
        for (socket, _) in free { close(socket) }
        (port, strictPort, oldPort) = (free[0].port, free[1].port, free[2].port)
        let root = folder.url.path
        try FileManager.default.createDirectory(atPath: root + "/www", withIntermediateDirectories: true)
        // If root runs nginx, its workers run as another user.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: root)
        for number in 0..<40 { try body.write(to: folder.url.appendingPathComponent("www/file\(number)")) }
        try makeCertificates()
        func server(_ listen: String, _ more: String) -> String {
            """
            server { listen 127.0.0.1:\(listen); ssl_certificate server.pem; ssl_certificate_key server.key;
              root \(root)/www; \(more) }
            """
        }
        let configuration = """
            daemon off; pid nginx.pid; error_log stderr crit; worker_processes 1;
            events { worker_connections 256; }
            http {
              access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;
              uwsgi_temp_path t4; scgi_temp_path t5;
              \(server("\(port) ssl http2", ""))
              \(server("\(strictPort) ssl http2", "ssl_verify_client on; ssl_client_certificate ca.pem;"))
              \(server("\(oldPort) ssl", ""))
            }
            """
        try configuration.write(toFile: root + "/nginx.conf", atomically: true, encoding: .utf8)
        nginx.executableURL = URL(fileURLWithPath: "/usr/sbin/nginx")
        nginx.arguments = ["-p", root, "-c", root + "/nginx.conf"]
        nginx.standardError = FileHandle.nullDevice
        try nginx.run()
        // nginx writes its process id to a file once it listens on all ports.
        let hasNumber = { [folder] in folder.text("nginx.pid")?.hasSuffix("\n") == true }
        let nginx = nginx
        guard await settle({ hasNumber() || !nginx.isRunning }), hasNumber() else {
            throw Failed(what: "nginx does not listen")
        }
    }

    func stop() {
        let signal = Process()
        signal.executableURL = URL(fileURLWithPath: "/usr/sbin/nginx")
        signal.arguments = ["-p", folder.url.path, "-c", folder.url.path + "/nginx.conf", "-s", "stop"]
        signal.standardError = FileHandle.nullDevice
        try? signal.run()
        signal.waitUntilExit()
        nginx.waitUntilExit()
    }

    private func makeCertificates() throws {
        let ca = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem"
        func leaf(_ name: String, _ subject: String, _ extensions: String) -> String {
            """
            openssl req -newkey rsa:2048 -nodes -subj /CN=\(subject) -keyout \(name).key -out \(name).csr && \
            printf '\(extensions)' > \(name).ext && \
            openssl x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile \(name).ext -out \(name).pem
            """
        }
        let script = [
            ca, leaf("server", "localhost", "subjectAltName=DNS:localhost"),
            leaf("client", "someone", "extendedKeyUsage=clientAuth"),
        ].joined(separator: " && ")
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", script]
        shell.currentDirectoryURL = folder.url
        shell.standardError = FileHandle.nullDevice
        try shell.run()
        shell.waitUntilExit()
        guard shell.terminationStatus == 0 else { throw Failed(what: "openssl makes no certificates") }
    }

    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        address.sin_port = in_port_t(port).bigEndian
        return address
    }

    /// Creates a socket that is bound to a free port but does not listen.
    static func boundSocket() throws -> (socket: Int32, port: Int) {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = address(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(socket, address, length) == 0 ? getsockname(socket, address, &length) : -1
            }
        }
        guard result == 0 else {
            close(socket)
            throw Failed(what: "no free port")
        }
        return (socket, Int(in_port_t(bigEndian: address.sin_port)))
    }
}
