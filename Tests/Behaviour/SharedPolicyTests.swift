import TestSupport
import Testing

@Suite("A cache whose answers go to several people", .timeLimit(.minutes(2)))
struct SharedPolicyTests {
    private let a = url("a")

    private func cache(folder: TemporaryFolder? = nil, default lifetime: Expiration? = .days(7)) -> TestCache {
        TestCache(folder: folder) { $0.freshness = .shared(defaultFreshness: lifetime) }
    }

    private func count(_ test: TestCache) -> Int { test.transport.transfers.count }

    @Test("s-maxage and CDN-Cache-Control say how long an answer is fresh; one that says nothing is for the default")
    func freshness() async throws {
        for (headers, age) in [
            (["Cache-Control": "max-age=1, s-maxage=100"], 100),
            (["Cache-Control": "no-store", "CDN-Cache-Control": "max-age=50"], 50), ([:], 7 * 86_400),
        ] as [(HTTPHeaders, TimeInterval)] {
            let test = cache(folder: TemporaryFolder())
            test.transport.script(a, [.text("one", headers), .text("two", headers)])
            #expect(try await test.ask(a) == "one from network")
            test.date.advance(by: age - 1)
            #expect(try await test.ask(a) == "one from memory")
            test.cache.clearMemory()
            #expect(try await test.ask(a) == "one from disk")
            test.date.advance(by: 1)
            #expect(try await test.ask(a) == "two from network")
        }
    }

