import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The data cache over a scripted transport", .timeLimit(.minutes(5)))
struct DataCacheTests {
    let bytes = Data("some bytes".utf8)

    @Test("a get fetches once, and memory answers from then on")
    func getAndHit() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(bytes)])
        #expect(try await test.cache.getData(url("a")).value == bytes)
        let again = try await test.cache.getData(url("a")).response
        #expect(again.data == bytes)
        #expect(again.source == .memory)
        #expect(again.attempts == 0)
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.data(for: url("a")) == bytes)
        #expect(test.cache.hasData(for: url("a")))
        await test.cache.shutdown()
    }

    @Test("however many ask, from both queues and in either order, there is one request")
    func oneRequest() async throws {
        let test = TestCache()
        let tasks = (0..<20).map { number in
            number % 3 == 0 ? test.cache.slowGetData(url("a")) : test.cache.getData(url("a"))
        }
        let transfer = try await test.transport.nextTransfer()
        transfer.finish(with: bytes)
        for task in tasks { #expect(try await task.value == bytes) }
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("concurrent first asks from many threads make one request, and every closure is called once")
    func concurrentAsks() async throws {
        let test = TestCache { $0.callbackQueue = nil }
        test.transport.script(url("a"), [.body(bytes)])
        let calls = Box(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    let task = test.cache.getData(url("a")).then { _ in calls.update { $0 += 1 } }
                    _ = try? await task.value
                }
            }
        }
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
        let last = test.cache.getData(url("other"))  // its closure runs behind the others on the serial queue
        await withCheckedContinuation { continuation in last.onEnd { _ in continuation.resume() } }
        // A thread that has ended tasks may yet have to hand their closures to the queue.
        #expect(await settle { calls.value == 50 })
    }

    @Test("an urgent ask for a queued prefetch makes no second request; a demotion restarts nothing")
    func promoteAndDemote() async throws {
        let test = TestCache()
        let first = test.cache.slowGetData(url("first"))
        let queued = test.cache.slowGetData(url("a"))
        let urgent = test.cache.getData(url("a"))
        let firstTransfer = try await test.transport.nextTransfer()
        let transfer = try await test.transport.nextTransfer()
        #expect(await settle { firstTransfer.isThrottled })
        #expect(await settle { transfer.queue == .fast })
        test.cache.moveTaskToSlowQueue(url("a"))
        #expect(await settle { transfer.queue == .slow })
        #expect(urgent.queue == .slow)
        #expect(await settle { !firstTransfer.isThrottled })
        #expect(await settle { transfer.isThrottled }, "its turn comes after the one that was there")
        let seen = Box(0)
        urgent.onProgress { progress in seen.update { $0 = progress.received } }
        firstTransfer.finish(with: Data())
        #expect(await settle { !transfer.isThrottled })
        transfer.send(progress: 10, of: 10)
        transfer.finish(with: bytes)
        #expect(try await urgent.value == bytes)
        #expect(try await queued.value == bytes)
        #expect(await settle { seen.value == 10 })
        _ = try await first.value
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("a running prefetch is throttled while urgent work is on the network, and goes on after")
    func throttling() async throws {
        let test = TestCache()
        let slow = test.cache.slowGetData(url("slow"))
        let slowTransfer = try await test.transport.nextTransfer()
        #expect(slow.state == .transferring)
        let urgent = test.cache.getData(url("urgent"))
        let urgentTransfer = try await test.transport.nextTransfer()
        #expect(await settle { slowTransfer.isThrottled })
        #expect(slow.state == .paused)
        urgentTransfer.finish(with: bytes)
        _ = try await urgent.value
        #expect(await settle { !slowTransfer.isThrottled })
        slowTransfer.finish(with: bytes)
        #expect(try await slow.value == bytes)
        await test.cache.shutdown()
    }

    // MARK: Keys

    @Test("headers are part of the key: one user's data is never served to another")
    func headersAreIdentity() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let alice = DataRequest(url("me")).with(\.headers, ["Authorization": "alice"])
        let bob = DataRequest(url("me")).with(\.headers, ["Authorization": "bob"])
        let a = test.cache.getData(alice)
        let b = test.cache.getData(bob)
        for _ in 0..<2 {
            let transfer = try await test.transport.nextTransfer()
            transfer.finish(with: Data(transfer.request.headers["authorization"]!.utf8))
        }
        #expect(try await a.value == Data("alice".utf8))
        #expect(try await b.value == Data("bob".utf8))
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.data(for: alice) == Data("alice".utf8))
        #expect(test.cache.data(for: bob) == Data("bob".utf8))
        #expect(test.cache.data(for: url("me")) == nil)
        await test.cache.shutdown()
    }

    @Test("the key has no fragment, and header names and order do not matter")
    func canonicalKeys() {
        #expect(CacheKey(URL(string: "http://h/a#x")!) == CacheKey(URL(string: "http://h/a")!))
        let one = CacheKey(url("a"), headers: ["Accept": "x", "B": "y"])
        #expect(one == CacheKey(url("a"), headers: ["b": "y", "ACCEPT": "x"]))
        #expect(one != CacheKey(url("a"), headers: ["accept": "xb1:y"]))
        #expect(one != CacheKey(url("a")))
    }

    @Test("a key of one's own is used in place of the default one")
    func ownKey() async throws {
        let test = TestCache()
        let request = DataRequest(url("signed?token=1")).with(\.key, "photo")
        let task = test.cache.getData(request)
        try await test.transport.nextTransfer().finish(with: bytes)
        _ = try await task.value
        #expect(test.cache.data(for: "photo") == bytes)
        #expect(test.cache.data(for: url("signed?token=1")) == nil)
        await test.cache.shutdown()
    }

    // MARK: Bad input

    @Test(
        "what cannot be fetched ends at once with its own error",
        arguments: [
            (DataRequest(string: ""), DipperError.invalidURL),
            (DataRequest(string: "no url"), .invalidURL),
            (DataRequest(string: "http://"), .invalidURL),
            (DataRequest(string: "/relative"), .invalidURL),
            (DataRequest(string: "file:///etc/passwd"), .unsupportedScheme),
            (DataRequest(string: "ftp://host/a"), .unsupportedScheme),
            (DataRequest(url("a")).with(\.key, ""), .emptyKey),
            (DataRequest(url("a")).with(\.headers, ["A": "b\r\nC: d"]), .invalidHeader),
            (DataRequest(url("a")).with(\.headers, ["": "b"]), .invalidHeader),
        ])
    func defects(request: DataRequest, expected: DipperError) async {
        let test = TestCache()
        let heard = Box<[DipperError]>([])
        let task = test.cache.getData(request).onFail { error, isFatal in
            if isFatal { heard.update { $0.append(error) } }
        }
        #expect(await task.error == expected)
        #expect(await settle { heard.value == [expected] })
        #expect(await test.cache.slowGetData(request).error == expected)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("an empty key deletes nothing and stores nothing")
    func emptyKey() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(bytes, for: "kept")
        test.cache.removeData(for: CacheKey(""))
        #expect(throws: DipperError.emptyKey) { try test.cache.addData(bytes, for: CacheKey("")) }
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.data(for: "kept") == bytes)
        await test.cache.shutdown()
    }

    // MARK: Policies

    @Test("each policy reads and keeps where it says", arguments: DataRequest.CachePolicy.allCases)
    func policies(policy: DataRequest.CachePolicy) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let old = Data("old".utf8)
        let new = Data("new".utf8)
        try await test.cache.addDataAndWait(old, for: CacheKey(url("disk")))
        test.cache.clearMemory()
        try test.cache.addData(old, for: url("memory"))
        for name in ["disk", "memory", "absent"] { test.transport.script(url(name), [.body(new)]) }
        func get(_ name: String) async -> Result<DataResponse, DipperError> {
            do throws(DipperError) {
                return .success(
                    try await test.cache.getData(DataRequest(url(name)).with(\.cachePolicy, policy)).response)
            } catch { return .failure(error) }
        }
        let disk = await get("disk"), memory = await get("memory"), absent = await get("absent")
        switch policy {
        case .useCache:
            #expect(try disk.get().source == .disk && memory.get().source == .memory && absent.get().data == new)
        case .memoryOnly, .fromMemoryOrRefresh:
            #expect(try disk.get().data == new && memory.get().source == .memory && absent.get().data == new)
        case .cacheOnly:
            #expect(try disk.get().source == .disk && memory.get().source == .memory)
            #expect(throws: DipperError.notCached) { try absent.get() }
            #expect(test.transport.transfers.isEmpty)
        case .ignoreCache, .bypass:
            #expect(try disk.get().data == new && memory.get().data == new && absent.get().data == new)
        }
        await test.cache.synchronize()
        test.cache.clearMemory()
        let kept = test.cache.data(for: url("absent"))
        #expect(kept == ([.memoryOnly, .cacheOnly, .bypass].contains(policy) ? nil : new))
        await test.cache.shutdown()
    }

    @Test("a remote get skips the cache and stores what it gets")
    func remote() async throws {
        let test = TestCache()
        try test.cache.addData(Data("old".utf8), for: url("a"))
        test.transport.script(url("a"), [.body(bytes)])
        #expect(try await test.cache.getRemoteData(url("a")).value == bytes)
        #expect(test.cache.data(for: url("a")) == bytes)
        await test.cache.shutdown()
    }

    @Test("what expires at once is handed out and not kept")
    func expiredAtOnce() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(url("a"), [.body(bytes)])
        let request = DataRequest(url("a")).with(\.diskExpiration, .expired)
        #expect(try await test.cache.getData(request).value == bytes)
        #expect(test.cache.data(for: url("a")) == nil)
        await test.cache.shutdown()
    }

    @Test("entries expire in memory and on disk, and accesses extend their life if asked to")
    func expirations() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try test.cache.addData(bytes, for: DataRequest(url("plain")).with(\.diskExpiration, .seconds(100)))
        try test.cache.addData(
            bytes,
            for: DataRequest(url("extended")).with(\.diskExpiration, .seconds(100))
                .with(\.diskAccessExtension, .cacheTime).with(\.memoryAccessExtension, .cacheTime))
        await test.cache.synchronize()
        for _ in 0..<3 {
            test.date.advance(by: 60)
            #expect(test.cache.data(for: url("extended")) == bytes)
            test.cache.clearMemory()
            #expect(test.cache.data(for: url("extended")) == bytes, "from disk")
        }
        #expect(test.cache.data(for: url("plain")) == nil)
        #expect(!test.cache.hasData(for: url("plain")))
        test.date.advance(by: 101)
        #expect(test.cache.data(for: url("extended")) == nil)
        await test.cache.shutdown()
    }
}
