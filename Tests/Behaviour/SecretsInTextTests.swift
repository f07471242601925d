import DipperInspector
import FaultServer
import Logging
import TestSupport
import Testing

/// Secrets are planted in every place where a request or an answer can have them, and looked for in all text there is.
@Suite("No text of a cache holds a secret", .timeLimit(.minutes(2)))
struct SecretsInTextTests {
    private static let canary = "c4n4ry"

    private struct Ears: EventSink {
        let lines = Box<[String]>([])
        let timeline = Timeline()

        func heard(_ text: String) { lines.update { $0.append(text) } }

        func heard(printing value: Any) {
            var dumped = ""
            dump(value, to: &dumped)
            for text in ["\(value)", String(reflecting: value), dumped] { heard(text) }
            heard(Mirror(reflecting: value).children.map { "\($0)" }.joined())
        }

        func receive(_ event: CacheEvent) {
            timeline.receive(event)
            heard(printing: event)
        }

        func check(sourceLocation: SourceLocation = #_sourceLocation) {
            heard(timeline.svg())
            heard(RecordedMetrics.shared.text)
            let lines = lines.value
            #expect(lines.count > 20, sourceLocation: sourceLocation)
            #expect(lines.contains { $0.contains("size=visible") }, "other values stay", sourceLocation: sourceLocation)
            // Basic credentials are sent as base64.
            let bad = lines.filter { $0.contains(canary) || $0.contains("YzRuNHJ5") }
            #expect(bad.isEmpty, "\(bad.prefix(5))", sourceLocation: sourceLocation)
        }
    }

