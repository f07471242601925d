import DipperTesting
import Foundation
import Logging
import TestSupport
import Testing

@testable import Dipper

@Suite("The log of a cache of pictures holds no secret", .timeLimit(.minutes(5)))
struct SecretsInImageLogTests {
    private static let canary = "c4n4ry"

    /// Credentials in the URL, its query, its fragment and the fields.
    private func request(_ name: String) throws -> ImageRequest {
        let address = """
            http://\(Self.canary):\(Self.canary)@host.test/\(name)?token=\(Self.canary)&X-Amz-Signature=\(Self.canary)\
            &size=visible#access_token=\(Self.canary)
            """
        return ImageRequest(
            DataRequest(try #require(URL(string: address)))
                .with(\.headers, ["X-Api-Key": Self.canary, "Cookie": "session=\(Self.canary)"]))
    }

    @Test("of fetches, failures to decode, processed pictures, prefetches and removals, at the level trace")
    func canaries() async throws {
        let folder = TemporaryFolder()
        let lines = Box<[String]>([])
        let test = TestImageCache(folder: folder) { configuration in
            configuration.data.logger = .recording(lines: { line in lines.update { $0.append(line) } })
            configuration.data.retryPolicy = .never
        }
        let cache = test.cache
        let body = try Image.sample(40, 30).png
        func script(_ request: ImageRequest, _ steps: [ScriptedTransport.Step]) throws {
            test.transport.script(try #require(request.data.url), steps)
        }
        let cookie: HTTPHeaders = ["Set-Cookie": "session=\(Self.canary)"]
        let fetched = try request("fetched")
        try script(fetched, [.response(TransferResponse(headers: cookie, body: body))])
        _ = try await cache.getImage(fetched).value
        let broken = try request("broken")
        try script(broken, [.body(Data("no picture".utf8))])
        #expect(await cache.getImage(broken).error != nil)
        let failing = try request("failing")
        try script(
            failing, [.failure(.transport.with(detail: "no answer from \(failing.data.url?.absoluteString ?? "")"))])
        #expect(await cache.getImage(failing).error == .transport)
        let processed = fetched.processed(by: Inverting())
        _ = try await cache.getImage(processed).value
        await cache.synchronize()
        #expect(cache.hasProcessedImage(for: processed))
        cache.objects.maker.note(
            DipperError.notWritten.with(detail: "of \(fetched.data.url?.absoluteString ?? "")"),
            writing: fetched.data.cacheKey)
        let prefetched = try request("prefetched")
        try script(prefetched, [.body(body)])
        #expect(await ImagePrefetcher(cache, [prefetched, broken]).value.completed.count == 1)
        cache.removeImage(for: processed)
        cache.removeImages(for: fetched)
        cache.flush(olderThan: .zero)
        cache.clear()
        await cache.synchronize()
        await cache.shutdown()
        let heard = lines.value
        for word in ["request", "undecodable", "not kept", "no answer from", "size=visible", "fetched", "prefetched"] {
            #expect(heard.contains { $0.contains(word) }, "nothing is told of \(word)")
        }
        let bad = heard.filter { $0.contains(Self.canary) || $0.contains("YzRuNHJ5") }
        #expect(bad.isEmpty, "\(bad.prefix(5))")
    }
}
