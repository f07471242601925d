import TestSupport
import Testing

@Suite("What one cache brings for others that share its folder", .timeLimit(.minutes(2)))
struct LeaseAnswerTests {
    private let folder = TemporaryFolder()
    private let date = ManualDate()
    private let a = url("a")
    private let b = url("b")

    private func cache(_ change: (inout DataCache.Configuration) -> Void = { _ in }) -> TestCache {
        TestCache(folder: folder, date: date, change)
    }

    private func images(_ change: (inout ImageCache.Configuration) -> Void = { _ in }) -> TestImageCache {
        TestImageCache(folder: folder, date: date, change)
    }

    /// Begins a fetch in the first cache, and calls for it in the others, which wait.
    private func begin(
        _ target: URL, in one: TestCache, _ others: TestCache...
    ) async throws -> (transfer: ScriptedTransfer, waiting: [DataTask]) {
        let (_, transfer) = try await one.begin(target)
        let waiting = others.map { $0.call(target, in: .fast) }
        for other in others { try await other.cache.waitForParked() }
        return (transfer, waiting)
    }

    private func finish(_ transfer: ScriptedTransfer, _ text: String, _ headers: HTTPHeaders = [:]) {
        transfer.finish(with: Data(text.utf8), headers: headers)
    }

    private func stored(_ key: URL, _ codec: (any RecordCodec)? = nil) -> String? {
        let reader = cache { $0.recordCodec = codec }
        return reader.cache.readData(for: key).map { String(decoding: $0, as: UTF8.self) }
    }

    // MARK: Removals

    @Test(
        "a call after a removal gets nothing that another cache has asked for before",
        arguments: [nil, .all, .disk, .shared] as [CacheTiers?])
    func removedBefore(tiers: CacheTiers?) async throws {
        let (one, two) = (cache(), cache())
        let (_, old) = try await one.begin(a)
        if let tiers { two.cache.removeData(for: a, from: tiers) } else { two.cache.clear() }
        let (second, new) = try await two.begin(a)
        finish(new, "new")
        #expect(try await second.response.told == "new from network")
        finish(old, "old")
        await one.cache.idle()
        date.advance(by: 31)
        let (transfer, waiting) = try await begin(b, in: one, two)
        finish(transfer, "b")
        #expect(try await waiting[0].response.told == "b from disk", "the removal is long ago")
    }

    @Test("a call that comes after a removal does not join a wait for what was asked for before")
    func removedMeanwhile() async throws {
        let (one, two) = (cache(), cache())
        let (old, _) = try await begin(a, in: one, two)
        two.cache.removeData(for: a)
        let third = two.call(a, in: .fast)
        finish(try await two.transport.nextTransfer(), "new")
        #expect(try await third.response.told == "new from network")
        finish(old, "old")
    }

    @Test("a picture that is asked for after a removal is not one of bytes from before")
    func removedPicture() async throws {
        let (one, two) = (images(), images())
        let request = ImageRequest(a).inverted
        let (first, old) = try await one.begin(request)
        date.advance(by: 1)
        two.cache.removeImage(for: a)
        let (second, new) = try await two.begin(request)
        date.advance(by: 1)
        new.finish(with: try Image.sample(5).png)
        #expect(try await second.value.width == 5)
        await two.cache.data.synchronize()
        date.advance(by: 1)
        old.finish(with: try Image.sample(3).png)
        #expect(try await first.value.width == 3)
        await one.cache.idle()
        let reader = images()
        #expect(try await reader.cache.getImage(request.with(\.cachePolicy, .cacheOnly)).value.width == 5)
    }

    private func redirect(_ first: ScriptedTransfer, in transport: ScriptedTransport) async throws -> ScriptedTransfer {
        first.finish(with: Data(), status: 302, headers: ["Location": b.absoluteString])
        return try await transport.nextTransfer()
    }

    @Test("nor what that cache had fetched from the removed URL after a redirect to it")
    func removedTarget() async throws {
        let (one, two) = (cache(), cache())
        let (_, first) = try await one.begin(a)
        let old = try await redirect(first, in: one.transport)
        two.cache.removeData(for: b)
        let second = two.call(a, in: .fast)
        try await two.cache.waitForParked()
        finish(old, "old")
        finish(try await two.transport.nextTransfer(), "new")
        #expect(try await second.response.told == "new from network")
    }

