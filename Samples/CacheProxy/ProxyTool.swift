// A caching HTTP proxy: programs share the answers that one of them has fetched.
//
//     swift run CacheProxy --port 8080 --cache-dir ~/.cache/proxy
//     curl http://127.0.0.1:8080/https://example.com/picture.jpg
//
// The URL to fetch follows the first slash. Programs that support proxies send it as it is (`curl -x
// http://127.0.0.1:8080 http://example.com/`). With `--origin` the proxy is a reverse proxy in front of that server:
//
//     swift run CacheProxy --origin http://127.0.0.1:8000
//     curl http://127.0.0.1:8080/picture.jpg
//
// GET and HEAD requests go through the cache, which follows RFC 9111: freshness, validators and variants. Requests with
// other methods bypass the cache and invalidate the entries that they may change. The field `Cache-Status` (RFC 9211)
// says how the proxy answered each request, and `Age` how old the answer is.
//
// All clients share the cache, so answers for one client never enter it: requests with a credential bypass the cache,
// and so do requests whose answers are `private` or `no-store`, or set a cookie. With `--shared-cache`, the cache itself
// follows the rules for shared caches, `Authorization` no longer bypasses it, and interim answers such as 103 Early Hints
// are passed on. Without `--cookies`, cookies pass in
// neither direction. Without `--allow-remote`, the proxy listens on the loopback interface only. Without
// `--allow-private` and `--origin`, it fetches from public addresses only.
//
// | file | what it does |
// |---|---|
// | `ProxyTool.swift`, `Options.swift` | the command line and the signals that end the proxy |
// | `ProxyServer.swift` | accepts connections up to a limit and closes idle ones |
// | `ProxyHandler.swift` | reads the requests of one connection and writes the answers |
// | `Gateway.swift` | answers a request from the cache or the server |
// | `Target.swift` | finds the URL that a request asks for, and knows the names of this machine |
// | `ForwardedFields.swift` | selects the header fields to forward |
// | `PersonalAnswers.swift` | finds the answers that must not enter the cache |
// | `Conditions.swift` | decides between 200 and 304 |
// | `Answer.swift` | the answers to the client |

import ArgumentParser
import DipperData
import DipperInspector
import Dispatch
import Foundation

@main
struct ProxyTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "CacheProxy", abstract: "Run an HTTP proxy with a cache.",
        discussion: """
            GET /https://host/path returns the resource at that URL, from the cache if possible. With --origin the \
            proxy is a reverse proxy in front of one server. SIGINT or SIGTERM ends the proxy.
            """)

    @OptionGroup var options: Options

    func run() async throws {
        let gateway = Gateway(
            options.cache, origin: options.originURL, isShared: options.sharedCache, passesCookies: options.cookies,
            servesRemote: options.allowRemote)
        let server = try await ProxyServer.start(
            gateway, host: options.host, port: options.port, maxConnections: options.maxConnections)
        let inspector = try options.inspect.map { port in
            var options = Inspector.Options()
            options.port = port
            let inspector = Inspector(gateway.cache, options)
            FileHandle.standardError.write(Data("inspector: \(try inspector.start())\n".utf8))
            return inspector
        }
        // The program that started the proxy may wait for this line.
        FileHandle.standardOutput.write(Data("Listening on \(server.address)\n".utf8))
        await StopSignal.arrival()
        await server.stop()
        await inspector?.stop()
        await gateway.shutdown()
    }
}

/// The signals SIGINT and SIGTERM, as an event to wait for.
private enum StopSignal {
    static func arrival() async {
        let (signals, continuation) = AsyncStream.makeStream(of: Void.self)
        let sources = [SIGINT, SIGTERM].map { number in
            // The default action would end the process before the source is notified.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { continuation.finish() }
            source.activate()
            return source
        }
        for await _ in signals {}
        for source in sources { source.cancel() }
    }
}