    @Test("without a network, what s-maxage or proxy-revalidate forbids to use stale is not used")
    func disconnected() async throws {
        for (directives, isUsed) in [
            ("max-age=10", true), ("s-maxage=10", false), ("max-age=10, proxy-revalidate", false),
        ] {
            let test = cache()
            try await test.keep("good", ["Cache-Control": directives], for: a, age: 20)
            test.network.isUp = false
            let request = DataRequest(a).with(\.timeout, .seconds(1))
            let task = test.cache.getData(request)
            if isUsed {
                #expect(try await task.response.told == "good from stale", "\(directives)")
            } else {
                await test.whileClockRuns { #expect(await task.error != nil, "\(directives)") }
            }
        }
    }

    @Test(
        "an answer for one client goes to the call that has asked; those that wait with it ask at once, each for itself",
        arguments: [
            ["Cache-Control": "private, max-age=60"], ["Cache-Control": "no-store"],
            ["Cache-Control": "max-age=60", "Set-Cookie": "id=1"], ["CDN-Cache-Control": "private"],
        ] as [HTTPHeaders])
    func waiting(headers: HTTPHeaders) async throws {
        let test = cache(folder: TemporaryFolder())
        let (first, transfer) = try await test.begin(a)
        let others = (0..<3).map { _ in test.cache.getData(a) }
        let counts = test.cache.queueCounts
        #expect(counts.fastRunning == 1 && counts.fastWaiting == 0, "they wait for one fetch")
        transfer.finish(with: Data("0".utf8), headers: headers)
        #expect(try await first.response.told == "0 from network")
        // All are on their way before one is answered.
        var transfers: [ScriptedTransfer] = []
        for _ in others { transfers.append(try await test.transport.nextTransfer()) }
        for (number, transfer) in transfers.enumerated() {
            transfer.finish(with: Data("\(number + 1)".utf8), headers: headers)
        }
        var answers: Set<String> = []
        for task in others { answers.insert(try await task.response.told) }
        #expect(answers == ["1 from network", "2 from network", "3 from network"])
        await test.cache.idle()
        #expect(count(test) == 4 && test.cache.diskCount == 0 && test.cache.memoryCount == 0)
    }

    @Test("an answer for all that comes after one for a single client is kept and ends all who wait")
    func mixed() async throws {
        let test = cache()
        let (first, transfer) = try await test.begin(a)
        let second = test.cache.getData(a)
        _ = test.cache.queueCounts
        transfer.finish(with: Data("mine".utf8), headers: ["Cache-Control": "private"])
        #expect(try await first.response.told == "mine from network")
        try await test.transport.nextTransfer().finish(with: Data("ours".utf8))
        #expect(try await second.response.told == "ours from network")
        #expect(try await test.ask(a) == "ours from memory")
    }

    @Test("the fields that private names go to the call that has asked, and to no other")
    func namedFields() async throws {
        let test = cache(folder: TemporaryFolder())
        let headers: HTTPHeaders = ["Cache-Control": "max-age=60, private=\"X-User\"", "X-User": "ada", "X-All": "1"]
        let (first, transfer) = try await test.begin(a)
        let second = test.cache.getData(a)
        _ = test.cache.queueCounts
        transfer.finish(with: Data("all".utf8), headers: headers)
        #expect(try await first.response.headers == headers)
        for response in [try await second.response, try await test.cache.getData(a).response] {
            #expect(response.headers["X-User"] == nil && response.headers["X-All"] == "1")
        }
        await test.cache.idle()
        test.cache.clearMemory()
        let stored = try await test.cache.getData(a).response
        #expect(stored.source == .disk && stored.headers["X-User"] == nil && count(test) == 1)
    }

    @Test("an answer to credentials answers no other request, and leaves the entry of the others as it is")
    func credentials() async throws {
        let key = CacheKey("page")
        let plain = DataRequest(a).with(\.key, key)
        let user = DataRequest(string: "http://ada:secret@host.test/a").with(\.key, key)
        for request in [plain.with(\.headers, ["Authorization": "x"]), plain.with(\.headers, ["Cookie": "x"]), user] {
            let test = cache()
            let fields: HTTPHeaders = ["Cache-Control": "max-age=10"]
            test.transport.script(a, [.text("all", fields), .text("mine", fields), .text("newer", fields)])
            if let url = user.url { test.transport.script(url, [.text("mine", fields)]) }
            #expect(try await test.ask(plain) == "all from network")
            #expect(try await test.ask(request.with(\.cachePolicy, .ignoreCache)) == "mine from network")
            #expect(try await test.ask(plain) == "all from memory")
        }
        // The server may say otherwise (RFC 9111, section 3.5).
        for directive in ["public", "s-maxage=60", "must-revalidate, max-age=60"] {
            let test = cache()
            test.transport.script(a, [.text("all", ["Cache-Control": directive])])
            #expect(try await test.ask(plain, ["Authorization": "x"]) == "all from network")
            #expect(try await test.ask(plain) == "all from memory", "\(directive)")
        }
    }

    @Test("a call that waits with one that has credentials asks without them")
    func waitingForCredentials() async throws {
        let test = cache()
        let request = DataRequest(a).with(\.key, "page")
        let (first, transfer) = try await test.begin(request.with(\.headers, ["Authorization": "x"]))
        let second = test.cache.getData(request)
        _ = test.cache.queueCounts
        transfer.finish(with: Data("mine".utf8), headers: ["Cache-Control": "max-age=60"])
        #expect(try await first.response.told == "mine from network")
        let next = try await test.transport.nextTransfer()
        #expect(next.request.headers["Authorization"] == nil)
        next.finish(with: Data("all".utf8))
        #expect(try await second.response.told == "all from network")
    }

    @Test("credentials that a hook adds, or a redirect handler, count like those of the request")
    func hooks() async throws {
        let key = CacheKey("page")
        let handler = RedirectHandler.changing { $0.headers["Cookie"] = "id=1" }
        for request in [
            DataRequest(a).with(\.credentials, .bearer("token", identity: "me")),
            DataRequest(a).with(\.modifier, .changing(identity: "me") { $0.headers["Authorization"] = "x" }),
            DataRequest(url("r")).with(\.redirectHandler, handler).with(\.key, key),
        ] {
            let test = cache()
            test.transport.script(url("r"), [.redirect("/a", ["Cache-Control": "max-age=60"])])
            test.transport.script(a, [.text("mine", ["Cache-Control": "max-age=60"])])
            for _ in 0..<2 { #expect(try await test.ask(request) == "mine from network") }
            #expect(test.cache.memoryCount == 0)
        }
    }

    @Test("a failure for one client is not remembered, and a redirect for one is followed anew")
    func failuresAndRedirects() async throws {
        let test = cache()
        test.transport.script(a, [.status(404, ["Cache-Control": "private"]), .text("mine")])
        #expect(await test.cache.getData(a).error?.status == 404)
        #expect(try await test.ask(a) == "mine from network")
        test.transport.script(url("b"), [.redirect("/c", ["Cache-Control": "private, max-age=60"])])
        test.transport.script(url("c"), [.text("c", ["Cache-Control": "max-age=60"])])
        for _ in 0..<2 { #expect(try await test.ask(url("b")) == "c from network") }
    }

    @Test("the beginning of an answer for one client is not continued for another")
    func partialBodies() async throws {
        let test = cache(folder: TemporaryFolder())
        for directives in ["private", "max-age=60, private=\"X-User\""] {
            try await test.leave(
                TransferResponse(
                    headers: Parts.fields.adding("Cache-Control", directives), body: Parts.whole.prefix(50)), of: a)
            #expect(try await test.nextFields(of: a)["Range"] == nil, "\(directives)")
        }
        try await test.leave(Parts.beginning(50), of: a)
        #expect(try await test.nextFields(of: a)["Range"] == "bytes=50-")
    }

    @Test("what a private cache has kept for its user is no answer for others")
    func formerlyPrivate() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let headers: HTTPHeaders = ["Cache-Control": "private, max-age=600"]
        test.transport.script(a, [.text("mine", headers), .text("theirs", headers), .text("again", headers)])
        #expect(try await test.ask(a) == "mine from network")
        let shared = DataRequest(a).with(\.freshness, .shared())
        #expect(try await test.ask(a) == "mine from memory")
        #expect(try await test.ask(shared) == "theirs from network")
        test.cache.clearMemory()
        #expect(try await test.ask(shared) == "again from network")
    }

    @Test(
        "answers before the final one go to all that wait, by the rules of a shared cache to the call that has asked",
        arguments: [false, true])
    func interim(isShared: Bool) async throws {
        let test = TestCache()
        let request = DataRequest(a).with(\.freshness, isShared ? .shared() : nil)
        let (first, transfer) = try await test.begin(request)
        let second = test.cache.getData(request)
        _ = test.cache.queueCounts
        let early = InterimResponse(status: 103, headers: ["Link": "</style.css>"])
        transfer.send(interim: early)
        transfer.finish(with: Data("here".utf8))
        for (task, expected) in [(first, [early]), (second, isShared ? [] : [early])] {
            let heard = Box<[InterimResponse]>([])
            task.onInterim { response in heard.update { $0.append(response) } }
            _ = try await task.value
            try await test.cache.waitForHooks()
            #expect(heard.value == expected)
        }
    }

    @Test(
        "a part of what a private cache was sent for its client is continued for that client alone",
        arguments: [true, false])
    func part(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        let shared = DataRequest(a).with(\.freshness, .shared())
        for (directives, isForAll) in [("private", false), ("max-age=9", true)] {
            let (task, transfer) = try await test.begin(DataRequest(a))
            transfer.hold(Parts.beginning(40, Parts.fields.adding("Cache-Control", directives)))
            task.cancel()
            #expect(await task.error == .cancelled)
            await test.cache.idle()
            for (request, isContinued) in [(shared, isForAll), (DataRequest(a), true)] {
                let (again, next) = try await test.begin(request)
                #expect((next.request.headers["Range"] != nil) == isContinued, "\(directives)")
                again.cancel()
                #expect(await again.error == .cancelled)
                await test.cache.idle()
            }
            test.cache.removeData(for: a)
        }
    }

    @Test(
        "nor is what it has kept of an answer to credentials, or of one that sets a cookie, also after a restart",
        arguments: [200, 404])
    func formerlyOfClient(status: Int) async throws {
        let cases: [(HTTPHeaders, HTTPHeaders)] = [
            (["Authorization": "Basic eA=="], [:]), ([:], ["Set-Cookie": "a=1"]),
        ]
        for (asked, answered) in cases {
            for isRestarted in [false, true] {
                var test = TestCache(folder: TemporaryFolder())
                let fields = answered.adding("Cache-Control", "max-age=600").adding("ETag", "\"1\"")
                let mine = TransferResponse(status: status, headers: fields, body: Data("mine".utf8))
                let request = DataRequest(a).with(\.key, CacheKey("key"))
                test.transport.script(a, [.response(mine), .text("theirs")])
                _ = await test.cache.getData(request.with(\.headers, asked)).result
                if isRestarted {
                    test = await test.reopened()
                    test.transport.script(a, [.text("theirs")])
                }
                #expect(try await test.ask(request.with(\.freshness, .shared())) == "theirs from network")
                #expect(test.transport.transfers.last?.request.headers["If-None-Match"] == nil)
            }
        }
    }

    @Test("a shared call that waits with a private one asks for itself")
    func twoPolicies() async throws {
        let test = TestCache()
        let (own, transfer) = try await test.begin(a)
        let shared = test.cache.getData(DataRequest(a).with(\.freshness, .shared()))
        _ = test.cache.queueCounts
        transfer.finish(with: Data("mine".utf8), headers: ["Cache-Control": "private"])
        #expect(try await own.response.told == "mine from network")
        try await test.transport.nextTransfer().finish(with: Data("theirs".utf8))
        #expect(try await shared.response.told == "theirs from network")
    }

    @Test("a picture made of an answer for one client is not kept, nor named to others by its fields")
    func pictures() async throws {
        let picture = Image.sample(8, 6)
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.freshness = .shared() }
        try test.script(a, picture, headers: ["Cache-Control": "private, max-age=60"])
        for _ in 0..<2 { #expect(try await test.cache.getImage(ImageRequest(a).inverted).response.source == .network) }
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 0 && !test.cache.hasImage(for: a))
        let named = url("named")
        try test.script(
            named, picture,
            headers: ["Cache-Control": "max-age=60, private=\"X-User\"", "X-User": "ada", "CDN-Cache-Control": ""])
        for source in [ResponseSource.network, .memory] {
            let response = try await test.cache.getImage(named).response
            #expect(response.source == source && response.headers["X-User"] == nil)
        }
        let targeted = url("targeted")
        try test.script(targeted, picture, headers: ["Cache-Control": "no-store", "CDN-Cache-Control": "max-age=60"])
        for source in [ResponseSource.network, .memory] {
            #expect(try await test.cache.getImage(targeted).response.source == source)
        }
    }
}

@Suite("Pictures and redirects", .timeLimit(.minutes(2)))
struct RedirectedPictureTests {
    @Test("a picture behind a redirect that must not be stored is not kept")
    func unstored() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(url("a"), [.redirect("/b", ["Cache-Control": "no-store"])])
        try test.script(url("b"), .sample(8, 6))
        for _ in 0..<2 {
            #expect(try await test.cache.getImage(ImageRequest(url("a")).inverted).response.source == .network)
        }
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 0 && !test.cache.hasProcessedImage(for: ImageRequest(url("a")).inverted))
    }
}