    @Test("nor a picture of what that cache had fetched there")
    func removedTargetOfPicture() async throws {
        let (one, two) = (images(), images())
        let request = ImageRequest(a).inverted
        let (_, first) = try await one.begin(request)
        let old = try await redirect(first, in: one.transport)
        two.cache.removeImage(for: b)
        let second = two.cache.getImage(request)
        try await two.clock.waitForSleepers(1)
        old.finish(with: try Image.sample(3).png)
        try await two.transport.nextTransfer().finish(with: try Image.sample(5).png)
        #expect(try await second.value.width == 5)
    }

    // MARK: The newest stays

    @Test("after a back-off an answer replaces what was stored meanwhile")
    func afterBackOff() async throws {
        let (one, two) = (cache { $0.retryPolicy = .fixed(.seconds(20), retries: 1) }, cache())
        let (_, transfer) = try await one.begin(a)
        transfer.finish(with: Data(), status: 503)
        try await one.cache.waitForParked()
        date.advance(by: 1)
        let other = two.cache.getRemoteData(a)
        finish(try await two.transport.nextTransfer(), "meanwhile")
        _ = try await other.value
        await two.cache.synchronize()
        date.advance(by: 20)
        let again = try await one.nextTransfer(after: .seconds(20))
        date.advance(by: 1)
        finish(again, "newer")
        await one.cache.idle()
        await one.cache.synchronize()
        #expect(stored(a) == "newer")
    }

    @Test("of calls that insist on the network, the answer stays that was asked for last", arguments: [true, false])
    func insisting(isLate: Bool) async throws {
        let caches = (0..<3).map { _ in cache() }
        var (tasks, transfers): ([DataTask], [ScriptedTransfer]) = ([], [])
        for test in caches {
            date.advance(by: 1)
            tasks.append(tasks.isEmpty ? test.call(a, in: .fast) : test.cache.getRemoteData(a))
            transfers.append(try await test.transport.nextTransfer())
        }
        // The second one was asked for before the third, and after the first.
        for number in isLate ? [2, 1, 0] : [0, 1] {
            date.advance(by: 1)
            finish(transfers[number], "\(number)")
            _ = try await tasks[number].value
            await caches[number].cache.idle()
            await caches[number].cache.synchronize()
        }
        #expect(stored(a) == (isLate ? "2" : "1"))
        if !isLate { tasks[2].cancel() }
    }

    @Test("of two answers that overlap, the one stays that the server has made last", arguments: [nil, AESCodec(1)])
    func overlapping(codec: AESCodec?) async throws {
        let (one, two) = (cache { $0.recordCodec = codec }, cache { $0.recordCodec = codec })
        let (first, transfer) = try await one.begin(a)
        date.advance(by: 1)
        let second = two.cache.getRemoteData(a)
        let other = try await two.transport.nextTransfer()
        date.advance(by: 10)
        // Made before both were asked for; the other one is as old as its request at most.
        finish(other, "older", ["Date": (date.now - 40).httpText])
        _ = try await second.value
        await two.cache.synchronize()
        date.advance(by: 1)
        finish(transfer, "newer", ["Date": date.now.httpText])
        _ = try await first.value
        await one.cache.synchronize()
        #expect(stored(a, codec) == "newer")
    }

    @Test("a picture that is written late does not replace one of newer bytes")
    func latePicture() async throws {
        let door = Door()
        let (one, two) = (images { $0.options.serializer = door.serializer }, images())
        let request = ImageRequest(a).inverted
        let (old, transfer) = try await one.begin(request)
        date.advance(by: 1)
        transfer.finish(with: try Image.sample(3).png)
        _ = try await old.value
        try await door.waitForArrivals(1)
        date.advance(by: 1)
        let (new, other) = try await two.begin(request.with(\.cachePolicy, .ignoreCache))
        date.advance(by: 1)
        other.finish(with: try Image.sample(5).png)
        _ = try await new.value
        await two.cache.idle()
        await two.cache.data.synchronize()
        door.stayOpen()
        await one.cache.idle()
        await one.cache.data.synchronize()
        let reader = images()
        #expect(try await reader.cache.getImage(request.with(\.cachePolicy, .cacheOnly)).value.width == 5)
    }

    // MARK: Failures

