import TestSupport
import Testing

@Suite("Hooks of a request", .timeLimit(.minutes(2)))
struct RequestHookTests {
    private let test = TestCache()
    private let a = url("a")
    private let b = url("b")
    private let c = url("c")

    // MARK: Modifier

    @Test("A modifier has the last word on each request that is sent, and its identity is part of the key")
    func modifier() async throws {
        test.transport.script(a, [.status(503), .text("1")])
        let count = Box(0)
        let modifier = RequestModifier.changing { request in
            await Task.yield()
            request.headers["X-Signed"] = "\(count.increment())"
            request.headers["Priority"] = "u=0"
        }
        let request = DataRequest(a).with(\.modifier, modifier).with(\.retryPolicy, .fixed(.zero))
        #expect(try await test.ask(request) == "1 from network")
        #expect(test.requests(a).map { $0["X-Signed"] } == ["1", "2"])
        #expect(test.requests(a).allSatisfy { $0["Priority"] == "u=0" })
        #expect(try await test.ask(request) == "1 from memory")
        #expect(!test.cache.hasData(for: a))
    }

    @Test("An error that a modifier throws ends the attempt: for good, or to be tried again")
    func throwingModifier() async throws {
        test.transport.script(a, [.text("1")])
        let count = Box(0)
        let failing = RequestModifier.changing { _ in if count.increment() == 1 { throw DipperError.timedOut } }
        let task = test.cache.getData(DataRequest(a).with(\.modifier, failing).with(\.retryPolicy, .fixed(.zero)))
        let failures = task.failures()
        #expect(try await task.ending.get().told == "1 from network")
        #expect(failures.value == ["timed out"])
        let refusing = RequestModifier { _ in throw DipperError.rejected }
        #expect(await test.cache.getData(DataRequest(b).with(\.modifier, refusing)).error == .rejected)
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.queueCounts == QueueCounts())
    }

    @Test("A modifier or a redirect handler may lead elsewhere, but only where http goes, and with valid fields")
    func modifiedURL() async throws {
        test.transport.script(a, [.redirect("/b")])
        test.transport.script(c, [.text("1")])
        let changes: [(@Sendable (inout TransferRequest) -> Void, DipperError?)] = [
            ({ $0.url = URL(string: "file:///etc/passwd")! }, .unsupportedScheme),
            ({ $0.url = URL(string: "ftp://host.test/x")! }, .unsupportedScheme),
            ({ $0.url = URL(string: "http://")! }, .invalidURL),
            ({ $0.headers["X"] = "a\r\nb: c" }, .invalidHeader), ({ $0.url = url("c") }, nil),
        ]
        for (change, error) in changes {
            let modified = DataRequest(b).with(\.modifier, .changing { change(&$0) })
            let handled = DataRequest(a).with(\.redirectHandler, .changing { change(&$0) })
            for request in [modified, handled] {
                #expect(await test.cache.getRemoteData(request).error == error)
                #expect(test.cache.hasData(for: request) == (error == nil))
            }
        }
        #expect(test.transport.transfers(of: b).isEmpty && test.transport.transfers(of: c).count == 2)
        #expect(!test.cache.hasData(for: c))
    }

    @Test("A relative redirect is resolved against the URL that a modifier has led to")
    func movedByModifier() async throws {
        let edge = URL(string: "http://edge.test/a")!
        test.transport.script(edge, [.redirect("/moved")])
        test.transport.script(URL(string: "http://edge.test/moved")!, [.text("here")])
        let modifier = RequestModifier.changing { if $0.url == url("a") { $0.url = edge } }
        #expect(try await test.ask(DataRequest(a).with(\.modifier, modifier)) == "here from network")
    }

    // MARK: Redirects

    @Test("Redirects are followed up to the limit, and the answer is kept under the first URL")
    func redirects() async throws {
        let test = TestCache { $0.maximumRedirects = 3 }
        for number in 0..<5 { test.transport.script(url("\(number)"), [.redirect("/\(number + 1)")]) }
        test.transport.script(url("5"), [.text("end")])
        let response = try await test.cache.getData(url("2")).response
        #expect(response.told == "end from network" && response.metrics?.redirects == 3 && response.attempts == 1)
        #expect(test.cache.hasData(for: url("2")) && !test.cache.hasData(for: url("5")))
        #expect(await test.cache.getData(url("1")).error == .tooManyRedirects)
        #expect(test.transport.transfers(of: url("1")).count == 1)
    }

    @Test("A redirect handler follows, changes or stops; a redirect that is not followed is the answer")
    func handler() async throws {
        test.transport.script(a, [.text("moved", ["Location": "/b", "X-Why": "moved"], status: 307)])
        for target in [b, c] { test.transport.script(target, [.text("1")]) }
        let seen = Box<[String]>([])
        let follow = RedirectHandler { step, request in
            seen.update { $0.append("\(step.status) \(step.headers["X-Why"] ?? "") \(step.count) \(request.url.path)") }
            return request
        }
        #expect(await test.cache.getRemoteData(DataRequest(a).with(\.redirectHandler, follow)).error == nil)
        #expect(seen.value == ["307 moved 0 /b"])
        let change = RedirectHandler.changing { request in
            await Task.yield()
            request.url = url("c")
            request.headers["X-Plain"] = "changed"
            request.headers["X-Other"] = nil
        }
        let headers: HTTPHeaders = ["X-Plain": "first", "X-Other": "first"]
        _ = try await test.ask(DataRequest(a).with(\.redirectHandler, change), headers)
        let sent = try #require(test.requests(c).last)
        #expect(sent["X-Plain"] == "changed" && sent["X-Other"] == nil)
        for request in [
            DataRequest(a).with(\.redirectHandler, RedirectHandler { _, _ in nil }),
            DataRequest(a).with(\.followsRedirects, false),
        ] {
            #expect(await test.cache.getRemoteData(request).error == .status(307))
            let response = try await test.cache.getRemoteData(request.with(\.validation, .anyStatus)).response
            #expect(response.status == 307 && response.told == "moved from network")
        }
        #expect(test.transport.transfers(of: b).count == 1)
    }

    // MARK: Credentials

    @Test(
        "Fixed credentials are sent, and not again after a refusal; a refused token is renewed once",
        arguments: [
            (nil, ["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]), ([], [nil]), (["Bearer 1"], ["Bearer 1"]),
            (["Bearer 1", "Bearer 1"], ["Bearer 1"]),
            (["Bearer 1", "Bearer 2", "Bearer 3"], ["Bearer 1", "Bearer 2"]),
        ] as [([String]?, [String?])])
    func refused(tokens: [String]?, sent: [String?]) async throws {
        test.transport.script(a, [.status(401, ["WWW-Authenticate": "Bearer"])])
        let left = Box(tokens ?? [])
        let credentials =
            tokens == nil
            ? Credentials.basic(user: "Aladdin", password: "open sesame")
            : .provider { _ in left.update { $0.isEmpty ? nil : $0.removeFirst() } }
        #expect(await test.cache.getData(DataRequest(a).with(\.credentials, credentials)).error == .status(401))
        #expect(test.requests(a).map { $0["Authorization"] } == sent)
    }

    @Test("The request with a renewed token is no failure and no retry")
    func refreshedToken() async throws {
        test.transport.script(a, [.status(401, ["WWW-Authenticate": "Bearer error=expired"]), .text("1")])
        let asked = Box<[String?]>([])
        let provider = Credentials.provider { challenge in
            await Task.yield()
            asked.update { $0.append(challenge.demand) }
            return challenge.demand == nil ? "Bearer old" : "Bearer new"
        }
        let told = Box(0)
        let task = test.cache.getData(DataRequest(a).with(\.credentials, provider))
            .onFail { _, _ in told.increment() }.onRetry { told.increment() }
        let response = try await task.ending.get()
        #expect(response.told == "1 from network" && response.attempts == 1 && told.value == 0)
        #expect(asked.value == [nil, "Bearer error=expired"])
        #expect(test.requests(a).map { $0["Authorization"] } == ["Bearer old", "Bearer new"])
    }

    // MARK: Validation

    @Test("An answer that a validation refuses is not kept; a refusal that may pass is tried again")
    func validation() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let fields: HTTPHeaders = ["Cache-Control": "max-age=99"]
        test.transport.script(a, [.text("bad", fields), .text("bad", fields), .text("good", fields)])
        let isGood: @Sendable (TransferResponse) -> Bool = { $0.body == Data("good".utf8) }
        let strict = DataRequest(a).with(
            \.validation, .success.and(ResponseValidation { isGood($0) ? nil : .rejected }))
        #expect(await test.cache.getData(strict).error == .rejected)
        await test.cache.idle()
        #expect(!test.cache.hasData(for: a) && test.cache.diskCount == 0)
        #expect(try await test.ask(a) == "bad from network")
        #expect(try await test.ask(strict) == "good from network", "what is kept is checked again")
        #expect(test.requests(a).count == 3)
        test.transport.script(b, [.text("not yet"), .text("not yet"), .text("good")])
        let patient = ResponseValidation { isGood($0) ? nil : .status(503) }
        let request = DataRequest(b).with(\.validation, patient).with(\.retryPolicy, .fixed(.zero))
        let task = test.cache.getData(request)
        await test.whileClockRuns { _ = await task.result }
        #expect(try await task.response.attempts == 3)
    }

    // MARK: Body transform

    @Test("A body transform decrypts once what a server sends; all tiers, validation and decoder have the plain bytes")
    func bodyTransform() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let picture = Image.sample(40, 30)
        let (codec, plain) = (AESCodec(7), try picture.png)
        test.transport.script(a, [.body(try codec.encode(plain)), .body(plain), .body(try codec.encode(plain))])
        let (count, judged) = (Box(0), Box<[Data]>([]))
        func request(_ identifier: String) -> ImageRequest {
            let decrypting = BodyTransform(identifier: identifier) { bytes in
                count.increment()
                return try codec.decode(bytes)
            }
            let judging = ResponseValidation { response in
                judged.update { $0.append(response.body) }
                return nil
            }
            return ImageRequest(a).with(\.bodyTransform, decrypting).with(\.validation, judging)
        }
        #expect(try await test.pixels(request("1")) == picture.pixels)
        await test.forgetMemory()
        #expect(try await test.source(request("1")) == .disk)
        #expect(!judged.value.isEmpty && judged.value.allSatisfy { $0 == plain } && count.value == 1)
        #expect(try await test.source(ImageRequest(a)) == .network, "a request without it shares nothing")
        #expect(try await test.source(request("2")) == .network, "nor does one with another identifier")
        #expect(count.value == 2)
    }

    @Test(
        "An error of a body transform ends the attempt, to be tried again if it may pass; an error page stays as it is")
    func failingTransform() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero) }
        let errors: [any Error] = [CocoaError(.coderInvalidValue), DipperError.truncated]
        test.transport.script(a, [.text("1"), .text("2"), .text("3"), .status(404)])
        let count = Box(0)
        let transform = BodyTransform(identifier: "") { bytes in
            let number = count.increment()
            if number <= errors.count { throw errors[number - 1] }
            return bytes + Data("!".utf8)
        }
        let request = DataRequest(a).with(\.bodyTransform, transform)
        #expect(await test.cache.getData(request).error == .undecodable)
        #expect(try await test.ask(request) == "3! from network")
        test.cache.removeData(for: request)
        #expect(await test.cache.getData(request).error == .status(404))
        #expect(count.value == 3)
    }

    @Test("A call that is cancelled while its bytes are transformed ends at once, and they replace no newer ones")
    func cancelledTransform() async throws {
        let door = Door()
        test.transport.script(a, [.text("old"), .text("new")])
        let transform = BodyTransform(identifier: "") { bytes in
            if bytes == Data("old".utf8) { door.pass() }
            return bytes
        }
        let request = DataRequest(a).with(\.bodyTransform, transform)
        let task = test.cache.getData(request)
        try await door.waitForArrivals(1)
        task.cancel()
        #expect(await task.error == .cancelled)
        #expect(try await test.ask(request) == "new from network")
        door.stayOpen()
        await test.cache.idle()
        await test.cache.shutdown()
        #expect(try #require(test.cache.readData(for: request)) == Data("new".utf8))
    }

    @Test("A part of a body that the caller has asked for itself is not transformed")
    func partOfBody() async throws {
        let part = TransferResponse(status: 206, headers: ["Content-Range": "bytes 0-1/9"], body: Data("ab".utf8))
        test.transport.script(a, [.response(part)])
        var request = DataRequest(a).with(\.headers, ["Range": "bytes=0-1"])
        request.bodyTransform = BodyTransform(identifier: "") { _ in throw DipperError.undecodable }
        #expect(try await test.cache.getData(request).value == Data("ab".utf8))
    }

    // MARK: Alternatives and priority

    @Test("Alternatives are tried in order, from their beginning, and the answer is kept under the first URL")
    func alternatives() async throws {
        let part = TransferResponse(headers: ["ETag": "\"v\"", "Content-Length": "4"], body: Data("12".utf8))
        test.transport.script(a, [.status(404)])
        test.transport.script(b, [.interrupted(part, .connectionLost)])
        test.transport.script(c, [.text("1", ["Cache-Control": "max-age=50", "ETag": "\"v\""])])
        let request = DataRequest(a).with(\.retryPolicy, .fixed(.zero, retries: 1))
        let task = test.cache.getData(request.with(\.alternatives, [b, c, url("d")]))
        let failures = task.failures()
        await test.whileClockRuns { await test.cache.idle() }
        #expect(try await task.response.told == "1 from network")
        #expect(test.transport.transfers.map(\.request.url) == [a, b, b, c])
        #expect(test.requests(b)[1]["Range"] != nil && test.requests(c)[0]["Range"] == nil)
        #expect(failures.value == ["status 404", "connection lost", "connection lost"])
        #expect(try await test.ask(a) == "1 from memory")
        #expect(!test.cache.hasData(for: c))
    }

    @Test("Each request tells the server its priority, unless the caller has")
    func priority() async throws {
        for (queue, priority, own, text) in [
            (FetchQueue.fast, Priority.normal, nil, "u=2"), (.fast, .high, nil, "u=1"), (.fast, .low, nil, "u=3"),
            (.slow, .normal, nil, "u=6"), (.slow, .high, nil, "u=5"), (.slow, .low, nil, "u=7"),
            (.fast, .normal, "u=4, i", "u=4, i"),
        ] as [(FetchQueue, Priority, String?, String)] {
            var request = DataRequest(a).with(\.priority, priority).with(\.cachePolicy, .bypass)
            if let own { request.headers = ["priority": own] }
            let (task, transfer) = try await test.begin(request, in: queue)
            #expect(transfer.request.headers["Priority"] == text)
            transfer.finish(with: Data())
            #expect(await task.error == nil)
        }
    }

    // MARK: What all requests of a cache have in common

    @Test("calls, look-ups, additions and removals all use the completed request")
    func data() async throws {
        let test = TestCache {
            $0.completeRequest = { request in
                request.headers["X-App"] = "kiosk"
                request.credentials = .bearer("secret", identity: "me")
            }
        }
        try await test.keep("here", for: a)
        let sent = test.requests(a)[0]
        #expect(sent["X-App"] == "kiosk" && sent["Authorization"] == "Bearer secret")
        #expect(
            test.cache.readData(for: a) != nil && test.cache.readResponse(for: a) != nil && test.cache.hasData(for: a))
        #expect(test.cache.readData(for: CacheKey(a)) == nil, "the key is another one")
        let others = [DataRequest(url("b")), DataRequest(url("b")).with(\.headers, ["Accept": "image/webp"])].map {
            test.cache.getData($0)
        }
        test.cache.cancel(url("b"))
        for task in others { #expect(await task.error == .cancelled, "a URL still means all its calls") }
        test.cache.removeData(for: a)
        #expect(test.cache.readData(for: a) == nil)
        try test.cache.addData(Data("added".utf8), for: a)
        #expect(try await test.ask(a) == "added from memory")
        #expect(test.requests(a).count == 1)
    }

    @Test("pictures and values too")
    func pictures() async throws {
        let test = TestImageCache { $0.data.completeRequest = { $0.headers["X-App"] = "kiosk" } }
        try test.script(a, .sample())
        let image = try await test.cache.getImage(a).value
        #expect(test.transport.transfers[0].request.headers["X-App"] == "kiosk")
        #expect(test.cache.readImage(for: a)?.storage === image.storage && test.cache.hasImage(for: a))
        test.cache.removeImage(for: a)
        #expect(test.cache.readImage(for: a) == nil && !test.cache.hasImage(for: a))
        test.transport.script(url("v"), [.text("[1]")])
        #expect(try await test.cache.data.getValue([Int].self, from: url("v")).value == [1])
        #expect(test.cache.data.readValue([Int].self, for: url("v")) == [1])
        #expect(test.transport.transfers.last?.request.headers["X-App"] == "kiosk")
    }

    @Test("what is named by its key alone is not completed: its key is the one that was given")
    func keys() async throws {
        let isAskedForKeys = Box(false)
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.completeRequest = { request in
                if request.url == nil { isAskedForKeys.update { $0 = true } }
                request.credentials = .bearer("secret", identity: "me")
            }
        }
        let (cache, data, bytes) = (test.cache, test.cache.data, try Image.sample().png)
        try data.addData(bytes, for: "file")
        try cache.addImage(bytes: bytes, for: "cover")
        #expect(await data.data(for: "file") == bytes && data.readData(for: "cover") == bytes)
        #expect(await cache.image(for: "file", in: .memory) == nil)
        #expect(await cache.image(for: "file")?.pixels == Image.sample().pixels)
        #expect(cache.imageInMemory(for: "file") != nil && cache.readImage(for: "cover") != nil)
        await cache.idle()
        data.clearMemory()
        #expect(await data.data(for: "file", in: .memory) == nil)
        #expect(await data.data(for: "file", in: .disk) == bytes)
        cache.removeImage(for: "file")
        #expect(await data.data(for: "file") == nil)
        #expect(!cache.hasImage(for: "file") && cache.cachedSource(for: "cover") != nil && !isAskedForKeys.value)
    }

    @Test("the closure changes each request once, also for files that are added and for prefetchers")
    func once() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.completeRequest = { $0.key = CacheKey("mine " + $0.cacheKey.string) }
        }
        try test.cache.addImage(bytes: Image.sample().png, for: a)
        #expect(test.cache.hasImage(for: a) && test.cache.readImage(for: a) != nil)
        #expect(try await test.pixels(a) == Image.sample().pixels && test.transport.transfers.isEmpty)
        await test.cache.idle()
        let request = ImageRequest(a)
        #expect(await ImagePrefetcher(test.cache, filesOf: [request]).value.skipped == [request])
        #expect(await DataPrefetcher(test.cache.data, urls: [a]).value.skipped.count == 1)
    }
}
