import Dipper
import DipperTesting
import Foundation
import Logging
import TestSupport
import Testing

@Suite("Events and log lines of pictures", .timeLimit(.minutes(2)))
struct ImageEventTests {
    private let a = url("a")
    private let record = EventRecord()
    private let test: TestImageCache

    init() { test = TestImageCache { [record] in $0.data.eventSinks = [record] } }

    private func expectPairs() async {
        await test.cache.shutdown()
        #expect(record.unpaired.isEmpty, "\(record.unpaired)")
    }

    @Test("a processed picture is decoded once, and each of its steps is told with its identifier")
    func processed() async throws {
        try test.script(a, .sample(40, 30))
        let request = ImageRequest(a).processed(by: Inverting("one") |> Inverting("two"))
        _ = try await test.cache.getImage(request).value
        await expectPairs()
        #expect(record.ends(.decode) == [.decodeEnded(nil)])
        #expect(record.begins(.step).map(\.kind) == [.stepBegan("test.one"), .stepBegan("test.two")])
        #expect(record.ends(.step) == [.stepEnded(nil), .stepEnded(nil)])
        let call = record.begins(.call).first?.id
        #expect(call != nil && record.begins(.decode).map(\.parent) == [call])
        #expect(record.begins(.step).map(\.parent) == [call, call])
    }

    @Test("a decode that fails ends with its error")
    func undecodable() async throws {
        test.transport.script(a, [.body(Data("no picture".utf8))])
        let error = await test.error(a)
        await expectPairs()
        #expect(error != nil && record.ends(.decode) == [.decodeEnded(error)])
    }

    @Test("bytes at hand that are no picture, and those that are fetched in their place, are two calls that end")
    func fetchedAgain() async throws {
        test.transport.script(a, [.body(Data("no picture".utf8)), try .image(.sample())])
        _ = try await test.cache.data.getData(a).value
        _ = try await test.cache.getImage(a).value
        await expectPairs()
        #expect(record.ends(.call) == [.callAnswered(.network), .callAnswered(.memory), .callAnswered(.network)])
    }

    @Test("a picture in memory is told as one call; adding one is no call")
    func memoryHit() async throws {
        try test.cache.addImage(.sample(), for: a)
        #expect(record.begins(.call).isEmpty)
        _ = try await test.cache.getImage(a).value
        await expectPairs()
        #expect(record.begins(.call).map(\.kind) == [.callBegan(.fast)])
        #expect(record.ends(.call) == [.callAnswered(.memory)])
    }

    @Test("the log of fetches, failures, processed pictures, prefetches and removals holds no secret at any level")
    func secrets() async throws {
        let canary = "c4n4ry"
        let lines = Box<[String]>([])
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.logger = .recording(lines: { line in lines.update { $0.append(line) } })
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
        for word in ["request", "undecodable", "not kept", "no answer from", "size=visible", "fetched", "prefetched"] {
            #expect(lines.value.contains { $0.contains(word) }, "nothing is told of \(word)")
        }
        // The last is the first in Base64, of the credentials of a URL.
        let bad = lines.value.filter { $0.contains(canary) || $0.contains("YzRuNHJ5") }
        #expect(bad.isEmpty, "\(bad.prefix(5))")
    }
}
