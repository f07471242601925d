import ArgumentParser
import DipperData
import Foundation

struct Options: ParsableArguments {
    @Option(help: ArgumentHelp("The port to listen on; 0 for any free port.", valueName: "number"))
    var port = 8080

    @Option(
        help: ArgumentHelp(
            "The address to listen on. Addresses other than loopback require --allow-remote.", valueName: "address"))
    var host = "127.0.0.1"

    @Flag(help: "Serve other machines. Everyone who can reach the address can fetch through the proxy.")
    var allowRemote = false

    @Flag(help: "Forward cookies. Answers to requests with cookies, and answers that set cookies, are not kept.")
    var cookies = false

    @Flag(
        help: ArgumentHelp(
            "Follow the rules of RFC 9111 for shared caches: s-maxage, CDN-Cache-Control, Authorization, private fields."
        ))
    var sharedCache = false

    @Option(
        help: ArgumentHelp("The folder of the cache. By default the cache is in memory only.", valueName: "folder"))
    var cacheDir: String?

    @Option(help: ArgumentHelp("Run as a reverse proxy in front of this server.", valueName: "URL"))
    var origin: String?

    @Flag(help: "Also fetch from loopback and private addresses.")
    var allowPrivate = false

    @Option(help: ArgumentHelp("The largest number of open connections.", valueName: "number"))
    var maxConnections = 256

    @Option(
        help: ArgumentHelp(
            "Open a live page about the cache on this port of the loopback address, 0 for any free port, and print its "
                + "address on standard error.", valueName: "number"))
    var inspect: Int?

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

    var originURL: URL? { origin.flatMap { try? Target.url($0) } }

    var cache: DataCache.Configuration {
        var configuration = DataCache.Configuration(
            directory: cacheDir.map { URL(fileURLWithPath: $0, isDirectory: true) })
        configuration.name = "proxy"
        // No default freshness: a proxy may use only the heuristic of RFC 9111.
        configuration.freshness = sharedCache ? .shared(defaultFreshness: nil) : .http(defaultFreshness: nil)
        // The client decides whether to try again.
        configuration.retryPolicy = .never
        configuration.network.addressPolicy = allowPrivate || origin != nil ? .any : .publicOnly
        configuration.network.maximumBodySize = 256 << 20
        // Content codings are a matter between the client and the server.
        configuration.network.decodesContent = false
        return configuration
    }
}
