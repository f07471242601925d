import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Decodes and processing steps are told from begin to end", .timeLimit(.minutes(5)))
struct PictureEventTests {
    private let a = url("a")

    private func cache(_ record: EventRecord) -> TestImageCache {
        TestImageCache { $0.data.eventSinks = [record] }
    }

    @Test("a processed picture is decoded once, and each of its steps is told with its identifier")
    func processed() async throws {
        let record = EventRecord()
        let test = cache(record)
        test.transport.script(a, [.body(try Image.sample(40, 30).png)])
        let request = ImageRequest(a).processed(by: ImageProcessors.Chain([Inverting("one"), Inverting("two")]))
        _ = try await test.cache.getImage(request).value
        await test.cache.shutdown()
        #expect(record.unpaired.isEmpty, "\(record.unpaired)")
        #expect(record.ends(.decode) == [.decodeEnded(nil)])
        #expect(record.begins(.step).map(\.kind) == [.stepBegan("test.one"), .stepBegan("test.two")])
        #expect(record.ends(.step) == [.stepEnded(nil), .stepEnded(nil)])
        let call = record.begins(.call).first?.id
        #expect(call != nil && record.begins(.decode).map(\.parent) == [call])
        #expect(record.begins(.step).map(\.parent) == [call, call])
    }

    @Test("a decode that fails ends with its error")
    func undecodable() async throws {
        let record = EventRecord()
        let test = cache(record)
        test.transport.script(a, [.body(Data("no picture".utf8))])
        let error = await test.cache.getImage(a).error
        await test.cache.shutdown()
        #expect(record.unpaired.isEmpty, "\(record.unpaired)")
        #expect(error != nil && record.ends(.decode) == [.decodeEnded(error)])
    }

    @Test("a picture in memory is told as one call")
    func memoryHit() async throws {
        let record = EventRecord()
        let test = cache(record)
        try test.cache.addImage(.sample(), for: a)
        #expect(record.begins(.call).isEmpty)
        _ = try await test.cache.getImage(a).value
        await test.cache.shutdown()
        #expect(record.begins(.call).map(\.kind) == [.callBegan(.fast)])
        #expect(record.ends(.call) == [.callAnswered(.memory)])
        #expect(record.unpaired.isEmpty, "\(record.unpaired)")
    }
}
