import DipperTesting
import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

extension ResumeTests {
    // MARK: Kept on disk

    func holding(_ count: Int) -> TransferResponse { beginning(count) }

    /// Begins a transfer and cancels it when it has received the given number of bytes.
    func cancelHalfway(_ test: TestCache, _ target: URL, bytes: Int, _ headers: HTTPHeaders? = nil) async throws {
        test.transport.script(target, [])
        let task = test.cache.getData(target)
        let transfer = try await test.transport.nextTransfer()
        transfer.hold(TransferResponse(headers: headers ?? fields, body: Self.whole.prefix(bytes)))
        task.cancel()
        #expect(await task.error == .cancelled)
        // The task ends before its transfer is broken off, maybe by another thread.
        await test.cache.engine.finishCarryingOut()
    }

    func partials(_ folder: TemporaryFolder) -> Int {
        folder.files.filter { $0.hasPrefix("partial/") }.count
    }

    @Test("a call after a cancel goes on from the bytes that are here", arguments: [false, true])
    func afterCancel(reopens: Bool) async throws {
        let folder = TemporaryFolder()
        var test = cache({ _ in }, folder)
        try await cancelHalfway(test, a, bytes: 30)
        if reopens {
            test = await test.reopened(folder)
            #expect(partials(folder) == 1)
        }
        test.transport.script(a, [.response(part(30..<100))])
        let task = reopens ? test.cache.slowGetData(a) : test.cache.getData(a)
        #expect(try await task.value == Self.whole)
        #expect(test.requests(a).last?["Range"] == "bytes=30-")
        await test.cache.synchronize()
        #expect(partials(folder) == 0, "what is complete leaves no beginning behind")
        test = await test.reopened(folder)
        #expect(try await test.cache.getData(a).response.source == .disk)
        await test.cache.shutdown()
    }

    @Test("shutting down keeps what has arrived")
    func afterShutdown() async throws {
        let folder = TemporaryFolder()
        var test = cache({ _ in }, folder)
        test.transport.script(a, [])
        let task = test.cache.getData(a)
        let transfer = try await test.transport.nextTransfer()
        transfer.hold(beginning(77))
        task.moveToSlowQueue()
        test.cache.getData(a)
        test = await test.reopened(folder)
        #expect(await task.error == .cancelled)
        test.transport.script(a, [.response(part(77..<100))])
        #expect(try await test.cache.getData(a).value == Self.whole)
        #expect(test.requests(a)[0]["Range"] == "bytes=77-")
        await test.cache.shutdown()
    }

    enum Removal: String, CaseIterable { case clear, remove, flush, limit }

    @Test("beginnings go with everything else", arguments: Removal.allCases)
    func removal(removal: Removal) async throws {
        let folder = TemporaryFolder()
        var test = cache({ $0.partialLimit = removal == .limit ? 25 : 1_000 }, folder)
        try await cancelHalfway(test, a, bytes: 30)
        await test.cache.synchronize()
        if removal != .limit { #expect(partials(folder) == 1) }
        switch removal {
        case .clear: test.cache.clear()
        case .remove: test.cache.removeData(for: a)
        case .flush: test.cache.flush(olderThan: .seconds(-1))
        case .limit: break
        }
        await test.cache.synchronize()
        #expect(partials(folder) == 0)
        test = await test.reopened(folder)
        test.transport.script(a, [.body(Self.whole)])
        #expect(try await test.cache.getData(a).value == Self.whole)
        #expect(test.requests(a)[0]["Range"] == nil)
        await test.cache.shutdown()
    }

    @Test("beginnings that are too much go, the oldest first, and after a week all of them")
    func bounds() async throws {
        let folder = TemporaryFolder()
        var test = cache({ $0.partialLimit = 3_000 }, folder)
        let big = Data(repeating: 1, count: 900)
        for number in 0..<12 {
            let target = url("p\(number)")
            test.transport.script(target, [])
            let task = test.cache.getData(target)
            let transfer = try await test.transport.nextTransfer()
            transfer.hold(TransferResponse(headers: ["ETag": "\"v\"", "Content-Length": "5000"], body: big))
            task.cancel()
            await test.cache.engine.finishCarryingOut()
            await test.cache.synchronize()
            let names = folder.files.filter { $0.hasPrefix("partial/") }
            let sizes = names.map { name -> Int in
                let attributes = try? FileManager.default.attributesOfItem(atPath: folder.url.path + "/" + name)
                return (attributes?[.size] as? Int) ?? 0
            }
            #expect(sizes.reduce(0, +) <= 3_000)
        }
        #expect(partials(folder) >= 1)
        test = await test.reopened(folder)
        test.date.advance(by: 7 * 86_400)
        test.transport.script(url("p11"), [.body(Data("x".utf8))])
        #expect(try await test.cache.getData(url("p11")).value == Data("x".utf8))
        #expect(test.requests(url("p11"))[0]["Range"] == nil)
        await test.cache.shutdown()
    }

    @Test("a damaged beginning counts as none")
    func damaged() async throws {
        let folder = TemporaryFolder()
        var test = cache({ _ in }, folder)
        try await cancelHalfway(test, a, bytes: 30)
        test = await test.reopened(folder)
        let name = try #require(folder.files.first { $0.hasPrefix("partial/") })
        let file = folder.url.appendingPathComponent(name)
        var bytes = try Data(contentsOf: file)
        bytes[3] ^= 1
        try bytes.write(to: file)
        test.transport.script(a, [.body(Self.whole)])
        #expect(try await test.cache.getData(a).value == Self.whole)
        #expect(test.requests(a)[0]["Range"] == nil)
        await test.cache.shutdown()
    }

    @Test("a call for memory alone leaves no beginning on disk")
    func memoryOnly() async throws {
        let folder = TemporaryFolder()
        let test = cache({ $0.cachePolicy = .memoryOnly }, folder)
        try await cancelHalfway(test, a, bytes: 30)
        await test.cache.synchronize()
        #expect(partials(folder) == 0)
        await test.cache.shutdown()
    }

    @Test("an answer that must not be stored leaves no beginning on disk")
    func noStore() async throws {
        let folder = TemporaryFolder()
        let test = cache({ _ in }, folder)
        try await cancelHalfway(
            test, a, bytes: 30, ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "no-store"])
        await test.cache.synchronize()
        #expect(partials(folder) == 0)
        await test.cache.shutdown()
    }

    @Test("an answer that has failed for good leaves no beginning that a success has made needless")
    func gone() async throws {
        let folder = TemporaryFolder()
        let test = cache({ _ in }, folder)
        test.transport.script(
            a,
            [
                .interrupted(beginning(30), .connectionLost),
                .interrupted(part(30..<50, "bytes 30-99/100"), .truncated), .body(Self.whole),
            ])
        #expect(try await test.cache.getData(a).value == Self.whole)
        await test.cache.synchronize()
        #expect(partials(folder) == 0)
        await test.cache.shutdown()
    }
}
