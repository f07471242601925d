import Foundation

/// An openssl server that presents a given certificate and answers every request with a page.
final class TLSServer: Sendable {
    static let isInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")

    struct Failed: Error {
        let what: String
    }

    let port: Int
    private let process = Process()

    init(_ certificate: Certificates.Kind, _ certificates: Certificates) throws {
        let path = certificates.path(certificate)
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = [
            "s_server", "-accept", "127.0.0.1:0", "-cert", path + ".pem", "-key", path + ".key", "-www",
        ]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        // openssl prints "ACCEPT 127.0.0.1:PORT" once it listens.
        var text = ""
        while !text.contains("ACCEPT") || !text.hasSuffix("\n") {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { throw Failed(what: "openssl does not serve") }
            text += String(decoding: data, as: UTF8.self)
        }
        let line = text.split(separator: "\n").last { $0.hasPrefix("ACCEPT") }
        guard let port = line?.split(separator: ":").last.flatMap({ Int($0) }) else {
            throw Failed(what: "openssl names no port")
        }
        self.port = port
    }

    var url: String { "https://localhost:\(port)/" }

    func stop() {
        // SIGKILL, because a child inherits the signal mask of the thread that starts it, and other signals may be
        // blocked.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
