import TestSupport
import Testing

@Suite("All that belongs to a URL can be removed, by the URL alone", .timeLimit(.minutes(2)))
struct URLRemovalTests {
    private static let a = url("a")
    private static let b = url("b")

    /// Requests for one URL under different keys, by the names of what distinguishes them.
    private static let requests: KeyValuePairs<String, DataRequest> = [
        "plain": DataRequest(a),
        "header fields": DataRequest(a).with(\.headers, ["Accept-Language": "de"]),
        "account": DataRequest(a).with(\.credentials, .basic(user: "ada", password: "secret", identity: "ada")),
        "user in the URL": DataRequest(URL(string: "http://ada:secret@host.test/a")!),
        "own key": DataRequest(a).with(\.key, "front page"),
        "own key and header fields": DataRequest(a).with(\.key, "page").with(\.headers, ["Accept": "text/plain"]),
    ]
    private var other: DataRequest { DataRequest(url("ab")).with(\.headers, ["Accept-Language": "de"]) }

    private func fill(_ cache: DataCache, _ transport: ScriptedTransport, redirects: Bool = false) async throws {
        for request in Self.requests.map(\.value) + [other] {
            if let url = request.url, !redirects || url == other.url { transport.script(url, [.text("1")]) }
            _ = try await cache.getData(request).value
        }
        await cache.idle()
    }

