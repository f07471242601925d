import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

/// Bytes that a caller asks for as something that they are not.
@Suite("A call of the wrong kind", .timeLimit(.minutes(2)))
struct WrongKindTests {
    private struct Feed: Codable, Sendable, Equatable { var items: [Int] }
    private struct WrongFeed: Codable, Sendable { var pages: String }

    private let feed = Data(#"{"items": [1, 2]}"#.utf8)

    @Test(
        "without network ends with the reason why it cannot be decoded, and leaves the stored bytes for calls of the right kind"
    )
    func offline() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache(folder: folder)
        test.transport.script(url("feed"), [.body(feed)])
        _ = try await test.cache.data.getData(url("feed")).value
        await test.cache.idle()
        test.network.isUp = false
        for _ in 0..<2 {
            #expect(await test.cache.getImage(url("feed")).error == .unsupportedFormat)
            #expect(await test.cache.data.getValue(WrongFeed.self, from: url("feed")).error == .undecodable)
        }
        #expect(try await test.cache.data.getValue(Feed.self, from: url("feed")).value == Feed(items: [1, 2]))
        #expect(try await test.cache.data.getData(url("feed")).value == feed)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
        // The entry is on disk, too.
        let second = TestCache(folder: folder)
        #expect(second.cache.data(for: url("feed")) == feed)
        await second.cache.shutdown()
    }

    @Test("ends with the same reason if the server cannot be asked, without retries, and loses nothing")
    func serverIsDown() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(url("feed"), [.body(feed), .failure(.connectionFailed)])
        _ = try await test.cache.data.getData(url("feed")).value
        #expect(await test.cache.getImage(url("feed")).error == .unsupportedFormat)
        #expect(await test.cache.data.getValue(WrongFeed.self, from: url("feed")).error == .undecodable)
        test.cache.clearMemory()
        #expect(try await test.cache.data.getData(url("feed")).value == feed)
        await test.cache.shutdown()
    }

    @Test("asks the server once more, and takes the answer that can be decoded")
    func mended() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try test.transport.script(url("a.png"), [.body(Data("no picture".utf8)), .image(.sample())])
        #expect(await test.cache.getImage(url("a.png")).error == .unsupportedFormat)
        #expect(try await test.cache.getImage(url("a.png")).value.size == Image.sample().size)
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }
}
