import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("A picture of the program's own stands in for one that cannot be had", .timeLimit(.minutes(5)))
struct ImageStandInTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let bundled = Image.sample(8, 8, seed: 5)

    private func request(_ bytes: Data) -> ImageRequest {
        ImageRequest(a).with(\.alternatives, [.provider(MemoryProvider(bytes, key: "bundled"))])
    }

    @Test("it is handed out, processed as the other would be, and not kept: the next call asks the URL again")
    func standsIn() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.status(404), .status(404), .body(try picture.png)])
        let plain = request(try bundled.png)
        let processed = plain.processed(by: Inverting())
        #expect(try await test.cache.getImage(plain).value.pixels == bundled.pixels)
        #expect(try await test.cache.getImage(processed).value.size == bundled.size)
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(try await test.cache.getImage(plain).value.pixels == picture.pixels)
        #expect(try await test.cache.getImage(plain).response.source == .memory)
        await test.cache.shutdown()
    }

    @Test("what the cache has for the URL stays, also if the one that stands in is broken")
    func keptStays() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, must-revalidate"]
        test.transport.script(
            a, [.response(TransferResponse(headers: headers, body: try picture.png)), .status(404)])
        _ = try await test.cache.getImage(a).value
        await test.cache.synchronize()
        test.date.advance(by: 20)
        #expect(try await test.cache.getImage(request(try bundled.png)).value.pixels == bundled.pixels)
        #expect(test.cache.memoryCount == 1)
        #expect(test.cache.image(for: a)?.pixels == picture.pixels)
        test.cache.clearMemory()
        #expect(await test.cache.getImage(request(Data("rubbish".utf8))).error == .unsupportedFormat)
        #expect(test.cache.image(for: a)?.pixels == picture.pixels)
        await test.cache.shutdown()
    }

    @Test("what was made of the real one stays, also where it was asked for anew")
    func derivedStays() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png), .status(404)])
        let processed = ImageRequest(a).processed(by: Inverting())
        _ = try await test.cache.getImage(processed).value
        let anew = request(try bundled.png).with(\.cachePolicy, .ignoreCache)
        #expect(try await test.cache.getImage(anew).value.pixels == bundled.pixels)
        await test.cache.synchronize()
        #expect(test.cache.hasProcessedImage(for: processed))
        await test.cache.shutdown()
    }

    @Test("URLs are given as they are")
    func urls() {
        let request = ImageRequest(a).with(\.alternatives, [url("b"), url("c")])
        #expect(request.alternatives.map(\.url) == [url("b"), url("c")])
        #expect(request.data.with(\.alternatives, []).alternatives.isEmpty)
    }
}
