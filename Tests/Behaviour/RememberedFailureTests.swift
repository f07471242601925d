import TestSupport
import Testing

@Suite("Failures are remembered", .timeLimit(.minutes(2)))
struct RememberedFailureTests {
    private let a = url("a")

    private func count(_ test: TestCache, _ target: URL? = nil) -> Int {
        test.transport.transfers(of: target ?? a).count
    }

    @Test("for a minute, by default, and never retried; then the server is asked again", arguments: [true, false])
    func lasting(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil) {
            $0.retryPolicy = .custom { _ in .zero }
        }
        for status in [404, 405, 410, 414, 451] {
            let target = url("\(status)")
            test.transport.script(target, [.status(status), .text("back")])
            let request = DataRequest(target).with(\.retryPolicy, .default)
            let first = await test.cache.getData(request).error
            #expect(first?.status == status && first?.isRemembered == false)
            let task = test.cache.getData(target)
            let failures = task.failures()
            let again = await task.ending.error
            #expect(again == first && again?.isRemembered == true && again?.url == target, "\(status)")
            #expect(failures.value == ["fatal status \(status): remembered"])
            #expect(await test.cache.slowGetData(target).error?.isRemembered == true)
            #expect(count(test, target) == 1)
            test.date.advance(by: 61)
            #expect(try await test.ask(target) == "back from network")
        }
    }

    @Test("also after a restart and without a network", arguments: [0, 128 << 20])
    func restart(partialLimit: Int) async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.partialLimit = partialLimit }
        test.transport.script(a, [.status(404)])
        #expect(await test.cache.getData(a).error?.status == 404)
        await test.cache.idle()
        #expect(test.cache.diskCount == 0 && test.cache.diskSize == 0 && test.cache.memoryCount == 0)
        #expect(!test.cache.hasData(for: a))
        let reopened = await test.reopened()
        reopened.network.isUp = false
        let error = await reopened.cache.getData(a).error
        #expect(error?.status == 404 && error?.isRemembered == true && reopened.transport.transfers.isEmpty)
        #expect(await reopened.cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error == .notCached)
    }

    @Test("also beside an entry that is out of date, whose look-up finds both on disk", arguments: [true, false])
    func besideEntry(isReopened: Bool) async throws {
        var test = TestCache(folder: TemporaryFolder())
        try await test.keep("old", ["Cache-Control": "max-age=10"], for: a, age: 20)
        test.transport.script(a, [.status(403, ["Cache-Control": "max-age=600"])])
        #expect(await test.cache.getData(a).error?.isRemembered == false)
        if isReopened { test = await test.reopened() } else { test.cache.removeData(for: a, from: .memory) }
        #expect(test.cache.hasData(for: a, in: .disk) && !test.cache.hasData(for: a, in: .memory))
        test.transport.script(a, [.text("asked again")])
        let asked = count(test)
        #expect(await test.cache.getData(a).error?.isRemembered == true)
        #expect(count(test) == asked)
    }

    @Test(
        "as the server says, for an hour at most, or not at all",
        arguments: [
            (404, ["Cache-Control": "max-age=600"], 599, true), (404, ["Cache-Control": "max-age=600"], 601, false),
            (404, ["Cache-Control": "max-age=90000"], 3_599, true),
            (404, ["Cache-Control": "max-age=90000"], 3_601, false), (404, ["Cache-Control": "no-store"], 0, false),
            (404, ["Cache-Control": "max-age=0"], 0, false), (404, ["Cache-Control": "no-cache"], 0, false),
            (404, ["Expires": "0"], 0, false), (404, ["Vary": "*"], 0, false), (404, [:], 59, true),
            (403, [:], 0, false), (403, ["Cache-Control": "max-age=600"], 599, true), (400, [:], 0, false),
        ] as [(Int, HTTPHeaders, TimeInterval, Bool)])
    func server(status: Int, headers: HTTPHeaders, age: TimeInterval, isRemembered: Bool) async throws {
        let test = TestCache()
        test.transport.script(a, [.status(status, headers), .status(status)])
        #expect(await test.cache.getData(a).error?.isRemembered == false)
        test.date.advance(by: age)
        #expect(await test.cache.getData(a).error?.isRemembered == isRemembered)
    }

    @Test("for as long as a request or the cache says, or not at all")
    func options() async throws {
        let test = TestCache { $0.failureLifetime = .zero }
        test.transport.script(a, [.status(404)])
        for _ in 0..<2 { #expect(await test.cache.getData(a).error?.isRemembered == false) }
        let request = DataRequest(a).with(\.failureLifetime, .seconds(7_200))
        for isRemembered in [false, true] {
            #expect(await test.cache.getData(request).error?.isRemembered == isRemembered)
        }
        #expect(await test.cache.getData(a).error?.isRemembered == false)
        test.date.advance(by: 7_000)
        #expect(await test.cache.getData(request).error?.isRemembered == true)
        let immutable = request.with(\.freshness, .immutable()).with(\.key, "immutable")
        test.transport.script(a, [.status(404, ["Cache-Control": "no-store"])])
        for isRemembered in [false, true] {
            #expect(await test.cache.getData(immutable).error?.isRemembered == isRemembered)
        }
    }

    @Test("until a call of the network alone brings a success", arguments: [true, false])
    func success(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        test.transport.script(a, [.status(404), .text("back", ["Cache-Control": "max-age=10"])])
        #expect(await test.cache.getData(a).error?.status == 404)
        #expect(try await test.cache.getRemoteData(a).response.told == "back from network")
        test.date.advance(by: 20)
        test.transport.script(a, [.text("newer")])
        #expect(try await test.ask(a) == "newer from network")
        #expect(count(test) == 3)
    }

    @Test(
        "until a success, wherever that is kept",
        arguments: [(.bypass, true), (.bypass, false), (.memoryOnly, true)] as [(DataRequest.CachePolicy, Bool)])
    func unkept(policy: DataRequest.CachePolicy, hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        test.transport.script(a, [.status(404), .text("back"), .text("again")])
        #expect(await test.cache.getData(a).error?.status == 404)
        test.date.advance(by: 1)
        #expect(try await test.ask(DataRequest(a).with(\.cachePolicy, policy)) == "back from network")
        test.cache.clearMemory()
        #expect(try await test.ask(a) == "again from network")
    }

    @Test("a success that memory alone keeps is newer than the failure on disk")
    func memoryOnly() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(
            a, [.status(404), .text("back", ["Cache-Control": "max-age=10"]), .text("newer")])
        #expect(await test.cache.getData(a).error?.status == 404)
        test.date.advance(by: 1)
        _ = try await test.ask(DataRequest(a).with(\.cachePolicy, .memoryOnly))
        test.date.advance(by: 20)
        #expect(try await test.ask(a) == "newer from network")
    }

    @Test(
        "until the entry is removed, by its URL, its key, or with all others", arguments: [true, false],
        [
            { $0.removeData(for: url("a")) }, { $0.removeData(for: DataRequest(url("a"))) },
            { $0.invalidate(url("a")) }, { $0.clear() }, { $0.flush(olderThan: .zero - .seconds(1)) },
            { try? $0.addData(Data("mine".utf8), for: url("a")) },
        ] as [@Sendable (DataCache) -> Void])
    func removal(hasFolder: Bool, remove: @Sendable (DataCache) -> Void) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        test.transport.script(a, [.status(404), .text("back")])
        #expect(await test.cache.getData(a).error?.status == 404)
        #expect(await test.cache.getData(a).error?.isRemembered == true)
        remove(test.cache)
        #expect(try await test.cache.getData(a).value.count == 4)
    }

    @Test("a removal while the server is asked forgets the failure that comes")
    func removalUnderWay() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let (task, transfer) = try await test.begin(a)
        test.cache.removeData(for: a)
        transfer.finish(with: Data(), status: 404)
        #expect(await task.error?.status == 404)
        test.transport.script(a, [.text("back")])
        #expect(try await test.ask(a) == "back from network")
    }

    @Test(
        "a failure takes the place of no entry: what may be used without a network still is", arguments: [true, false])
    func entry(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        try await test.keep("good", ["Cache-Control": "max-age=10"], for: a, age: 20)
        test.transport.script(a, [.status(404)])
        for isRemembered in [false, true] {
            #expect(await test.cache.getData(a).error?.isRemembered == isRemembered)
        }
        #expect(count(test) == 2)
        #expect(try await test.ask(DataRequest(a).with(\.cachePolicy, .cacheOnly)).hasPrefix("good from "))
        #expect(await test.cache.data(for: a) == Data("good".utf8))
        test.network.isUp = false
        #expect(try await test.ask(a) == "good from stale")
    }

    @Test(
        "also of newer bytes: an answer that is out of date asks the server once, however often it is used",
        arguments: [true, false])
    func newer(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        let fields: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=1000"]
        test.transport.script(a, [.text("good", fields), .status(404), .text("back")])
        #expect(try await test.ask(a) == "good from network")
        for (wait, isRemembered) in [(20, false), (1, true), (1, true), (61, nil)] as [(TimeInterval, Bool?)] {
            test.date.advance(by: wait)
            let response = try await test.cache.getData(a).response
            #expect(response.source == .stale && response.data == Data("good".utf8))
            #expect(await response.revalidation?.error?.isRemembered == isRemembered)
        }
        #expect(count(test) == 3)
        #expect(try await test.ask(a).hasPrefix("back from "))
    }

    @Test(
        "of newer bytes, until what is on disk is removed: all of it, the entry by its URL or by its key",
        arguments: [
            { $0.clearDisk() }, { $0.removeData(for: url("a"), from: .disk) },
            { $0.removeData(for: DataRequest(url("a")), from: .disk) },
        ] as [@Sendable (DataCache) -> Void])
    func clearedDisk(clear: @Sendable (DataCache) -> Void) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let fields: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=1000"]
        test.transport.script(a, [.text("good", fields), .status(404)])
        #expect(try await test.ask(a) == "good from network")
        test.date.advance(by: 20)
        for isRemembered in [false, true] {
            let newer = try await test.cache.getData(a).response.revalidation
            #expect(await newer?.error?.isRemembered == isRemembered)
        }
        clear(test.cache)
        // One that comes after the removal, and was asked for before, is not remembered either.
        test.transport.script(a, [])
        let task = try #require(try await test.cache.getData(a).response.revalidation)
        let transfer = try await test.transport.nextTransfer()
        clear(test.cache)
        transfer.finish(with: Data(), status: 404)
        #expect(await task.error?.isRemembered == false)
        test.transport.script(a, [.text("back")])
        let newer = try await test.cache.getData(a).response.revalidation
        #expect(try await newer?.value == Data("back".utf8))
    }

    @Test("a failure that may pass gives way to an entry that may stand in for it")
    func standIn() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.retryPolicy = .never }
        try await test.keep("good", ["Cache-Control": "max-age=10"], for: a, age: 20)
        test.transport.script(a, [.status(503, ["Cache-Control": "max-age=600"])])
        for _ in 0..<2 { #expect(try await test.ask(a) == "good from stale") }
        #expect(count(test) == 2, "the second call has asked nobody")
        let b = url("b")
        test.transport.script(b, [.status(503, ["Cache-Control": "max-age=600"])])
        for isRemembered in [false, true] {
            #expect(await test.cache.getData(b).error?.isRemembered == isRemembered)
        }
    }

    @Test("each request with its own key, and each variant of a key, has its own failure")
    func variants() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.status(404, ["Vary": "Accept-Language"]), .text("de"), .text("account")])
        let english = DataRequest(a).with(\.key, "page").with(\.headers, ["Accept-Language": "en"])
        #expect(await test.cache.getData(english).error?.isRemembered == false)
        #expect(await test.cache.getData(english).error?.isRemembered == true)
        #expect(try await test.ask(english, ["Accept-Language": "de"]) == "de from network")
        let account = DataRequest(a).with(\.credentials, .basic(user: "ada", password: "secret", identity: "ada"))
        #expect(try await test.ask(account) == "account from network")
    }

    @Test("alternatives are asked at once, and a validation of the program's own judges anew")
    func alternatives() async throws {
        let test = TestCache()
        test.transport.script(a, [.status(404)])
        test.transport.script(url("b"), [.text("b")])
        #expect(await test.cache.getData(a).error?.status == 404)
        let request = DataRequest(a).with(\.alternatives, [.url(url("b"))]).with(\.cachePolicy, .memoryOnly)
        let response = try await test.cache.getData(request).response
        #expect(response.told == "b from network" && count(test) == 1)
        let lenient = DataRequest(url("c")).with(\.validation, ResponseValidation { _ in nil }).with(\.key, "c")
        test.transport.script(url("c"), [.status(404)])
        let plain = DataRequest(url("c")).with(\.key, "c")
        #expect(await test.cache.getData(plain).error?.status == 404)
        #expect(await test.cache.getData(plain).error?.isRemembered == true)
        #expect(try await test.cache.getData(lenient).response.status == 404)
    }

    @Test("pictures, values and prefetchers hear of it at once")
    func others() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.status(404)])
        #expect(await test.cache.getImage(a).error?.isRemembered == false)
        #expect(await test.cache.getImage(a).error?.isRemembered == true)
        #expect(await test.cache.data.getValue(Feed.self, from: a).error?.isRemembered == true)
        let prefetcher = ImagePrefetcher(test.cache, urls: [a])
        prefetcher.start()
        #expect(await prefetcher.value.failed.count == 1)
        #expect(test.transport.transfers.count == 1)
    }

    @Test("failures push no partial body and no entry out, and a partial body stays")
    func partialBodies() async throws {
        let test = TestCache(folder: TemporaryFolder()) {
            $0.partialLimit = 1_000
            $0.diskLimit = 20_000
        }
        try test.cache.addData(Data(count: 15_000), for: "kept")
        try await test.leave(Parts.beginning(50), of: a)
        let failing = (0..<1_100).map { number in
            test.transport.script(url("\(number)"), [.status(404)])
            return test.cache.getData(url("\(number)"))
        }
        for task in failing { #expect(await task.error?.status == 404) }
        await test.cache.idle()
        #expect(test.cache.hasData(for: "kept", in: .disk))
        #expect(try await test.nextFields(of: a)["Range"] == "bytes=50-")
        test.transport.script(a, [.status(404)])
        #expect(await test.cache.getData(a).error?.status == 404)
        test.transport.script(a, [])
        #expect(try await test.nextFields(of: a)["Range"] == "bytes=50-")
    }
}
