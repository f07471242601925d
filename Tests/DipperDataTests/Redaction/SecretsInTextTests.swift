import DipperTesting
import FaultServer
import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

/// Secrets are planted in every place where a request or an answer can have them, and looked for in all text there is.
@Suite("No text of a cache holds a secret", .timeLimit(.minutes(5)), .serialized)
struct SecretsInTextTests {
    private static let canary = "c4n4ry"

    /// All text that came out of a cache.
    private final class Ears: Sendable {
        let lines = Box<[String]>([])
        let timeline = Timeline()

        @Sendable func heard(_ text: String) { lines.update { $0.append(text) } }

        /// Everything that prints a value.
        func heard(printing value: Any) {
            var dumped = ""
            dump(value, to: &dumped)
            heard("\(value)")
            heard(String(reflecting: value))
            heard(dumped)
            heard(Mirror(reflecting: value).children.map { "\($0)" }.joined())
        }
    }

    /// Credentials everywhere: in the URL, its query, its fragment, fields, hooks.
    private func request(_ server: FaultServer, _ target: String) throws -> DataRequest {
        let url = server.url(target).absoluteString
            .replacingOccurrences(of: "://", with: "://\(Self.canary):\(Self.canary)@")
        let text = "\(url)&token=\(Self.canary)&X-Amz-Signature=\(Self.canary)&size=visible#access_token=\(Self.canary)"
        return DataRequest(try #require(URL(string: text)))
            .with(\.headers, ["X-Api-Key": Self.canary, "Cookie": "session=\(Self.canary)", "Accept": Self.canary])
            .with(\.credentials, .basic(user: Self.canary, password: Self.canary))
    }

    private func configuration(_ ears: Ears, _ folder: TemporaryFolder?) -> DataCache.Configuration {
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.logger = .recording(lines: ears.heard)
        configuration.observe { event in
            ears.timeline.receive(event)
            ears.heard(printing: event)
        }
        configuration.retryPolicy = .fixed(.milliseconds(1), retries: 2)
        return configuration
    }

    private func check(_ ears: Ears, sourceLocation: SourceLocation = #_sourceLocation) {
        ears.heard(ears.timeline.svg())
        ears.heard(RecordedMetrics.shared.text)
        let lines = ears.lines.value
        #expect(lines.count > 20, sourceLocation: sourceLocation)
        #expect(
            lines.contains { $0.contains("size=visible") }, "other values stay readable", sourceLocation: sourceLocation
        )
        let bad = lines.filter { $0.contains(Self.canary) || $0.contains("YzRuNHJ5") }
        #expect(bad.isEmpty, "\(bad.prefix(5))", sourceLocation: sourceLocation)
    }

    @Test(
        "fetches that succeed, fail, retry, are redirected, cut, revalidated or cancelled",
        arguments: [
            "/bytes/3000/a?etag=v", "/bytes/30/b?status=404", "/bytes/30/c?status=503&times=2",
            "/bytes/30/d?status=503",
            "/bytes/30/e?redirect=/bytes/30/f", "/bytes/90000/g?cut=30000&etag=v&times=1",
            "/bytes/30/h?header=Set-Cookie:session=\(Self.canary)", "/bytes/30/i?cacheControl=max-age=0&etag=v",
            "/bytes/30/j?redirect=/bytes/30/k?token=\(Self.canary)", "/bytes/30/l?noanswer=1",
        ])
    func fetches(target: String) async throws {
        RecordedMetrics.install()
        let server = try await FaultServer.start()
        let folder = TemporaryFolder()
        let ears = Ears()
        let cache = DataCache(configuration(ears, folder))
        let request = try request(server, target)
        for attempt in 0..<2 {
            let task = attempt == 0 ? cache.getData(request) : cache.slowGetData(request)
            task.onFail { error, _ in ears.heard(printing: error) }
            if target.contains("noanswer") {
                await server.waitForRequests(attempt + 1)
                task.cancel()
            }
            do {
                ears.heard(printing: try await task.response)
            } catch {
                ears.heard(printing: error)
            }
            for value in [task, task.request, task.key, task.state] as [Any] { ears.heard(printing: value) }
        }
        await cache.synchronize()
        cache.forEachEntry { ears.heard(printing: $0) }
        cache.trim(toDiskSize: 0)
        cache.clear()
        await cache.synchronize()
        await cache.shutdown()
        await server.stop()
        check(ears)
    }

