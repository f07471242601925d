import Foundation
import TestSupport

/// Valid and invalid certificates that openssl makes.
final class Certificates: Sendable {
    enum Kind: String, CaseIterable {
        case good, expired, misnamed, selfSigned, unknownAuthority
    }

    private let folder = TemporaryFolder()

    init() throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        func authority(_ name: String) -> String {
            "openssl req -x509 \(key) -days 2 -subj /CN=\(name) -keyout \(name).key -out \(name).pem"
        }
        func leaf(_ kind: Kind, host: String = "localhost", days: Int = 2, by authority: String = "ca") -> String {
            let name = kind.rawValue
            return """
                openssl req \(key) -subj /CN=\(host) -keyout \(name).key -out \(name).csr && \
                printf 'subjectAltName=DNS:\(host)' > \(name).ext && \
                openssl x509 -req -in \(name).csr -CA \(authority).pem -CAkey \(authority).key -CAcreateserial \
                -days \(days) -extfile \(name).ext -out \(name).pem
                """
        }
        let selfSigned = """
            openssl req -x509 \(key) -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
            -keyout selfSigned.key -out selfSigned.pem
            """
        try run(
            [
                authority("ca"), authority("other"), leaf(.good), leaf(.expired, days: -1),
                leaf(.misnamed, host: "other.test"), selfSigned, leaf(.unknownAuthority, by: "other"),
            ].joined(separator: " && "))
    }

    /// The path of the certificate of the trusted authority.
    var authority: String { folder.url.path + "/ca.pem" }

    /// Returns the path of a certificate and its key, without `.pem` or `.key`.
    func path(_ kind: Kind) -> String { folder.url.path + "/" + kind.rawValue }

    /// Returns the SHA-256 of the public key in base64 (RFC 7469, section 2.4).
    func pin(_ kind: Kind) throws -> String {
        let make = "openssl x509 -in \(kind.rawValue).pem -pubkey -noout | openssl pkey -pubin -outform der"
        return try run(make + " | openssl dgst -sha256 -binary | base64").trimmingCharacters(in: .newlines)
    }

    @discardableResult
    private func run(_ script: String) throws -> String {
        let shell = Process()
        let output = Pipe()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", script]
        shell.currentDirectoryURL = folder.url
        shell.standardOutput = output
        shell.standardError = FileHandle.nullDevice
        try shell.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        shell.waitUntilExit()
        guard shell.terminationStatus == 0 else { throw TLSServer.Failed(what: "openssl makes no certificates") }
        return text
    }
}