    @Test(
        "a failure that may be one cache's own is no failure of others, which all ask at once",
        arguments: [DipperError.timedOut, .tooManyRedirects, .addressRefused, .connectionFailed])
    func ownFailures(error: DipperError) async throws {
        let (one, two, three) = (cache { $0.retryPolicy = .never }, cache(), cache())
        let (transfer, waiting) = try await begin(a, in: one, two, three)
        transfer.fail(with: error)
        let both = [try await two.transport.nextTransfer(), try await three.transport.nextTransfer()]
        for transfer in both { finish(transfer, "here") }
        for task in waiting { #expect(try await task.response.told == "here from network") }
    }

    @Test("a signature that has expired is no failure of a picture that others ask for with theirs")
    func signatures() async throws {
        let (one, two) = (images { $0.data.keyRule = .signatures }, images { $0.data.keyRule = .signatures })
        let request = { (name: String) in ImageRequest(url("p?X-Amz-Signature=\(name)")).inverted }
        let (expired, transfer) = try await one.begin(request("1"))
        let second = two.cache.getImage(request("2"))
        try await two.clock.waitForSleepers(1)
        transfer.finish(with: Data(), status: 403)
        #expect(await expired.error?.status == 403)
        try await two.transport.nextTransfer().finish(with: try Image.sample(3).png)
        #expect(try await second.value.width == 3)
    }

    // MARK: Answers for all that wait

    @Test("an answer that must be confirmed each time answers all that waited for it, and nobody later")
    func noCache() async throws {
        let (one, two, three) = (cache(), cache(), cache())
        let (transfer, waiting) = try await begin(a, in: one, two, three)
        finish(transfer, "now", ["Cache-Control": "no-cache", "ETag": "\"1\""])
        for task in waiting { #expect(try await task.response.told == "now from disk") }
        #expect(two.transport.transfers.isEmpty && three.transport.transfers.isEmpty)
        let (later, again) = try await begin(a, in: two, three)
        #expect(later.request.headers["If-None-Match"] == "\"1\"")
        later.finish(with: Data(), status: 304, headers: ["ETag": "\"1\""])
        #expect(try await again[0].response.told == "now from memory", "one confirmation is enough")
        #expect(three.transport.transfers.isEmpty)
    }

    @Test("the answer to other header fields leaves a call that waits with its own entry, which is out of date")
    func variants() async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10", "Vary": "Accept-Language"]
        let (one, two) = (cache(), cache())
        func request(_ language: String) -> DataRequest {
            DataRequest(a).with(\.key, CacheKey("news")).with(\.headers, ["Accept-Language": language])
        }
        let first = two.cache.getData(request("en"))
        finish(try await two.transport.nextTransfer(), "old", headers)
        _ = try await first.value
        await two.cache.synchronize()
        date.advance(by: 20)
        let german = one.cache.getData(request("de"))
        let transfer = try await one.transport.nextTransfer()
        let english = two.cache.getData(request("en"))
        try await two.cache.waitForParked()
        finish(transfer, "neu", headers)
        #expect(try await german.response.told == "neu from network")
        finish(try await two.transport.nextTransfer(), "new", headers)
        #expect(try await english.response.told == "new from network")
    }

    @Test("an entry that is out of date is renewed once, and what memory has of it does not count")
    func renewals() async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=600"]
        let (one, two) = (cache(), cache())
        let (transfer, waiting) = try await begin(a, in: one, two)
        finish(transfer, "old", headers)
        _ = try await waiting[0].value
        await one.cache.synchronize()
        date.advance(by: 20)
        let stale = try await one.cache.getData(a).response
        let renewal = try await one.transport.nextTransfer()
        let other = try await two.cache.getData(a).response
        #expect([stale.told, other.told] == ["old from stale", "old from stale"])
        try await two.cache.waitForParked()
        finish(renewal, "new", headers)
        #expect(try await other.revalidation?.response.told == "new from disk")
        #expect(two.transport.transfers.isEmpty)
        #expect(try await two.cache.getData(a).response.told == "new from memory")
    }

