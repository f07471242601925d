import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

/// Bytes that a caller asks for as something that they are not.
@Suite("A call of the wrong kind", .timeLimit(.minutes(2)))
struct WrongKindTests {
    @Test(
        "ends with the reason, also if no server can be asked, and leaves the bytes to others",
        arguments: [false, true])
    func offline(isUp: Bool) async throws {
        let (folder, target, feed) = (TemporaryFolder(), url("feed"), Feed.sample.bytes)
        let test = TestImageCache(folder: folder)
        test.transport.script(target, [.body(feed), .failure(.connectionFailed)])
        _ = try await test.cache.data.getData(target).value
        await test.cache.idle()
        test.network.isUp = isUp
        for _ in 0..<2 {
            #expect(await test.error(target) == .unsupportedFormat)
            #expect(await test.cache.data.getValue([Int].self, from: target).error == .undecodable)
        }
        #expect(try await test.cache.data.getValue(Feed.self, from: target).value == .sample)
        #expect(try await test.cache.data.getData(target).value == feed)
        if !isUp { #expect(test.transport.transfers.count == 1) }
        test.cache.clearMemory()
        #expect(try await test.cache.data.getData(target).value == feed)
        await test.cache.shutdown()
        let second = TestCache(folder: folder)
        #expect(second.cache.data(for: target) == feed, "on disk, too")
    }
}
