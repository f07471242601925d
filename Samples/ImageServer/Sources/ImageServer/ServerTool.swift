// A server of thumbnails: it fetches a picture, makes it smaller, and keeps what it has made.
//
//     export IMAGE_SERVER_KEY=$(openssl rand -hex 32)
//     swift run ImageServer sign 'fit:400x300/format:auto/https://example.org/a.jpg'
//     swift run ImageServer serve --folder /var/cache/pictures
//     curl -i http://127.0.0.1:8080/SIGNATURE/fit:400x300/format:auto/https://example.org/a.jpg
//
// | file | what it does |
// |---|---|
// | `ServerTool.swift`, `Options.swift` | the command line, and the configuration of the cache |
// | `ImageServer.swift` | puts the parts together, and ends them in order |
// | `Routes.swift` | requests and answers: signatures, `Accept`, `ETag`, `Cache-Control`, the log |
// | `PictureQuery.swift`, `Signer.swift` | the path of a picture, and its signature |
// | `PictureService.swift` | makes pictures and prefetches them, by an `ImageCache`; refuses work beyond a limit |
// | `Refusal.swift` | the statuses of failures |
// | `Connections.swift` | runs connections on their event loops, and ends those of clients that take nothing |
// | `PrometheusMetrics.swift` | the figures of the cache and the server |

import ArgumentParser
import Dipper
import DipperInspector
import Foundation
import Logging
import Metrics
import SampleServer

@main
struct ServerTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ImageServer", abstract: "Serve pictures in the size and format that a path asks for.",
        discussion: """
            GET /SIGNATURE/OPTIONS/URL returns the picture at the URL. Options are fit:WxH, fill:WxH, format:auto or a \
            format, and quality:N, each with a slash after it. The signature is the HMAC-SHA256 of all that follows it, in \
            base64url.
            """,
        subcommands: [Serve.self, Sign.self], defaultSubcommand: Serve.self)

    static func main() async {
        // Helpers are processes of this program. They decode what strangers have sent, and do not have the keys.
        ImageCache.runDecoderIfAsked()
        await main(nil)
    }
}

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the server. SIGTERM or SIGINT ends it, after the answers that are being made.")

    @OptionGroup var options: Options

    func run() async throws {
        LoggingSystem.bootstrap { StreamLogHandler.standardError(label: $0) }
        MetricsSystem.bootstrap(PrometheusMetrics.shared)
        let server = try ImageServer(options)
        let page = try options.inspect.map { port in
            var page = Inspector.Options()
            page.port = port
            let inspector = Inspector(server.service.cache, page)
            let url = try inspector.start()
            FileHandle.standardError.write(Data("The cache can be watched at \(url)\n".utf8))
            return inspector
        }
        let photographs = options.demo ? try AssetServer(Demo.assets(), port: 0, pace: Pace()) : nil
        try await server.run(until: [.sigterm, .sigint]) { address in
            // The program that started the server may wait for this line.
            var text = "Listening on \(address)\n"
            if let photographs {
                let path = "fit:800x600/format:auto/\(photographs.url)\(Demo.photograph)"
                text += "\(address)/\(server.signer.signature(of: path) ?? "unsafe")/\(path)\n"
            }
            FileHandle.standardOutput.write(Data(text.utf8))
        }
        await page?.stop()
        await photographs?.stop()
    }
}

struct Sign: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Print the signed form of paths.")

    @Option(help: "The file with the keys; without it, IMAGE_SERVER_KEY is the key.")
    var keyFile: String?

    @Argument(help: "What follows the signature, such as fit:400x300/format:auto/https://example.org/a.jpg.")
    var paths: [String]

    func run() throws {
        var options = try Options.parse([])
        options.keyFile = keyFile
        let signer = try options.signer()
        for path in paths {
            do throws(Refusal) { _ = try PictureQuery(path[...], PictureQuery.Limits()) } catch {
                throw ValidationError("\(path): \(error.text)")
            }
            print("/\(signer.signature(of: path) ?? "unsafe")/\(path)")
        }
    }
}

/// The photographs of the samples.
private enum Demo {
    static let photograph = "/photos/coffee-cup.jpg"

    static func assets() throws -> Assets {
        try Assets(
            URL(fileURLWithPath: #filePath).appendingPathComponent("../../../../Scrolling/Assets").standardizedFileURL)
    }
}
