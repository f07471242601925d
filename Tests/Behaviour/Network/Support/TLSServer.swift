import DipperData
import Foundation
import TestSupport

@discardableResult
func runShell(_ script: String, in folder: String = ".") throws -> String {
    String(decoding: try runProgram("/bin/sh", ["-c", script], in: folder), as: UTF8.self)
}

/// A TCP socket that is bound to a free port of 127.0.0.1 and does not listen.
final class BoundSocket {
    let descriptor: Int32
    let port: Int

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { [descriptor] in
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, length) == 0 ? getsockname(descriptor, address, &length) : -1
            }
        }
        port = Int(in_port_t(bigEndian: address.sin_port))
        guard result == 0 else { throw Unavailable(what: "no free port") }
    }

    deinit { close(descriptor) }
}

/// An nginx server with one port for each certificate, valid or not, which sends one body for all paths.
final class TLSServer {
    /// A port of the server. It speaks HTTP/2 and HTTP/1.1, and its certificate is for `localhost` and signed by
    /// ``authority``, except as the name says.
    enum Port: String, CaseIterable {
        case good, http1, asksForClient, expired, misnamed, selfSigned, unknownAuthority

        var isTrusted: Bool { [.good, .http1, .asksForClient].contains(self) }
    }

    static let isInstalled = ["/usr/sbin/nginx", "/usr/bin/openssl"]
        .allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }

    let body = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
    private let folder = TemporaryFolder()
    private var ports: [Port: Int] = [:]
    private var nginx: (process: ChildProcess, log: Pipe)?

    init() throws {
        // If root runs nginx, its workers run as another user.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.path)
        try folder.place(body, at: "body")
        try makeCertificates()
        // Another program may take a free port before nginx listens; nginx then fails.
        for _ in 0..<4 where (try? listen()) != nil { return }
        try listen()
    }

    deinit {
        // timeout(1) ends nginx, and waits for it.
        nginx?.process.send(SIGTERM)
        _ = nginx?.process.waitForOutput()
    }

    func url(_ port: Port = .good, _ path: String = "/") -> URL {
        URL(string: "https://localhost:\(ports[port] ?? 0)\(path)") ?? folder.url
    }

    /// Returns a cache that trusts the server's authority, unless the change says otherwise.
    func cache(_ change: (inout DataCache.Configuration) -> Void = { _ in }) -> DataCache {
        DataCache(
            HostileServer.configuration {
                $0.network.maximumBodySize = 1 << 20
                $0.network.caBundle = authority
                change(&$0)
            })
    }

    /// Makes a call with a cache of its own; returns its error.
    func error(_ url: URL, _ change: (inout DataCache.Configuration) -> Void) async -> DipperError? {
        let cache = cache(change)
        let error = await cache.getData(url).error
        await cache.shutdown()
        return error
    }

    var authority: String { path("ca.pem") }
    func path(_ file: String) -> String { folder.path + "/" + file }

    /// Returns the SHA-256 of a public key in base64 (RFC 7469, section 2.4).
    func pin(_ port: Port) throws -> String {
        let make = "openssl x509 -in \(port).pem -pubkey -noout | openssl pkey -pubin -outform der"
        return try runShell(make + " | openssl dgst -sha256 -binary | base64", in: folder.path)
            .trimmingCharacters(in: .newlines)
    }

    private func makeCertificates() throws {
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        func signed(_ name: String, _ host: String = "localhost", days: Int = 2, by authority: String = "ca") -> String
        {
            """
            openssl req \(key) -subj /CN=\(host) -keyout \(name).key -out \(name).csr && \
            printf 'subjectAltName=DNS:\(host)' >\(name).ext && \
            openssl x509 -req -in \(name).csr -CA \(authority).pem -CAkey \(authority).key -CAcreateserial \
            -days \(days) -extfile \(name).ext -out \(name).pem
            """
        }
        func ownSigned(_ name: String, _ subject: String, _ more: String = "") -> String {
            "openssl req -x509 \(key) -days 2 -subj /CN=\(subject) \(more) -keyout \(name).key -out \(name).pem"
        }
        let commands = [
            ownSigned("ca", "ca"), ownSigned("other", "other"), signed("good"), signed("client", "someone"),
            signed("expired", days: -1), signed("misnamed", "other.test"), signed("unknownAuthority", by: "other"),
            ownSigned("selfSigned", "localhost", "-addext subjectAltName=DNS:localhost"),
            "openssl pkey -in client.key -aes256 -passout pass:secret -out locked.key",
        ]
        try runShell(commands.joined(separator: " && "), in: folder.path)
    }

    private func listen() throws {
        ports = try Self.freePorts()
        let servers = ports.map { port, number in
            let certificate = port == .http1 || port == .asksForClient ? .good : port
            return """
                server { listen 127.0.0.1:\(number) ssl \(port == .http1 ? "" : "http2");
                  ssl_certificate \(certificate).pem; ssl_certificate_key \(certificate).key; root \(folder.path);
                  \(port == .asksForClient ? "ssl_verify_client on; ssl_client_certificate ca.pem;" : "")
                  location / { try_files /body =404; } }
                """
        }
        let text = """
            daemon off; pid nginx.pid; error_log stderr notice; worker_processes 1; events { worker_connections 256; }
            http { access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;
              uwsgi_temp_path t4; scgi_temp_path t5;
              \(servers.joined(separator: "\n")) }
            """
        try folder.place(text, at: "nginx.conf")
        let output = Pipe()
        // timeout(1) ends nginx also if the tests are killed.
        let process = try ChildProcess(
            "/usr/bin/timeout", ["300", "/usr/sbin/nginx", "-p", folder.path, "-c", folder.path + "/nginx.conf"],
            errors: output.fileHandleForWriting)
        // nginx listens before it starts its worker.
        var log = ""
        while !log.contains("start worker process") {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { throw Unavailable(what: "nginx does not listen: \(log)") }
            log += String(decoding: data, as: UTF8.self)
        }
        nginx = (process, output)
    }

    private static func freePorts() throws -> [Port: Int] {
        // All sockets are open at once, so that their ports differ.
        let sockets = try Port.allCases.map { ($0, try BoundSocket()) }
        return Dictionary(uniqueKeysWithValues: sockets.map { ($0, $1.port) })
    }
}
