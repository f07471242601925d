import ArgumentParser
import DipperData
import Foundation

/// What the command line says.
struct Options: ParsableArguments {
    @Option(help: ArgumentHelp("The port to listen on; 0 takes a free one.", valueName: "number"))
    var port = 8080

    @Option(
        help: ArgumentHelp(
            "The address to listen on; with --allow-remote one that other machines can reach.", valueName: "address"))
    var host = "127.0.0.1"

    @Flag(help: "Serve other machines too: whoever reaches the address can fetch through the proxy.")
    var allowRemote = false

    @Flag(help: "Pass cookies on. What is asked for with a cookie, or sets one, is not kept.")
    var cookies = false

    @Option(
        help: ArgumentHelp("The folder to keep answers in. Without it they are kept in memory.", valueName: "folder"))
    var cacheDir: String?

    @Option(help: ArgumentHelp("Answer with the files of this server alone.", valueName: "URL"))
    var origin: String?

    @Flag(help: "Fetch from loopback and private addresses too.")
    var allowPrivate = false

    @Option(help: ArgumentHelp("The most connections open at a time.", valueName: "number"))
    var maxConnections = 256

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port is a number up to 65535.") }
        guard allowRemote || LoopbackName.matches(host) else {
            throw ValidationError("--host \(host) can be reached by others: give --allow-remote if it is meant.")
        }
        guard maxConnections > 0 else { throw ValidationError("--max-connections is at least 1.") }
        guard origin == nil || originURL != nil else {
            throw ValidationError("--origin is an http or https URL of a server.")
        }
    }

    /// The only server to ask; `nil` if each request names one.
    var originURL: URL? { origin.flatMap { try? Target.url($0) } }

    /// How the cache is set up.
    var cache: DataCache.Configuration {
        var configuration = DataCache.Configuration(
            directory: cacheDir.map { URL(fileURLWithPath: $0, isDirectory: true) })
        configuration.name = "proxy"
        // A proxy may guess only as far as RFC 9111 does.
        configuration.freshness = .http(defaultFreshness: nil)
        // The client knows best whether to try again.
        configuration.retryPolicy = .never
        configuration.network.addressPolicy = allowPrivate || origin != nil ? .any : .publicOnly
        configuration.network.maximumBodySize = 256 << 20
        // Between the client and the server.
        configuration.network.decodesContent = false
        return configuration
    }
}
