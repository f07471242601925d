import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Removing entries while work goes on", .timeLimit(.minutes(2)))
struct RemovalTests {
    private static let whole = Data((0..<100).map { UInt8($0) })
    private let a = url("a")
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "max-age=50"]
    private var beginning: TransferResponse { TransferResponse(headers: fields, body: Self.whole.prefix(60)) }

    enum Removal: String, CaseIterable, Sendable {
        case url, key, clear, invalidate

        func apply(_ cache: DataCache, _ url: URL) {
            switch self {
            case .url: cache.removeData(for: url)
            case .key: cache.removeData(for: CacheKey(url))
            case .clear: cache.clear()
            case .invalidate: cache.invalidate(url)
            }
        }
    }

    @Test("An entry is added to both tiers, and removed from those that are named, at once for readers")
    func byTier() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let cache = test.cache
        try await cache.addDataAndWait(Data(count: 9_000), for: DataRequest(a))
        try await cache.addDataAndWait(Data("small".utf8), for: CacheKey(url("b")))
        #expect(cache.cachedSource(for: a) == .memory && cache.diskCount == 2 && cache.diskSize > 9_000)
        cache.removeData(for: a, from: .memory)
        #expect(cache.cachedSource(for: a) == .disk && cache.data(for: a)?.count == 9_000)
        cache.removeData(for: DataRequest(a), from: .disk)
        #expect(cache.cachedSource(for: a) == .memory)
        cache.removeData(for: a, from: [])
        #expect(cache.hasData(for: a))
        for name in ["a", "b"] {
            cache.removeData(for: url(name))
            #expect(!cache.hasData(for: url(name)) && cache.data(for: url(name)) == nil)
        }
        await cache.synchronize()
        #expect(cache.diskCount == 0 && cache.diskSize == 0 && cache.memoryCount == 0)
        #expect(folder.files.allSatisfy { !$0.hasPrefix("blobs") })
        await cache.shutdown()
    }

    @Test(
        "A removal during a fetch holds, also if the disk was asked for another call meanwhile",
        arguments: Removal.allCases, [false, true])
    func duringFetch(removal: Removal, isLookedUp: Bool) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let task = test.cache.getData(DataRequest(a).with(\.cachePolicy, .ignoreCache))
        let transfer = try await test.transport.nextTransfer()
        if isLookedUp {
            #expect(await test.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error == .notCached)
        }
        removal.apply(test.cache, a)
        transfer.finish(with: Self.whole, headers: fields)
        #expect(try await task.value == Self.whole)
        await test.cache.idle()
        #expect(!test.cache.hasData(for: a) && test.cache.diskCount == 0)
        #expect(!transfer.isCancelled)
        await test.cache.shutdown()
    }

    @Test(
        "The beginning of an entry that is removed while its call waits is not continued, from memory or disk",
        arguments: [1_000, 100], [false, true])
    func whileParked(limit: Int, isLookedUp: Bool) async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.inFlightLimit = limit }
        let task = test.cache.getData(
            DataRequest(a).with(\.cachePolicy, .ignoreCache).with(\.retryPolicy, .fixed(.seconds(10))))
        try await test.transport.nextTransfer().interrupt(with: beginning)
        try await task.waitForFailures()
        if isLookedUp {
            // An urgent call would end the wait.
            let look = test.cache.slowGetData(DataRequest(a).with(\.cachePolicy, .cacheOnly))
            #expect(await look.error == .notCached)
        }
        test.cache.removeData(for: a)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(10))
        let next = try await test.transport.nextTransfer()
        #expect(next.request.headers["Range"] == nil)
        next.finish(with: Self.whole, headers: fields)
        #expect(try await task.value == Self.whole)
        await test.cache.shutdown()
    }

    @Test("A clear that removes what held everything up on its way to disk lets new calls go on")
    func clearEndsBacklog() async throws {
        let codec = StalledCodec()
        let test = TestCache(folder: TemporaryFolder()) {
            $0.stagingLimit = 10_000
            $0.recordCodec = codec
        }
        try test.cache.addData(Data(count: 5_000), for: "first")
        try await codec.arrivals.wait { $0 == 1 }
        for number in 0..<6 { try test.cache.addData(Data(count: 5_000), for: CacheKey("\(number)")) }
        let task = test.cache.getData(DataRequest(a).with(\.cachePolicy, .memoryOnly))
        #expect(task.state == .waiting && test.transport.transfers.isEmpty)
        test.cache.clear()
        try await test.transport.nextTransfer().finish(with: Self.whole)
        #expect(try await task.value == Self.whole)
        codec.door.stayOpen()
        await test.cache.shutdown()
    }
}
