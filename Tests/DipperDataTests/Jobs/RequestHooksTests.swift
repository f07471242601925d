import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Hooks of requests: modifiers, redirects, credentials, validation, alternatives", .timeLimit(.minutes(5)))
struct RequestHooksTests {
    let a = url("a")
    let b = url("b")
    let elsewhere = URL(string: "http://elsewhere.test/x")!

    // MARK: Modifier

    @Test("a modifier has the last word on each request, and its identity is a part of the key")
    func modifier() async throws {
        let test = TestCache()
        test.transport.script(a, [.status(503), .text("1")])
        let count = Box(0)
        let modifier = RequestModifier { request in
            await Task.yield()
            count.update { $0 += 1 }
            var request = request
            request.headers["X-Signed"] = "\(count.value)"
            request.headers["Priority"] = "u=0"
            return request
        }
        let request = DataRequest(a).with(\.modifier, modifier).with(\.retryPolicy, .fixed(.zero))
        #expect(try await Told(test.cache.getData(request).response) == Told("1", .network))
        #expect(test.requests(a).map { $0["X-Signed"] } == ["1", "2"])
        #expect(test.requests(a).allSatisfy { $0.values("Priority") == ["u=0"] })
        #expect(try await Told(test.cache.getData(request).response) == Told("1", .memory))
        #expect(!test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("what a modifier throws ends the attempt: for good, or to be tried again")
    func throwingModifier() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1")])
        let count = Box(0)
        let failing = RequestModifier { (request) async throws(DipperError) in
            count.update { $0 += 1 }
            if count.value == 1 { throw .timedOut }
            return request
        }
        let request = DataRequest(a).with(\.modifier, failing).with(\.retryPolicy, .fixed(.zero))
        let failures = Box<[Bool]>([])
        let task = test.cache.getData(request).onFail { _, isFatal in failures.update { $0.append(isFatal) } }
        #expect(try await Told(task.response) == Told("1", .network))
        #expect(await settle { failures.value == [false] })
        let refusing = RequestModifier { (_) async throws(DipperError) in throw .rejected }
        #expect(await test.cache.getData(DataRequest(b).with(\.modifier, refusing)).error == .rejected)
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("a modifier may lead elsewhere, but only where http goes")
    func modifiedURL() async throws {
        let test = TestCache()
        test.transport.script(elsewhere, [.text("1")])
        for (target, error) in [
            ("file:///etc/passwd", DipperError.unsupportedScheme), ("ftp://host.test/x", .unsupportedScheme),
            ("http://", .invalidURL),
        ] {
            let bad = RequestModifier { request in
                var request = request
                request.url = URL(string: target)!
                return request
            }
            #expect(await test.cache.getData(DataRequest(b).with(\.modifier, bad)).error == error, "\(target)")
        }
        let breaking = RequestModifier { request in
            var request = request
            request.headers["X"] = "a\r\nb: c"
            return request
        }
        #expect(await test.cache.getData(DataRequest(b).with(\.modifier, breaking)).error == .invalidHeader)
        #expect(test.transport.transfers.isEmpty)
        let good = RequestModifier { [elsewhere] request in
            var request = request
            request.url = elsewhere
            return request
        }
        let request = DataRequest(a).with(\.modifier, good)
        #expect(try await Told(test.cache.getData(request).response) == Told("1", .network))
        #expect(test.cache.hasData(for: request) && !test.cache.hasData(for: elsewhere))
        await test.cache.shutdown()
    }

    // MARK: Redirects

    @Test("redirects are followed, up to the most allowed, and what comes is kept under the first address")
    func redirects() async throws {
        let test = TestCache { $0.maximumRedirects = 3 }
        for number in 0..<5 { test.transport.script(url("\(number)"), [.status(302, ["Location": "/\(number + 1)"])]) }
        test.transport.script(url("5"), [.text("end")])
        let response = try await test.cache.getData(url("2")).response
        #expect(Told(response) == Told("end", .network) && response.metrics?.redirects == 3 && response.attempts == 1)
        #expect(test.cache.hasData(for: url("2")) && !test.cache.hasData(for: url("5")))
        let failures = Box(0)
        let task = test.cache.getData(url("1")).onFail { _, _ in failures.update { $0 += 1 } }
        #expect(await task.error == .tooManyRedirects)
        #expect(await settle { failures.value == 1 })
        test.transport.script(url("file"), [.status(301, ["Location": "file:///etc/passwd"])])
        #expect(await test.cache.getData(url("file")).error == .unsupportedScheme)
        await test.cache.shutdown()
    }

    @Test("a redirect that is not followed is an answer, and an error by default")
    func unfollowed() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("moved", ["Location": "/b"], status: 302)])
        let request = DataRequest(a).with(\.followsRedirects, false)
        #expect(await test.cache.getData(request).error == .status(302))
        let response = try await test.cache.getData(request.with(\.validation, .anyStatus)).response
        #expect(response.status == 302 && Told(response) == Told("moved", .network))
        #expect(test.transport.transfers(of: b).isEmpty)
        await test.cache.shutdown()
    }

    @Test("a redirect handler follows, changes or stops")
    func handler() async throws {
        let test = TestCache()
        test.transport.script(a, [.status(307, ["Location": "/b", "X-Why": "moved"])])
        for target in [b, url("c")] { test.transport.script(target, [.text("1")]) }
        let seen = Box<[String]>([])
        let follow = RedirectHandler { step, request in
            seen.update { $0.append("\(step.status) \(step.headers["X-Why"] ?? "") \(step.count) \(request.url.path)") }
            return request
        }
        _ = try await test.cache.getRemoteData(DataRequest(a).with(\.redirectHandler, follow)).value
        #expect(seen.value == ["307 moved 0 /b"])
        let change = RedirectHandler { _, request in
            await Task.yield()
            var request = request
            request.url = url("c")
            request.headers["X-Own"] = "2"
            request.headers["X-Plain"] = "changed"
            request.headers["X-Other"] = nil
            return request
        }
        let headers: HTTPHeaders = ["X-Plain": "first", "X-Other": "first"]
        _ = try await test.cache.getData(
            DataRequest(a).with(\.redirectHandler, change).with(\.headers, headers)
        ).value
        let sent = try #require(test.requests(url("c")).last)
        #expect(sent["X-Own"] == "2" && sent["X-Plain"] == "changed" && sent["X-Other"] == nil)
        let stop = DataRequest(a).with(\.redirectHandler, RedirectHandler { _, _ in nil })
        #expect(await test.cache.getRemoteData(stop).error == .status(307))
        let bad = RedirectHandler { _, request in
            var request = request
            request.url = URL(string: "file:///etc/passwd")!
            return request
        }
        let count = test.transport.transfers.count
        #expect(await test.cache.getRemoteData(DataRequest(a).with(\.redirectHandler, bad)).error == .unsupportedScheme)
        #expect(test.transport.transfers.count == count + 1)
        await test.cache.shutdown()
    }

    @Test("credentials and the like do not go along to another origin, nor come back with the request from there")
    func crossOrigin() async throws {
        let test = TestCache()
        test.transport.script(a, [.status(302, ["Location": "/b"])])
        test.transport.script(b, [.status(302, ["Location": elsewhere.absoluteString])])
        test.transport.script(elsewhere, [.status(302, ["Location": url("c").absoluteString])])
        test.transport.script(url("c"), [.text("1")])
        let request = DataRequest(a).with(\.credentials, .bearer("secret"))
            .with(\.headers, ["Cookie": "c", "X-Key": "k", "Accept": "p"]).with(\.sensitiveHeaders, ["x-KEY"])
        _ = try await test.cache.getData(request).value
        for target in [a, b] {
            let sent = try #require(test.requests(target).first)
            #expect(sent["Authorization"] == "Bearer secret" && sent["Cookie"] == "c" && sent["X-Key"] == "k")
        }
        for target in [elsewhere, url("c")] {
            let sent = try #require(test.requests(target).first)
            #expect(sent["Authorization"] == nil && sent["Cookie"] == nil && sent["X-Key"] == nil, "\(target)")
            #expect(sent["Accept"] == "p")
        }
        await test.cache.shutdown()
    }

    @Test("a handler that leads to another origin takes no credentials along that it has not put there itself")
    func handlerAcrossOrigins() async throws {
        let test = TestCache()
        test.transport.script(a, [.status(302, ["Location": "/b"])])
        test.transport.script(elsewhere, [.text("1")])
        let handler = RedirectHandler { [elsewhere] _, request in
            var request = request
            request.url = elsewhere
            return request
        }
        let request = DataRequest(a).with(\.credentials, .bearer("secret")).with(\.redirectHandler, handler)
            .with(\.headers, ["Cookie": "c", "X-Key": "k"]).with(\.sensitiveHeaders, ["X-Key"])
        _ = try await test.cache.getData(request).value
        let sent = try #require(test.requests(elsewhere).first)
        #expect(sent["Authorization"] == nil && sent["Cookie"] == nil && sent["X-Key"] == nil)
        await test.cache.shutdown()
    }

    // MARK: Credentials

    @Test("fixed credentials are sent, and not again after a refusal")
    func fixedCredentials() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1")])
        test.transport.script(b, [.status(401, ["WWW-Authenticate": "Basic"])])
        let basic = Credentials.basic(user: "Aladdin", password: "open sesame")
        _ = try await test.cache.getData(DataRequest(a).with(\.credentials, basic)).value
        #expect(test.requests(a)[0]["Authorization"] == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        #expect(await test.cache.getData(DataRequest(b).with(\.credentials, basic)).error == .status(401))
        #expect(test.requests(b).count == 1)
        await test.cache.shutdown()
    }

    @Test("a token that is refused is made anew, with exactly one more request and no failure")
    func refreshedToken() async throws {
        let test = TestCache()
        test.transport.script(a, [.status(401, ["WWW-Authenticate": "Bearer error=expired"]), .text("1")])
        let asked = Box<[String?]>([])
        let provider = Credentials.provider { challenge in
            await Task.yield()
            asked.update { $0.append(challenge.demand) }
            return challenge.demand == nil ? "Bearer old" : "Bearer new"
        }
        let told = Box(0)
        let task = test.cache.getData(DataRequest(a).with(\.credentials, provider))
            .onFail { _, _ in told.update { $0 += 1 } }.onRetry { told.update { $0 += 1 } }
        guard case .success(let response) = await task.heard else {
            Issue.record("refused")
            return
        }
        #expect(Told(response) == Told("1", .network) && response.attempts == 1)
        #expect(told.value == 0)
        #expect(asked.value == [nil, "Bearer error=expired"])
        #expect(test.requests(a).map { $0["Authorization"] } == ["Bearer old", "Bearer new"])
        await test.cache.shutdown()
    }

    @Test("a second refusal, a provider that knows no better, or nothing, is an error")
    func refused() async throws {
        for answers in [["Bearer 1", "Bearer 2", "Bearer 3"], ["Bearer 1", "Bearer 1"], ["Bearer 1"], []] {
            let test = TestCache()
            test.transport.script(a, [.status(401, ["WWW-Authenticate": "Bearer"])])
            let left = Box(answers)
            let provider = Credentials.provider { _ in
                var next: String?
                left.update { next = $0.isEmpty ? nil : $0.removeFirst() }
                return next
            }
            let task = test.cache.getData(DataRequest(a).with(\.credentials, provider))
            #expect(await task.error == .status(401))
            #expect(test.requests(a).count == (answers.count > 2 ? 2 : 1))
            await test.cache.shutdown()
        }
    }

    // MARK: Validation

    @Test("an answer that will not do is not kept, and fails the call; a failure that may pass is tried again")
    func validation() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("bad", ["Cache-Control": "max-age=99"])])
        let wanted = ResponseValidation.success.and(
            ResponseValidation { $0.body.starts(with: Data("good".utf8)) ? nil : .rejected.with(detail: "bytes") })
        let request = DataRequest(a).with(\.validation, wanted)
        #expect(await test.cache.getData(request).error == .rejected)
        #expect(test.requests(a).count == 1)
        #expect(!test.cache.hasData(for: a))
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0)
        test.transport.script(b, [.text("not yet"), .text("not yet"), .text("good")])
        let patient = ResponseValidation { $0.body == Data("good".utf8) ? nil : .status(503) }
        let task = test.cache.getData(
            DataRequest(b).with(\.validation, patient).with(\.retryPolicy, .fixed(.zero)))
        #expect(try await task.response.attempts == 3)
        await test.cache.shutdown()
    }

    @Test("what is kept does not answer a call whose own validation refuses it")
    func validationOfKept() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.text("bad", ["Cache-Control": "max-age=99"]), .text("good")])
        _ = try await test.ask(a)
        let strict = ResponseValidation { $0.body == Data("good".utf8) ? nil : .rejected }
        let task = test.cache.getData(DataRequest(a).with(\.validation, strict))
        #expect(try await Told(task.response) == Told("good", .network))
        await test.cache.shutdown()
    }

    @Test("who joins a fetch is not answered with what their own validation refuses")
    func validationOfJoiner() async throws {
        let test = TestCache()
        let lenient = test.cache.getData(DataRequest(a).with(\.validation, .anyStatus))
        let strict = test.cache.getData(a)
        let transfer = try await test.transport.nextTransfer()
        test.transport.script(a, [.status(404)])
        transfer.finish(with: Data("none".utf8), status: 404)
        #expect(try await lenient.response.status == 404)
        #expect(await strict.error == .status(404))
        await test.cache.shutdown()
    }
}
