import DipperTesting
import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("How long entries last, in memory and on disk, whatever the clock does", .timeLimit(.minutes(5)))
struct LifetimeRuleTests {
    private let a = url("a")

    // MARK: Memory and disk

    @Test("memory holds an entry as long as it is told to, shorter or longer than the disk", arguments: [true, false])
    func given(byRequest: Bool) async throws {
        for (memory, disk, later) in [(1_000.0, 10.0, ResponseSource?.some(.memory)), (10, 1_000, .disk)] {
            let folder = TemporaryFolder()
            let test = TestCache(folder: folder) {
                guard !byRequest else { return }
                $0.memoryExpiration = .seconds(memory)
                $0.diskExpiration = .seconds(disk)
            }
            var request = DataRequest(a)
            if byRequest {
                request.memoryExpiration = .seconds(memory)
                request.diskExpiration = .seconds(disk)
            }
            test.transport.script(a, [.body(Data(count: 100))])
            _ = try await test.cache.getData(request).value
            await test.cache.synchronize()
            test.date.advance(by: 20)
            #expect(test.cache.cachedSource(for: a) == later)
            await test.cache.shutdown()
        }
    }

    @Test("and an entry that is read from disk", arguments: [true, false])
    func readFromDisk(byRequest: Bool) async throws {
        for (memory, disk, later) in [(1_000.0, 10.0, ResponseSource?.some(.memory)), (10, 1_000, .disk)] {
            let folder = TemporaryFolder()
            let test = TestCache(folder: folder) {
                if !byRequest { $0.memoryExpiration = .seconds(memory) }
            }
            var request = DataRequest(a)
            if byRequest { request.memoryExpiration = .seconds(memory) }
            try await test.cache.addDataAndWait(Data(count: 100), for: request.with(\.diskExpiration, .seconds(disk)))
            test.cache.clearMemory()
            test.date.advance(by: 5)
            #expect(try await test.cache.getData(request).response.source == .disk)
            test.date.advance(by: 15)
            #expect(test.cache.cachedSource(for: a) == later)
            await test.cache.shutdown()
        }
    }

    @Test("where nobody says how long, memory holds what is read from disk no longer than the disk")
    func notGiven() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.diskExpiration = .seconds(10) }
        try await test.cache.addDataAndWait(Data(count: 100), for: DataRequest(a))
        test.cache.clearMemory()
        test.date.advance(by: 5)
        #expect(test.cache.data(for: a) != nil && test.cache.cachedSource(for: a) == .memory)
        test.date.advance(by: 6)
        #expect(test.cache.cachedSource(for: a) == nil)
        await test.cache.shutdown()
    }

    @Test("what is made of an entry lasts as long as the request says, else as long as the entry")
    func derived() async throws {
        let test = TestCache()
        let stored = test.date.now.timeIntervalSince1970
        let info = EntryInfo(url: "", stored: stored)
        test.date.advance(by: 5)
        let request = DataRequest(a).with(\.diskExpiration, .seconds(10))
        func left(_ request: DataRequest) -> TimeInterval {
            DataCacheSource(test.cache).memoryLifetime(of: request, madeOf: info).expires
                - test.date.now.timeIntervalSince1970
        }
        #expect(left(request) == 5)
        #expect(left(request.with(\.memoryExpiration, .seconds(1_000))) == 1_000)
        #expect(left(request.with(\.memoryExpiration, .seconds(1))) == 1)
        #expect(left(request.with(\.diskAccessExtension, .cacheTime)) == 10)
        await test.cache.shutdown()
    }

    @Test("reads extend the life of an entry to a date, and no further", arguments: [true, false])
    func extensionToDate(onDisk: Bool) async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: onDisk ? folder : nil)
        let end = AccessExtension.expiration(.date(test.date.now + 100))
        let request = DataRequest(a).with(\.memoryExpiration, .seconds(10)).with(\.diskExpiration, .seconds(10))
            .with(\.memoryAccessExtension, end).with(\.diskAccessExtension, end)
        test.transport.script(a, [.body(Data(count: 100))])
        _ = try await test.cache.getData(request).value
        await test.cache.synchronize()
        test.date.advance(by: 5)
        if onDisk { test.cache.clearMemory() }
        let tier = onDisk ? ResponseSource.disk : .memory
        #expect(try await test.cache.getData(request).response.source == tier)
        if onDisk {
            await test.cache.shutdown()
            test = TestCache(folder: folder, date: test.date)
        }
        test.date.advance(by: 94)
        #expect(test.cache.cachedSource(for: a) == tier)
        test.date.advance(by: 3)
        #expect(test.cache.cachedSource(for: a) == nil)
        await test.cache.shutdown()
    }

    // MARK: The clock

    @Test("an answer from before the clock was set back is asked about, and is fresh again once confirmed")
    func freshnessAfterSetback() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        test.transport.script(a, [.text("1", fields), .text("", fields, status: 304)])
        #expect(try await test.ask(a).source == .network)
        #expect(try await test.ask(a).source == .memory)
        test.date.advance(by: -1_000)
        #expect(try await test.ask(a).source == .revalidated)
        #expect(try await test.ask(a).source == .memory)
        test.date.advance(by: 11)
        #expect(try await test.ask(a).source == .revalidated)
        await test.cache.shutdown()
    }

    @Test("bytes of the program's own stay as they are when the clock is set back")
    func addedAfterSetback() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data("own".utf8), for: CacheKey(a))
        test.date.advance(by: -1_000)
        #expect(try await test.ask(a) == Told("own", .memory))
        test.cache.clearMemory()
        #expect(try await test.ask(a) == Told("own", .disk))
        await test.cache.shutdown()
    }

    @Test("an entry that was used before the clock was set back goes in its turn")
    func evictionAfterSetback() async throws {
        let folder = TemporaryFolder()
        let date = ManualDate()
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let tier = DiskTier(.init(folder: folder.url.path, sizeLimit: 100_000), logger: logger, now: date.time)
        func write(_ key: CacheKey) async {
            tier.write(
                EntryRecord(
                    key: key, value: StoredData(data: Data(count: 5_000), info: EntryInfo(url: "", stored: 0)),
                    lifetime: .forever))
            await tier.synchronize()
        }
        await write("future")
        #expect(tier.entry(for: "future") != nil)
        tier.writer.run { tier.writeAccesses() }
        await tier.synchronize()
        date.advance(by: -86_400)
        for number in 0..<60 {
            date.advance(by: 1)
            await write(CacheKey("k\(number)"))
        }
        #expect(!tier.contains("future") && tier.contains("k59"))
        await tier.shutdown()
    }
}
