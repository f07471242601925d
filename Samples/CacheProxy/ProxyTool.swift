// A caching HTTP proxy: what one program has fetched, the next one gets from the cache.
//
//     swift run CacheProxy --port 8080 --cache-dir ~/.cache/proxy
//     curl http://127.0.0.1:8080/https://example.com/picture.jpg
//
// The URL to fetch is what follows the first slash; programs that know of proxies send it as it is
// (`curl -x http://127.0.0.1:8080 http://example.com/`). With an origin it is a reverse proxy in front of that server:
//
//     swift run CacheProxy --origin http://127.0.0.1:8000
//     curl http://127.0.0.1:8080/picture.jpg
//
// What GET and HEAD ask for goes through the cache, which does what the server says of freshness, validators and
// variants (RFC 9111). Everything else is passed on, and what it changes is forgotten. `Cache-Status` (RFC 9211) says
// what became of each request, `Age` how old the answer is.
//
// Programs share what is in the cache, so nothing gets there that is meant for one of them: requests with a credential
// are passed on each by itself, and so are those whose answers are `private` or `no-store`, or set a cookie. Cookies pass
// in neither direction without `--cookies`. The proxy listens on the loopback interface alone without `--allow-remote`,
// and fetches from public addresses alone without `--allow-private`.
//
// | file | what it does |
// |---|---|
// | `ProxyTool.swift`, `Options.swift`, `StopSignal.swift` | the command line, and its end |
// | `ProxyServer.swift`, `IdleConnectionHandler.swift` | accepts connections, as many as are allowed, and ends idle ones |
// | `ProxyHandler.swift` | reads the requests of one connection and writes the answers |
// | `Gateway.swift` | answers a request from the cache or the server |
// | `Target.swift` | finds the URL that a request asks for |
// | `ForwardedFields.swift` | sorts out which fields may pass |
// | `PersonalAnswers.swift` | finds what must not get into the cache |
// | `LoopbackName.swift` | knows by which names only this machine reaches the proxy |
// | `Conditions.swift` | decides between 200 and 304 |
// | `Answer.swift`, `Refusal.swift`, `CacheStatus.swift` | what is sent back |

import ArgumentParser
import DipperData
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
            options.cache, origin: options.originURL, passesCookies: options.cookies, servesRemote: options.allowRemote)
        let server = try await ProxyServer.start(
            gateway, host: options.host, port: options.port, maxConnections: options.maxConnections)
        // Whoever started this may wait for the line.
        FileHandle.standardOutput.write(Data("Listening on \(server.address)\n".utf8))
        await StopSignal.arrival()
        await server.stop()
        await gateway.shutdown()
    }
}