    @Test(
        "whatever header fields, account or key it was fetched with, at once for readers; other URLs keep theirs",
        arguments: [CacheTiers.all, .memory, .disk])
    func entries(tiers: CacheTiers) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try await fill(test.cache, test.transport)
        #expect(test.cache.diskCount == 7 && test.cache.memoryCount == 7)
        test.cache.removeData(for: Self.a, from: tiers)
        for (name, request) in Self.requests {
            #expect(test.cache.hasData(for: request, in: .memory) == !tiers.contains(.memory), "\(name)")
            #expect(test.cache.hasData(for: request, in: .disk) == !tiers.contains(.disk), "\(name)")
            #expect(await (test.cache.data(for: request, in: .disk) == nil) == tiers.contains(.disk), "\(name)")
        }
        var listed = 0
        test.cache.forEachEntry { _ in listed += 1 }
        #expect(listed == (tiers.contains(.disk) ? 1 : 7))
        await test.cache.synchronize()
        #expect(test.cache.diskCount == listed)
        #expect(test.cache.memoryCount == (tiers.contains(.memory) ? 1 : 7))
        #expect(test.cache.readData(for: other) == Data("1".utf8))
        let reopened = await test.reopened()
        for (name, request) in Self.requests {
            #expect(reopened.cache.hasData(for: request) == !tiers.contains(.disk), "\(name)")
        }
    }

    @Test("what is stored and not written yet is not written any more")
    func unwritten() async throws {
        let test = TestCache(folder: TemporaryFolder())
        for (_, request) in Self.requests { try test.cache.addData(Data(count: 20_000), for: request) }
        test.cache.removeData(for: Self.a)
        try test.cache.addData(Data("new".utf8), for: Self.requests[4].value)
        for (name, request) in Self.requests where name != "own key" {
            #expect(!test.cache.hasData(for: request), "\(name)")
        }
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 1)
        test.cache.clearMemory()
        #expect(test.cache.readData(for: "front page") == Data("new".utf8))
    }

    @Test("what is being fetched is handed out and not kept, and later calls do not join it", arguments: [true, false])
    func underWay(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        for (name, request) in Self.requests {
            let (task, transfer) = try await test.begin(request)
            let (others, othersTransfer) = try await test.begin(other)
            test.cache.removeData(for: Self.a)
            let (later, laterTransfer) = try await test.begin(request)
            transfer.finish(with: Data("old".utf8))
            othersTransfer.finish(with: Data("other".utf8))
            #expect(try await task.value == Data("old".utf8), "\(name)")
            _ = try await others.value
            #expect(!test.cache.hasData(for: request), "\(name)")
            laterTransfer.finish(with: Data("new".utf8))
            #expect(try await later.value == Data("new".utf8), "\(name)")
            await test.cache.idle()
            #expect(test.cache.readData(for: request) == Data("new".utf8) && test.cache.hasData(for: other), "\(name)")
            test.cache.removeData(for: other)
        }
    }

    @Test("a part of an interrupted download is not continued after it", arguments: [true, false])
    func partial(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        for (name, request) in Self.requests.filter({ $0.key != "user in the URL" }) {
            for removes in [false, true] {
                let (task, transfer) = try await test.begin(request)
                transfer.hold(Parts.beginning(60))
                task.cancel()
                #expect(await task.error == .cancelled)
                await test.cache.idle()
                _ = test.cache.queueCounts
                if removes { test.cache.removeData(for: Self.a) }
                let (again, next) = try await test.begin(request)
                #expect((next.request.headers["Range"] == nil) == removes, "\(name)")
                again.cancel()
                #expect(await again.error == .cancelled)
                if !removes { test.cache.removeData(for: request) }
            }
        }
    }

    @Test("a change on the server makes all entries of its URL out of date (RFC 9111, section 4.4)")
    func invalidation() async throws {
        let test = TestCache(folder: TemporaryFolder())
        try await fill(test.cache, test.transport)
        test.transport.script(Self.a, [.text("2")])
        test.transport.script(Self.requests[3].value.url!, [.text("2")])
        test.cache.invalidate(url("form"), after: ["Content-Location": "/a"])
        for (name, request) in Self.requests {
            #expect(try await test.ask(request) == "2 from network", "\(name)")
        }
        #expect(try await test.ask(other) == "1 from memory")
    }

    @Test("values that were decoded from its entries are gone too")
    func values() async throws {
        let test = TestCache()
        let request = DataRequest(Self.a).with(\.key, "numbers")
        test.transport.script(Self.a, [.text("[1]"), .text("[2]")])
        #expect(try await test.cache.getValue([Int].self, from: request).value == [1])
        test.cache.removeData(for: Self.a)
        #expect(test.cache.valueMemorySize == 0)
        #expect(try await test.cache.getValue([Int].self, from: request).value == [2])
    }

    @Test("by a request or a key one entry goes, and the others of the URL stay")
    func oneEntry() async throws {
        let test = TestCache(folder: TemporaryFolder())
        try await fill(test.cache, test.transport)
        let names = ["plain", "header fields", "own key"]
        for (count, name) in names.enumerated() {
            let request = try #require(Self.requests.first { $0.key == name }?.value)
            if name == "own key" {
                test.cache.removeData(for: "front page")
            } else {
                test.cache.removeData(for: request)
            }
            #expect(!test.cache.hasData(for: request))
            await test.cache.synchronize()
            #expect(test.cache.diskCount == 6 - count && test.cache.memoryCount == 6 - count, "\(name)")
        }
    }

    // MARK: Redirects

    private static let target = URL(string: "http://elsewhere.test/b")!

    private func redirect(_ transport: ScriptedTransport, to step: ScriptedTransport.Step? = nil) {
        for request in Self.requests.map(\.value) {
            if let url = request.url { transport.script(url, [.redirect(Self.target.absoluteString)]) }
        }
        if let step { transport.script(Self.target, [step]) }
    }

    @Test(
        "so is what came from another URL after a redirect: by the URL that was asked for, and by the other one",
        arguments: [a, target], [CacheTiers.all, .memory, .disk])
    func redirected(removed: URL, tiers: CacheTiers) async throws {
        let test = TestCache(folder: TemporaryFolder())
        redirect(test.transport, to: .text("1"))
        try await fill(test.cache, test.transport, redirects: true)
        #expect(test.cache.diskCount == 7 && test.cache.memoryCount == 7)
        #expect(test.cache.entry(for: CacheKey(Self.a))?.url == Self.target.absoluteString)
        test.cache.removeData(for: Self.b, from: tiers)
        #expect(test.cache.memoryCount == 7)
        test.cache.removeData(for: removed, from: tiers)
        for (name, request) in Self.requests {
            #expect(test.cache.hasData(for: request, in: .memory) == !tiers.contains(.memory), "\(name)")
            #expect(test.cache.hasData(for: request, in: .disk) == !tiers.contains(.disk), "\(name)")
        }
        await test.cache.synchronize()
        #expect(test.cache.diskCount == (tiers.contains(.disk) ? 1 : 7))
        let reopened = await test.reopened()
        for (name, request) in Self.requests {
            #expect((reopened.cache.readData(for: request) != nil) == !tiers.contains(.disk), "\(name)")
        }
        // What was read from disk is found as well.
        reopened.cache.removeData(for: removed)
        #expect(reopened.cache.memoryCount == 0)
        await reopened.cache.synchronize()
        #expect(reopened.cache.diskCount == 1 && reopened.cache.readData(for: other) == Data("1".utf8))
    }

    /// Has a transfer redirected to the target, and returns the one that follows.
    private func redirect(_ first: ScriptedTransfer, in transport: ScriptedTransport) async throws -> ScriptedTransfer {
        first.finish(with: Data(), status: 302, headers: ["Location": Self.target.absoluteString])
        return try await transport.nextTransfer()
    }

    @Test(
        "what is being fetched after a redirect is not kept, nor joined, whichever of its URLs goes",
        arguments: [a, target])
    func redirectedUnderWay(removed: URL) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let (task, first) = try await test.begin(DataRequest(Self.a))
        let transfer = try await redirect(first, in: test.transport)
        test.cache.removeData(for: removed)
        let (later, again) = try await test.begin(DataRequest(Self.a))
        transfer.finish(with: Data("old".utf8))
        #expect(try await task.value == Data("old".utf8))
        #expect(!test.cache.hasData(for: Self.a))
        let new = try await redirect(again, in: test.transport)
        new.finish(with: Data("new".utf8))
        #expect(try await later.value == Data("new".utf8))
        await test.cache.idle()
        #expect(test.cache.readData(for: Self.a) == Data("new".utf8))
    }

    @Test("pictures of what is being fetched after a redirect are not kept either", arguments: [a, target])
    func redirectedPicturesUnderWay(removed: URL) async throws {
        // Without a folder, so that all have joined the fetch before the removal.
        let test = TestImageCache()
        let request = ImageRequest(Self.a)
        let (task, first) = try await test.begin(request)
        let other = test.cache.getImage(request.inverted)
        let transfer = try await redirect(first, in: test.transport)
        let late = test.cache.getImage(request.processed(by: Inverting("late")))
        _ = test.cache.data.queueCounts
        test.cache.removeImage(for: removed)
        transfer.finish(with: try Image.sample().png)
        _ = (try await task.value, try await other.value, try await late.value)
        await test.expectEmpty()
    }

    @Test("nor are pictures of newer bytes that come after a redirect", arguments: [a, target])
    func redirectedRenewal(removed: URL) async throws {
        let test = TestImageCache()
        let request = ImageRequest(Self.a)
        let (task, first) = try await test.begin(request)
        first.finish(
            with: try Image.sample().png, headers: ["Cache-Control": "max-age=60, stale-while-revalidate=600"])
        _ = try await task.value
        test.date.advance(by: 100)
        let revalidation = try #require(try await test.cache.getImage(request).response.revalidation)
        let transfer = try await redirect(test.transport.nextTransfer(), in: test.transport)
        test.cache.removeImage(for: removed)
        let newer = Image.sample(seed: 66)
        transfer.finish(with: try newer.png)
        #expect(try await revalidation.value.pixels == newer.pixels)
        await test.cache.idle()
        #expect(test.cache.readImage(for: Self.a)?.pixels != newer.pixels)
    }

    @Test("an answer after a redirect, of an alternative or of a provider that is not written yet stays unwritten")
    func redirectedUnwritten() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(Self.a, [.redirect(Self.target.absoluteString)])
        test.transport.script(Self.target, [.text("1")])
        test.transport.script(url("down"), [.status(404)])
        let down = DataRequest(url("down")).with(\.key, "own")
        let provider = CustomProvider(key: CacheKey(url("provided"))) { Data("1".utf8) }
        let requests: [(URL, DataRequest)] = [
            (Self.a, DataRequest(Self.a).with(\.key, "own")),
            (url("down"), down.with(\.alternatives, [.url(Self.target)])),
            (url("down"), down.with(\.alternatives, [.provider(provider)])),
            (url("provided"), DataRequest(provider)),
        ]
        for (url, request) in requests {
            let value = try await test.cache.getData(request).value
            #expect(value == Data("1".utf8) && test.cache.hasData(for: request))
            test.cache.removeData(for: url)
            #expect(!test.cache.hasData(for: request), "\(request)")
            await test.cache.idle()
            #expect(test.cache.diskCount == 0 && test.cache.memoryCount == 0)
        }
    }

    @Test("a part of a download that was interrupted after a redirect is not continued", arguments: [true, false])
    func redirectedPartial(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        redirect(test.transport)
        for (name, request) in Self.requests.filter({ $0.key != "user in the URL" }) {
            for removes in [false, true] {
                let (task, transfer) = try await test.begin(request)
                transfer.hold(Parts.beginning(60))
                task.cancel()
                #expect(await task.error == .cancelled)
                await test.cache.idle()
                _ = test.cache.queueCounts
                if removes { test.cache.removeData(for: Self.a) }
                let (again, next) = try await test.begin(request)
                #expect((next.request.headers["Range"] == nil) == removes, "\(name)")
                again.cancel()
                #expect(await again.error == .cancelled)
                if !removes { test.cache.removeData(for: request) }
            }
        }
    }

    @Test(
        "pictures of redirected URLs and processed ones are gone, from the tiers that are named",
        arguments: [false, true])
    func redirectedPictures(isReopened: Bool) async throws {
        var test = TestImageCache(folder: TemporaryFolder())
        redirect(test.transport)
        try test.script(Self.target, .sample())
        for request in Self.pictures { try await test.load(request) }
        #expect(test.cache.data.diskCount == 12 && test.cache.memoryCount == 12)
        if isReopened {
            test = await test.reopened()
            for request in Self.pictures { #expect(test.cache.readImage(for: request) != nil, "\(request)") }
        }
        test.cache.removeImage(for: Self.a, from: .memory)
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0)
        for request in Self.pictures { #expect(test.cache.cachedSource(for: request) == .disk, "\(request)") }
        test.cache.removeImage(for: Self.a)
        for request in Self.pictures { #expect(!test.cache.hasImage(for: request), "\(request)") }
        await test.expectEmpty()
    }

    @Test("what the program has added under the key of a URL is gone too", arguments: [CacheTiers.memory, .disk])
    func addedUnderKey(tiers: CacheTiers) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let keys = [CacheKey(Self.a), CacheKey(Self.a, headers: ["Accept": "text/plain"])]
        for key in keys + [CacheKey(url("ab")), "a"] { try await test.cache.addDataAndWait(Data("1".utf8), for: key) }
        test.cache.removeData(for: Self.a, from: tiers)
        for key in keys { #expect(!test.cache.hasData(for: key, in: tiers), "\(key)") }
        await test.cache.synchronize()
        #expect(test.cache.diskCount == (tiers == .disk ? 2 : 4) && test.cache.memoryCount == (tiers == .disk ? 4 : 2))
    }

    // MARK: Pictures

    private static let pictures: [ImageRequest] = requests.map { ImageRequest($0.value) }.flatMap { [$0, $0.inverted] }

    @Test("so are pictures, processed ones and those that wait to be written, from the tiers that are named")
    func pictures() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        for request in Self.pictures {
            if let url = request.url { try test.script(url, .sample()) }
            try await test.load(request)
        }
        let others = ImageRequest(url("b")).with(\.key, "b").inverted
        try test.script(url("b"), .sample())
        try await test.load(others)
        test.cache.removeImage(for: Self.a, from: .memory)
        #expect(test.cache.memoryCount == 1 && test.cache.cachedSource(for: others) == .memory)
        for request in Self.pictures { #expect(test.cache.cachedSource(for: request) == .disk, "\(request)") }
        for request in Self.pictures { #expect(test.cache.readImage(for: request) != nil, "\(request)") }
        let added = ImageRequest(Self.a).with(\.key, "added")
        try test.cache.addImage(.sample(), for: added)
        test.cache.removeImage(for: Self.a)
        for request in Self.pictures + [added] { #expect(!test.cache.hasImage(for: request), "\(request)") }
        await test.cache.synchronize()
        #expect(test.cache.data.diskCount == 2 && test.cache.hasProcessedImage(for: others))
    }

    @Test("pictures that a request of the program has changed go by the URL; by a request or a key one of them")
    func invalidatedPictures() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        for request in Self.pictures {
            if let url = request.url { try test.script(url, .sample()) }
            try await test.load(request)
        }
        await test.cache.synchronize()
        test.cache.removeImage(for: ImageRequest(Self.a))
        test.cache.removeImage(for: "front page")
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 8 && test.cache.data.diskCount == 8)
        test.cache.invalidate(url("form"), after: ["Location": "/a"])
        await test.expectEmpty()
    }

    @Test("after a removal the server is asked at once, also if its last answer was no picture")
    func misfits() async throws {
        let test = TestImageCache()
        let request = ImageRequest(Self.a).with(\.headers, ["Accept-Language": "de"])
        test.transport.script(Self.a, [.text("maintenance"), try .image(.sample())])
        #expect(await test.cache.getImage(request).error == .unsupportedFormat)
        test.cache.removeImage(for: Self.a)
        #expect(await test.cache.getImage(request).error == nil)
    }

    @Test("a picture that is being decoded is handed out and not kept")
    func decoding() async throws {
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(folder: TemporaryFolder(), decoder: decoder)
        let request = ImageRequest(Self.a).with(\.key, "cover")
        try test.script(Self.a, .sample())
        let task = test.cache.getImage(request)
        try await decoder.waitForDecodes(1)
        test.cache.removeImage(for: Self.a)
        decoder.releaseAll()
        #expect(try await task.value.size == Image.sample().size)
        await test.expectEmpty()
    }
}