    @Test("requests that can never be fetched, proxies, and redirects to nowhere")
    func refused() async throws {
        let server = try await FaultServer.start()
        let ears = Ears()
        var configuration = configuration(ears, nil)
        configuration.network.proxy = "http://\(Self.canary):\(Self.canary)@127.0.0.1:1"
        configuration.network.clientKeyPassword = Self.canary
        configuration.retryPolicy = .never
        let cache = DataCache(configuration)
        ears.heard(printing: configuration.network)
        let texts = [
            "https:///\(Self.canary):\(Self.canary)@/?token=\(Self.canary)&size=visible",
            "no url token=\(Self.canary)", "ftp://\(Self.canary):\(Self.canary)@host/?token=\(Self.canary)",
            "http://u:\(Self.canary)@/", "http://h/%zz?sig=\(Self.canary)&size=visible",
        ]
        for request in try texts.map({ DataRequest(string: $0) }) + [request(server, "/bytes/1/a?")] {
            do {
                ears.heard(printing: try await cache.getData(request).response)
            } catch {
                ears.heard(printing: error)
            }
            ears.heard(printing: request)
        }
        await cache.shutdown()
        await server.stop()
        check(ears)
    }

    @Test("values that hold secrets print none, by any of the ways to print")
    func values() throws {
        let ears = Ears()
        let url = try #require(URL(string: "https://\(Self.canary):\(Self.canary)@h/a?jwt=\(Self.canary)&size=visible"))
        let headers: HTTPHeaders = ["Authorization": Self.canary, "Set-Cookie": Self.canary]
        let info = EntryInfo(url: url.absoluteString, headers: headers, stored: 0)
        let values: [Any] = [
            CacheKey(url), CacheKey(url, headers: headers), headers, headers.fields[0], DataRequest(url),
            DataRequest.Source.url(url), Credentials.bearer(Self.canary),
            Credentials.Challenge(url: url, demand: Self.canary), TransferRequest(url: url, headers: headers),
            TransferResponse(headers: headers, body: Data()), info,
            DataResponse(data: Data(), info: info, source: .disk),
            CacheEvent(time: .zero, key: CacheKey(url), kind: .callFailed(.transport.with(detail: "at \(url)"))),
            DipperError.transport.with(detail: "at \(url)"), Optional(CacheKey(url)) as Any, [CacheKey(url): headers],
            [DataRequest(url)],
            CachedEntry(
                key: CacheKey(url), url: url.absoluteString, size: 1, stored: Date(), accessed: Date(), expires: nil),
        ]
        for _ in 0..<2 { for value in values { ears.heard(printing: value) } }
        check(ears)
    }

    @Test("names that a cache adds to the rule are hidden in its log, also where errors quote them")
    func configured() async throws {
        let ears = Ears()
        let transport = ScriptedTransport()
        let url = try #require(URL(string: "https://h/a?ticket=\(Self.canary)&size=visible"))
        transport.script(url, [.failure(.transport.with(detail: "no answer from \(url)")), .body(Data("x".utf8))])
        var configuration = DataCache.Configuration()
        configuration.logger = .recording(lines: ears.heard)
        configuration.transport = transport
        configuration.redaction = Redaction(secretNames: ["ticket"])
        let cache = DataCache(configuration)
        for _ in 0..<2 { _ = try? await cache.getData(url).value }
        await cache.shutdown()
        let lines = ears.lines.value
        #expect(lines.contains { $0.contains("ticket=***&size=visible") })
        #expect(lines.contains { $0.contains("no answer from") })
        #expect(lines.allSatisfy { !$0.contains(Self.canary) }, "\(lines)")
    }
}
