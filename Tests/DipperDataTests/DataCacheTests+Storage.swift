import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

extension DataCacheTests {
    // MARK: Storage by hand

    @Test("data added by hand is found in both tiers, and removed from both")
    func addAndRemove() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let large = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        try test.cache.addData(bytes, for: url("small"))
        try test.cache.addData(large, for: url("large"))
        #expect(test.cache.cachedSource(for: url("large")) == .memory)
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.cachedSource(for: url("large")) == .disk)
        #expect(test.cache.data(for: url("small")) == bytes)
        #expect(test.cache.data(for: url("large")) == large)
        #expect(test.cache.diskCount == 2)
        #expect(test.cache.diskSize > large.count)
        for name in ["small", "large"] {
            test.cache.removeData(for: url(name))
            #expect(test.cache.data(for: url(name)) == nil, "at once")
        }
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0)
        #expect(test.cache.diskSize == 0)
        #expect(folder.files.filter { $0.hasPrefix("blobs") }.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a call that waits for the disk write ends when the entry is there")
    func waitsForDisk() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(url("a"), [.body(bytes)])
        _ = try await test.cache.getData(DataRequest(url("a")).with(\.waitsForDiskWrite, true)).value
        #expect(test.cache.diskCount == 1)
        await test.cache.shutdown()
    }

    @Test("flush removes what is older than an age, from both tiers")
    func flush() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try test.cache.addData(bytes, for: url("old"))
        test.date.advance(by: 1_000)
        try test.cache.addData(bytes, for: url("new"))
        test.cache.flush(olderThan: .seconds(500))
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: url("old")))
        #expect(test.cache.hasData(for: url("new")))
        test.cache.clearMemory()
        #expect(!test.cache.hasData(for: url("old")))
        #expect(test.cache.hasData(for: url("new")))
        await test.cache.shutdown()
    }

    @Test("flush does not wait for running fetches")
    func flushBesideFetch() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let task = test.cache.getData(url("a"))
        let transfer = try await test.transport.nextTransfer()
        test.cache.flush(olderThan: .zero)
        await test.cache.synchronize()
        transfer.finish(with: bytes)
        #expect(try await task.value == bytes)
        await test.cache.shutdown()
    }

    @Test("clear leaves nothing, at once, and what comes after is kept")
    func clear() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        for number in 0..<50 { try test.cache.addData(Data(count: 100 * number), for: url("\(number)")) }
        test.cache.clear()
        #expect(!test.cache.hasData(for: url("7")))
        try test.cache.addData(bytes, for: url("after"))
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.diskCount == 1)
        #expect(test.cache.data(for: url("after")) == bytes)
        #expect(!test.cache.hasData(for: url("49")))
        await test.cache.shutdown()
    }

    @Test("bodies are kept byte for byte, empty ones too", arguments: [0, 1, 2_047, 2_048, 2_049, 70_000])
    func byteExact(size: Int) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let body = Data((0..<size).map { _ in UInt8.random(in: 0...255) })
        test.transport.script(url("a"), [.body(body)])
        #expect(try await test.cache.getData(url("a")).value == body)
        await test.cache.synchronize()
        test.cache.clearMemory()
        let response = try await test.cache.getData(url("a")).response
        #expect(response.data == body)
        #expect(response.source == .disk)
        await test.cache.shutdown()
    }
}
