import TestSupport
import Testing

@Suite("Answers of which nothing can be made", .timeLimit(.minutes(2)))
struct MisfitTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let page = Data("<html>Please log in</html>".utf8)
    private let test = TestImageCache(folder: TemporaryFolder())

    private enum Bad: String, CaseIterable { case page, truncated }

    private func bytes(_ bad: Bad) throws -> Data { bad == .page ? page : try picture.png.prefix(60) }

    private func isThere(_ request: ImageRequest) -> [Bool] {
        let cache = test.cache
        return [
            cache.hasImage(for: request), cache.cachedSource(for: request) != nil,
            cache.hasProcessedImage(for: request),
        ]
    }

    @Test(
        "a page or half a picture is no picture of the cache, and is asked about again after a wait that grows",
        arguments: Bad.allCases)
    private func backOff(bad: Bad) async throws {
        let body = try bytes(bad)
        // The page has another text each time.
        let answers = (0..<7).map { ScriptedTransport.Step.body(body + Data("\($0)".utf8)) }
        test.transport.script(a, answers + [try .image(picture)])
        let error = bad == .page ? DipperError.unsupportedFormat : .undecodable
        let waits = [5, 20, 80, 320, 600, 600, 600]
        for (number, wait) in waits.enumerated() {
            #expect(await test.error(a) == error)
            #expect(test.transport.transfers.count == number + 1)
            await test.forgetMemory()
            for request in [ImageRequest(a), ImageRequest(a).inverted] {
                #expect(isThere(request) == [false, false, false])
            }
            #expect(test.cache.data.readData(for: a) == body + Data("\(number)".utf8))
            test.clock.advance(by: .seconds(wait) - .milliseconds(1))
            #expect(await test.error(a) == error)
            #expect(await test.error(ImageRequest(a).inverted) == error)
            #expect(test.transport.transfers.count == number + 1, "asked again before \(wait) s")
            test.clock.advance(by: .milliseconds(1))
        }
        #expect(try await test.pixels(a) == picture.pixels)
        #expect(test.transport.transfers.count == waits.count + 1)
        await test.forgetMemory()
        #expect(
            isThere(ImageRequest(a)) == [true, true, true] && isThere(ImageRequest(a).inverted) == [true, true, false])
    }

    @Test("bytes that nothing can be made of are not decoded again in the wait, nor skipped by a prefetcher")
    func prefetcher() async throws {
        test.transport.script(a, [.body(try bytes(.truncated)), try .image(picture)])
        #expect(await test.error(a) == .undecodable)
        await test.cache.idle()
        var result = await ImagePrefetcher(test.cache, urls: [a]).start().value
        #expect(result.skipped.isEmpty && result.failed.map(\.error) == [.undecodable])
        #expect(test.decoder.decodes == 1)
        test.clock.advance(by: .seconds(5))
        result = await ImagePrefetcher(test.cache, urls: [a]).start().value
        #expect(result.failed.isEmpty && test.transport.transfers.count == 2)
        #expect(test.cache.hasImage(for: a))
    }

    @Test("what a look on the caller's thread finds to be no picture is none either; what is added instead is one")
    func look() throws {
        try test.cache.data.addData(page, for: a)
        #expect(test.cache.hasImage(for: a), "nobody has looked")
        #expect(test.cache.readImage(for: a) == nil && !test.cache.hasImage(for: a))
        try test.cache.addImage(bytes: try picture.png, for: a)
        #expect(test.cache.hasImage(for: a) && test.cache.readImage(for: a)?.pixels == picture.pixels)
    }

    @Test("another process asks about a page at once, and what it fetches serves the first one without a request")
    func otherProcess() async throws {
        let folder = TemporaryFolder()
        let (one, two) = (TestImageCache(folder: folder), TestImageCache(folder: folder))
        one.transport.script(a, [.body(page)])
        #expect(await one.error(a) == .unsupportedFormat)
        await one.cache.idle()
        try two.script(a, picture)
        #expect(try await two.pixels(a) == picture.pixels)
        await two.cache.idle()
        await one.forgetMemory()
        #expect(try await one.pixels(a) == picture.pixels && one.transport.transfers.count == 1)
    }

    @Test(
        "a server that confirms a page is asked for the whole answer",
        arguments: [DataRequest.CachePolicy.useCache, .memoryOnly])
    func confirmed(policy: DataRequest.CachePolicy) async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.memoryLimit = 1 << 20 }
        let request = ImageRequest(a).with(\.cachePolicy, policy)
        let headers: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=0"]
        let bytes = test.cache.data.getData(request.data)
        try await test.transport.nextTransfer().finish(with: page, headers: headers)
        _ = try await bytes.value
        let task = test.cache.getImage(request)
        let condition = try await test.transport.nextTransfer()
        #expect(condition.request.headers["If-None-Match"] == "\"1\"")
        condition.finish(with: Data(), status: 304, headers: headers)
        let whole = try await test.transport.nextTransfer()
        #expect(whole.request.headers["If-None-Match"] == nil)
        whole.finish(with: try picture.png)
        #expect(try await task.value.pixels == picture.pixels)
        await test.cache.idle()
        if policy == .memoryOnly { #expect(test.cache.data.diskCount == 0) }
    }

    // MARK: Failed attempts

    /// A rule that tries again at once, and the failures it was asked about.
    private func rule(_ asked: Box<[String]>, retries: Int) -> RetryPolicy {
        .custom { context in
            asked.update { $0.append("\(context.failures) \(context.error.shortDescription)") }
            return context.failures <= retries ? .zero : nil
        }
    }

    @Test("a rule of the program's own is asked about every such answer", arguments: [2, 3])
    func asked(retries: Int) async throws {
        let asked = Box<[String]>([])
        test.transport.script(a, [.body(page), .status(503), .body(try bytes(.truncated)), try .image(picture)])
        let policy = rule(asked, retries: retries)
        let task = test.cache.getImage(ImageRequest(a).with(\.retryPolicy, policy).with(\.timeout, .seconds(60)))
        let result = await task.result
        #expect(asked.value == ["1 unsupported format", "2 status 503", "3 undecodable"])
        #expect(result.map(\.pixels) == (retries == 3 ? .success(picture.pixels) : .failure(.undecodable)))
        #expect(task.attempts == retries + 1)
        await test.cache.idle()
        #expect(test.cache.data.statistics.failures == (retries == 3 ? 0 : 1))
        #expect(test.cache.data.statistics.networkAnswers == (retries == 3 ? 1 : 0))
    }

    @Test("a rule of the program's own is asked about values that cannot be decoded; the default tries no second time")
    func values() async throws {
        let (asked, test) = (Box<[String]>([]), TestCache())
        test.transport.script(a, [.body(page), .body(Feed.sample.bytes)])
        let request = DataRequest(a).with(\.retryPolicy, rule(asked, retries: 1))
        #expect(try await test.cache.getValue(Feed.self, from: request).value == .sample)
        #expect(asked.value == ["1 undecodable"])
        let b = url("b")
        test.transport.script(b, [.body(Feed.sample.bytes)])
        for _ in 0..<2 { #expect(await test.cache.getValue([Int].self, from: b).error == .undecodable) }
        #expect(try await test.cache.getValue(Feed.self, from: b).value == .sample, "of another kind")
        #expect(test.transport.transfers(of: b).count == 1)
        test.clock.advance(by: .seconds(5))
        test.transport.script(b, [.body(Data("[7]".utf8))])
        #expect(try await test.cache.getValue([Int].self, from: b).value == [7])
    }

    @Test(
        "a page or half a picture makes the next source's turn, in the wait too, without asking the first one again",
        arguments: Bad.allCases)
    private func alternatives(bad: Bad) async throws {
        test.transport.script(a, [.body(try bytes(bad))])
        let request = ImageRequest(a).with(
            \.alternatives, [.url(url("c")), .provider(MemoryProvider(try picture.png, key: "bundled"))])
        test.transport.script(url("c"), [.body(try bytes(bad))])
        for _ in 0..<2 {
            #expect(try await test.pixels(request) == picture.pixels)
        }
        #expect(test.transport.transfers(of: a).count == 1)
        test.transport.script(url("d"), [.status(404)])
        let failed = await test.error(ImageRequest(a).with(\.alternatives, [url("d")]))
        #expect(failed == .status(404) && failed?.url == url("d") && failed?.earlier.first?.url == a)
        #expect(failed?.earlier == [bad == .page ? .unsupportedFormat : .undecodable])
    }

    @Test("the time limit of the call also ends the fetch that goes on after a page")
    func timeLimit() async throws {
        test.transport.script(a, [.body(page)])
        let request = ImageRequest(a).with(\.alternatives, [url("silent")]).with(\.timeout, .seconds(10))
        let task = test.cache.getImage(request)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == url("silent"))
        try await test.clock.wake(after: .seconds(10))
        #expect(await task.error == .timedOut)
        #expect(transfer.isCancelled)
    }
}
