import TestSupport
import Testing

@Suite("Events of pictures", .timeLimit(.minutes(2)))
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
}