    private func request(_ server: FaultServer, _ target: String) throws -> DataRequest {
        let canary = Self.canary
        let url = server.url(target).absoluteString.replacingOccurrences(of: "://", with: "://\(canary):\(canary)@")
        let text = "\(url)&token=\(canary)&X-Amz-Signature=\(canary)&size=visible#access_token=\(canary)"
        return DataRequest(try #require(URL(string: text)))
            .with(\.headers, ["X-Api-Key": canary, "Cookie": "session=\(canary)", "Accept": canary])
            .with(\.credentials, .basic(user: canary, password: canary))
    }

    private func configuration(_ ears: Ears, _ folder: TemporaryFolder? = nil) -> DataCache.Configuration {
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.logger = .recording(lines: ears.heard)
        configuration.eventSinks = [ears]
        configuration.retryPolicy = .fixed(.milliseconds(1), retries: 2)
        return configuration
    }

    @Test(
        "fetches that succeed, fail, are retried, redirected, cut, revalidated or cancelled",
        arguments: [
            "/bytes/3000/a?etag=v", "/bytes/30/b?status=404", "/bytes/30/c?status=503&times=2",
            "/bytes/30/e?redirect=/bytes/30/f", "/bytes/90000/g?cut=30000&etag=v&times=1",
            "/bytes/30/h?header=Set-Cookie:session=c4n4ry", "/bytes/30/i?cacheControl=max-age=0&etag=v",
            "/bytes/30/j?redirect=/bytes/30/k?token=c4n4ry", "/bytes/30/l?noanswer=1",
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
        await cache.idle()
        cache.forEachEntry { ears.heard(printing: $0) }
        cache.trimDisk(to: 0)
        cache.clear()
        await cache.shutdown()
        await server.stop()
        ears.check()
    }

    @Test("requests that can never be fetched, a proxy that does not answer, and a key with a password")
    func refused() async throws {
        RecordedMetrics.install()
        let server = try await FaultServer.start()
        let (ears, canary) = (Ears(), Self.canary)
        var configuration = configuration(ears)
        configuration.network.proxy = "http://\(canary):\(canary)@127.0.0.1:1"
        configuration.network.clientKeyPassword = canary
        configuration.retryPolicy = .never
        let cache = DataCache(configuration)
        ears.heard(printing: configuration.network)
        let texts = [
            "https:///\(canary):\(canary)@/?token=\(canary)&size=visible", "no url token=\(canary)",
            "ftp://\(canary):\(canary)@host/?token=\(canary)", "http://u:\(canary)@/",
            "http://h/%zz?sig=\(canary)&size=visible",
        ]
        for request in try texts.map({ DataRequest(string: $0) }) + [request(server, "/bytes/1/a?")] {
            if let error = await cache.getData(request).error { ears.heard(printing: error) }
            ears.heard(printing: request)
        }
        await cache.shutdown()
        await server.stop()
        ears.check()
    }

    @Test("fetches, failures, processed pictures, prefetches and removals of pictures")
    func pictures() async throws {
        let (ears, canary) = (Ears(), Self.canary)
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.logger = .recording(lines: ears.heard)
            $0.data.retryPolicy = .never
        }
        let cache = test.cache
        func request(_ name: String, _ step: ScriptedTransport.Step) throws -> ImageRequest {
            let query = "token=\(canary)&X-Amz-Signature=\(canary)&size=visible#access_token=\(canary)"
            let address = try #require(URL(string: "http://\(canary):\(canary)@host.test/\(name)?\(query)"))
            let fields: HTTPHeaders = ["X-Api-Key": canary, "Cookie": "session=\(canary)"]
            let request = ImageRequest(DataRequest(address).with(\.headers, fields))
            test.transport.script(try #require(request.data.url), [step])
            return request
        }
        let picture = Image.sample(40, 30)
        let reason = "no answer from http://\(canary)@host.test/?token=\(canary)"
        let unwritable = ImageSerializer { _, _, _ throws(DipperError) in throw .unencodable.with(detail: reason) }
        let fetched = try request("fetched", .image(picture, headers: ["Set-Cookie": "session=\(canary)"]))
        let broken = try request("broken", .body(Data("no picture".utf8)))
        let failing = try request("failing", .failure(.transport.with(detail: reason)))
        let prefetched = try request("prefetched", .image(picture))
        let processed = fetched.inverted
        #expect(await test.error(fetched) == nil)
        #expect(await test.error(broken) != nil)
        #expect(await test.error(failing) == .transport)
        #expect(await test.error(processed) == nil)
        try await test.load(fetched.processed(by: Inverting("2")).with(\.serializer, unwritable))
        #expect(await ImagePrefetcher(cache, [prefetched, broken]).value.completed.count == 1)
        cache.removeVariant(for: processed)
        cache.removeImage(for: fetched)
        cache.flush(olderThan: .zero)
        cache.clear()
        await cache.shutdown()
        let lines = ears.lines.value
        for word in ["request", "undecodable", "not kept", "no answer from", "fetched", "prefetched"] {
            #expect(lines.contains { $0.contains(word) }, "nothing is told of \(word)")
        }
        ears.check()
    }

    @Test("values that hold secrets print none, by any of the ways to print")
    func values() throws {
        let (ears, canary) = (Ears(), Self.canary)
        let url = try #require(URL(string: "https://\(canary):\(canary)@h/a?jwt=\(canary)&size=visible"))
        let headers: HTTPHeaders = ["Authorization": canary, "Set-Cookie": canary]
        let error = DipperError.transport.with(detail: "at \(url)")
        let values: [Any] = [
            CacheKey(url), CacheKey(url, headers: headers), headers, headers.fields[0], DataRequest(url),
            DataRequest.Source.url(url), Credentials.bearer(canary), TransferRequest(url: url, headers: headers),
            TransferResponse(headers: headers, body: Data()), error, Optional(CacheKey(url)) as Any,
            [CacheKey(url): headers], [DataRequest(url)],
            CacheEvent(time: .zero, key: CacheKey(url), kind: .callFailed(error)),
        ]
        for _ in 0..<2 { for value in values { ears.heard(printing: value) } }
        ears.check()
    }

    @Test("names that a cache adds to the rule are hidden in its log, also where errors quote them")
    func configured() async throws {
        let ears = Ears()
        let secret = try #require(URL(string: "https://h/a?ticket=\(Self.canary)&size=visible"))
        let test = TestCache { configuration in
            configuration.logger = .recording(lines: ears.heard)
            configuration.retryPolicy = .never
            configuration.redaction = Redaction(secretNames: ["ticket"])
        }
        test.transport.script(secret, [.failure(.transport.with(detail: "no answer from \(secret)"))])
        #expect(await test.cache.getData(secret).error == .transport)
        await test.cache.shutdown()
        let lines = ears.lines.value
        #expect(lines.contains { $0.contains("ticket=***&size=visible") })
        #expect(lines.contains { $0.contains("no answer from") })
        #expect(lines.allSatisfy { !$0.contains(Self.canary) }, "\(lines)")
    }
}