    @Test("a cache whose memory is out of date takes what another has stored, without a request")
    func newerOnDisk() async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10"]
        let (one, two) = (cache(), cache())
        let (transfer, waiting) = try await begin(a, in: one, two)
        finish(transfer, "old", headers)
        _ = try await waiting[0].value
        await one.cache.synchronize()
        date.advance(by: 20)
        let (newer, again) = try await one.begin(a)
        finish(again, "new", headers)
        _ = try await newer.value
        await one.cache.synchronize()
        #expect(try await two.cache.getData(a).response.told == "new from disk")
        #expect(two.transport.transfers.isEmpty)
    }

    @Test("a picture of bytes that must be confirmed each time is made once for all that wait")
    func noCachePicture() async throws {
        let caches = (0..<3).map { _ in images() }
        let request = ImageRequest(a).inverted
        let (first, transfer) = try await caches[0].begin(request)
        let others = caches.dropFirst().map { $0.cache.getImage(request) }
        for test in caches.dropFirst() { try await test.clock.waitForSleepers(1) }
        transfer.finish(with: try Image.sample(3).png, headers: ["Cache-Control": "no-cache"])
        for (number, task) in ([first] + others).enumerated() {
            let requests = caches.map(\.transport.transfers.count)
            #expect(try await task.value(within: .seconds(20)).width == 3, "\(number): \(requests)")
        }
        #expect(caches.reduce(0) { $0 + $1.transport.transfers.count } == 1)
    }

    // MARK: Limits

    @Test("the wait for a picture and its transfer have one time limit together")
    func timeLimit() async throws {
        let (one, two) = (images(), images())
        let request = ImageRequest(a).inverted
        let (first, _) = try await one.begin(request)
        let second = two.cache.getImage(request.with(\.timeout, .seconds(3)))
        try await two.clock.wake(after: .seconds(2))
        first.cancel()
        _ = try await two.transport.nextTransfer()
        two.clock.advance(by: .seconds(1))
        #expect(await second.error == .timedOut)
    }

    @Test("a picture whose bytes do not flow is waited for no longer than bytes that do not flow")
    func patience() async throws {
        let (one, two) = (images(), images())
        let request = ImageRequest(a).inverted
        let (_, silent) = try await one.begin(request)
        let second = two.cache.getImage(request)
        try await two.clock.wake(after: .seconds(4))
        // The holder tells that it is alive.
        try await one.clock.wake()
        for _ in 0..<10 { _ = (one.cache.data.queueCounts, two.cache.data.queueCounts) }
        two.clock.advance(by: .seconds(1))
        // Then the bytes have the same patience.
        try await two.cache.data.waitForParked()
        try await two.clock.wake(after: .seconds(5))
        try await two.transport.nextTransfer().finish(with: try Image.sample(3).png)
        #expect(try await second.value.width == 3)
        silent.fail(with: .connectionLost)
    }

    @Test("a service that never answers holds a fetch up for the patience, and its slot as long")
    func silentService() async throws {
        let test = cache { $0.leases.services = [SilentService()] }
        let task = test.call(a, in: .fast)
        let transfer = try await test.whileClockRuns { try await test.transport.nextTransfer() }
        finish(transfer, "bytes")
        #expect(try await task.response.told == "bytes from network")
    }

    // MARK: The folder

    @Test("when the folder is removed, nobody waits for a cache that still has the old one")
    func removedFolder() async throws {
        let (one, two) = (cache(), cache())
        let (_, waiting) = try await begin(a, in: one, two)
        try FileManager.default.removeItem(at: folder.url)
        try two.cache.addData(Data("b".utf8), for: b)
        finish(try await two.transport.nextTransfer(), "here")
        #expect(try await waiting[0].response.told == "here from network")
    }

    @Test("a cache that opens its index again stays the same member")
    func reopened() async throws {
        let one = cache()
        let leases = folder.url.appendingPathComponent("leases").path
        #expect(try FileManager.default.contentsOfDirectory(atPath: leases).sorted() == ["0", "locks"])
        // As another process does that has found the index damaged.
        try folder.place(Data(), at: "index-2.sqlite")
        try one.cache.addData(Data("b".utf8), for: b)
        await one.cache.synchronize()
        #expect(try FileManager.default.contentsOfDirectory(atPath: leases).sorted() == ["0", "locks"])
        #expect(stored(b) == "b")
        let (_, transfer) = try await one.begin(a)
        finish(transfer, "a")
        await one.cache.idle()
    }
}

private struct SilentService: LeaseService {
    final class Claim: LeaseClaim {
        func take(_ place: LeasePlace, since lookedUp: Date) {}
        func watch(in queue: FetchQueue) {}
        func tell(_ news: LeaseNews) {}
        func end(_ outcome: LeaseNews) {}
    }

    let name = "silent"
    let placesExpire = true
    func claim(_ key: CacheKey, _ report: @escaping @Sendable (LeaseEvent) -> Void) -> any LeaseClaim { Claim() }
}
