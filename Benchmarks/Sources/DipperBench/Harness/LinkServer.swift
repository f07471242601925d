import Foundation

/// An nginx at the server's end of a link, with HTTP/1.1 in clear text, HTTP/2 over TLS, and a page for a browser.
final class LinkServer {
    /// A folder of numbered files for the server, by default with random bytes.
    struct Files: Sendable {
        let folder: String
        let count: Int
        let size: Int
        /// The contents of the files, used in turn, in place of random bytes.
        var contents: [Data] = []
    }

    enum Version: String, CaseIterable, Sendable {
        case http1 = "HTTP/1.1"
        case http2 = "HTTP/2"

        var base: String {
            switch self {
            case .http1: "http://\(ShapedLink.serverAddress):8080"
            case .http2: "https://\(ShapedLink.serverAddress):8443"
            }
        }
    }

    static let page = "http://\(ShapedLink.serverAddress):8081/page"
    /// The certificate to trust, in PEM form.
    let certificate: String
    private let measured: URL
    private let cleanUp: Int

    init(_ bench: Bench, _ link: ShapedLink, _ files: [Files]) async throws {
        let nginx = try Command.require("nginx")
        let work = bench.work.appendingPathComponent("link")
        try? FileManager.default.removeItem(at: work)
        try FileManager.default.createDirectory(
            at: work.appendingPathComponent("tmp"), withIntermediateDirectories: true)
        var random = SeededGenerator(seed: 7)
        for kind in files {
            let folder = work.appendingPathComponent("www/\(kind.folder)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            for number in 0..<kind.count {
                let file = folder.appendingPathComponent("\(number)")
                guard !kind.contents.isEmpty else {
                    try random.bytes(kind.size).write(to: file)
                    continue
                }
                let first = number % kind.contents.count
                if first == number {
                    try kind.contents[first].write(to: file)
                } else {
                    try FileManager.default.linkItem(at: folder.appendingPathComponent("\(first)"), to: file)
                }
            }
        }
        certificate = work.appendingPathComponent("certificate.pem").path
        try Command.run(
            Command.require("openssl"),
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=\(ShapedLink.serverAddress)", "-addext",
                "subjectAltName=IP:\(ShapedLink.serverAddress)", "-keyout",
                work.appendingPathComponent("key.pem").path, "-out", certificate,
            ])
        measured = work.appendingPathComponent("measured.log")
        let template = try String(
            contentsOf: bench.package.appendingPathComponent("nginx/link.conf"), encoding: .utf8)
        let text = template.replacingOccurrences(of: "@WORK@", with: work.path)
            .replacingOccurrences(of: "@PAGE@", with: bench.peer("fetch_priority.html"))
            .replacingOccurrences(of: "@ADDRESS@", with: ShapedLink.serverAddress)
            // nginx started as root switches by default to a user who may not enter the folder.
            .replacingOccurrences(of: "@USER@", with: getuid() == 0 ? "user root;" : "")
        let configuration = work.appendingPathComponent("nginx.conf")
        try Data(text.utf8).write(to: configuration)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try Command.require("ip"))
        // ip replaces itself by nginx, so there is only one process to end.
        process.arguments = ["netns", "exec", link.server, nginx, "-p", work.path, "-c", configuration.path]
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        cleanUp = CleanUp.add {
            process.terminate()
            process.waitUntilExit()
        }
        let identifier = work.appendingPathComponent("nginx.pid").path
        for _ in 0..<200 where !FileManager.default.fileExists(atPath: identifier) {
            try await Task.sleep(for: .milliseconds(20))
        }
        guard process.isRunning, FileManager.default.fileExists(atPath: identifier) else {
            CleanUp.run(cleanUp)
            throw BenchError("nginx does not start; see \(work.path)/nginx-error.log")
        }
    }

    func end() { CleanUp.run(cleanUp) }

    /// Deletes the measurements that pages have sent.
    func forgetMeasured() throws {
        // nginx keeps the file open, so it is truncated and not removed.
        if FileManager.default.fileExists(atPath: measured.path) {
            try FileHandle(forWritingTo: measured).truncate(atOffset: 0)
        }
    }

    /// Waits for the measurements of a page, such as `milliseconds=12&bytes=34`, and returns them by name.
    func nextMeasured() async throws -> [String: String] {
        for _ in 0..<3_000 {
            if let text = try? String(contentsOf: measured, encoding: .utf8),
                let line = text.split(separator: "\n").first, text.hasSuffix("\n")
            {
                let pairs = line.split(separator: "&").map { $0.split(separator: "=", maxSplits: 1) }
                return Dictionary(
                    pairs.compactMap { $0.count == 2 ? (String($0[0]), String($0[1])) : nil },
                    uniquingKeysWith: { first, _ in first })
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw BenchError("the page sends nothing")
    }
}
