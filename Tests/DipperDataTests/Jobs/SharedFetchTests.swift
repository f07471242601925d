import DipperTesting
import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Fetches that several share, and hooks in between", .timeLimit(.minutes(5)))
struct SharedFetchTests {
    private let a = url("a")
    private let b = url("b")

    @Test("lead changes after an alternative: the joiner ends", .timeLimit(.minutes(5)))
    func alternativeAndJoiner() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(b, [.text("mirror")])
        let first = test.cache.getData(DataRequest(a).with(\.alternatives, [b]))
        let transfer = try await test.transport.nextTransfer()
        let picky = ResponseValidation { String(decoding: $0.body, as: UTF8.self) == "mirror" ? .rejected : nil }
        let second = test.cache.getData(DataRequest(a).with(\.validation, picky))
        transfer.fail(with: .connectionFailed)
        #expect(
            await settle {
                test.clock.advance(by: .seconds(1))
                return first.state == .finished
            }, "first: \(first.state)")
        test.transport.script(a, [.text("origin")])
        let ended = await settle {
            test.clock.advance(by: .seconds(1))
            switch second.state {
            case .finished, .failed: return true;
            default: return false
            }
        }
        #expect(ended, "second: \(second.state) first: \(first.state) \(test.cache.queueCounts)")
        #expect(test.cache.queueCounts == QueueCounts())
    }

    @Test("a joiner whose validation takes the answer gets it", .timeLimit(.minutes(5)))
    func lenientJoiner() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let strict = test.cache.getData(DataRequest(a))
        let transfer = try await test.transport.nextTransfer()
        let lenient = test.cache.getData(DataRequest(a).with(\.validation, .anyStatus))
        test.transport.script(a, [.text("gone", status: 404)])
        transfer.finish(with: Data("gone".utf8), status: 404)
        #expect(await strict.error == .status(404))
        #expect(await lenient.error == nil)
        await test.cache.shutdown()
    }

    @Test("a joiner without a validation is not failed by another's", .timeLimit(.minutes(5)))
    func plainJoiner() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let picky = test.cache.getData(DataRequest(a).with(\.validation, .init { _ in .rejected }))
        let transfer = try await test.transport.nextTransfer()
        let plain = test.cache.getData(DataRequest(a))
        test.transport.script(a, [.text("fine")])
        transfer.finish(with: Data("fine".utf8))
        #expect(await picky.error == .rejected)
        #expect(await plain.error == nil)
        await test.cache.shutdown()
    }

    @Test(
        "an answer that is for one request alone is not handed to another with other fields",
        .timeLimit(.minutes(5)), arguments: [["Vary": "*"], ["Cache-Control": "no-store"]] as [HTTPHeaders])
    func forOneAlone(headers: HTTPHeaders) async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let one = test.cache.getData(DataRequest(a).with(\.key, "k").with(\.headers, ["Cookie": "user=1"]))
        let transfer = try await test.transport.nextTransfer()
        let two = test.cache.getData(DataRequest(a).with(\.key, "k").with(\.headers, ["Cookie": "user=2"]))
        test.transport.script(a, [.text("page of 2", headers)])
        transfer.finish(with: Data("page of 1".utf8), headers: headers)
        #expect(try await one.value == Data("page of 1".utf8))
        #expect(try await String(decoding: two.value, as: UTF8.self) == "page of 2")
        await test.cache.shutdown()
    }

    @Test("credentials do not go to an alternative elsewhere", .timeLimit(.minutes(5)))
    func alternativeElsewhere() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let mirror = URL(string: "http://mirror.test/x")!
        test.transport.script(a, [.status(500)])
        test.transport.script(mirror, [.text("here")])
        let request = DataRequest(a).with(\.credentials, .bearer("secret")).with(\.alternatives, [mirror])
            .with(\.headers, ["Cookie": "session=1", "X-Key": "k"]).with(\.sensitiveHeaders, ["X-Key"])
        let task = test.cache.getData(request)
        #expect(
            await settle {
                test.clock.advance(by: .seconds(1))
                return task.state == .finished
            })
        let sent = try #require(test.requests(mirror).first)
        #expect(sent["Authorization"] == nil)
        #expect(sent["Cookie"] == nil)
        #expect(sent["X-Key"] == nil)
        await test.cache.shutdown()
    }

    @Test("credentials do not go to the low data URL elsewhere", .timeLimit(.minutes(5)))
    func lowDataElsewhere() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.network.setConditions(.init(isConstrained: true))
        let mirror = URL(string: "http://mirror.test/x")!
        test.transport.script(mirror, [.text("here")])
        let request = DataRequest(a).with(\.credentials, .bearer("secret")).with(\.lowDataURL, mirror)
            .with(\.headers, ["Cookie": "session=1"])
        _ = try await test.cache.getData(request).value
        let sent = try #require(test.requests(mirror).first)
        #expect(sent["Authorization"] == nil)
        #expect(sent["Cookie"] == nil)
        await test.cache.shutdown()
    }

    @Test("a redirect to a host without a way waits for the network", .timeLimit(.minutes(5)))
    func unreachableTarget() async throws {
        let test = TestCache()
        let far = URL(string: "http://far.test/x")!
        test.network.setReachable(false, host: "far.test")
        test.transport.script(a, [.status(302, ["Location": far.absoluteString])])
        test.transport.script(far, [.failure(.unreachable)])
        let task = test.cache.getData(a)
        #expect(await settle { task.state == .parked })
        test.transport.script(b, [.silence])
        for _ in 0..<20 {
            // What is due before it has happened when its time is over.
            let later = test.cache.getData(DataRequest(b).with(\.timeout, .milliseconds(50)))
            #expect(
                await settle {
                    test.clock.advance(by: .milliseconds(50))
                    return later.state == .failed(.timedOut)
                })
        }
        #expect(test.transport.transfers(of: a).count < 5)
        #expect(task.state == .parked)
        test.network.setReachable(true, host: "far.test")
        test.transport.script(far, [.text("here")])
        #expect(
            await settle {
                test.clock.advance(by: .milliseconds(10))
                return task.state == .finished
            })
        await test.cache.shutdown()
    }

    @Test("a part's own fields are taken whole")
    func fieldsOfParts() throws {
        let begun = try #require(
            PartialBody(
                TransferResponse(headers: ["ETag": "\"1\"", "Content-Length": "4"], body: Data("12".utf8)),
                of: "http://h/"))
        let part = TransferResponse(
            status: 206,
            headers: HTTPHeaders([
                .init("Content-Range", "bytes 2-3/4"), .init("ETag", "\"1\""),
                .init("Cache-Control", "no-store"), .init("Cache-Control", "max-age=60"),
                .init("Vary", "Cookie"), .init("Vary", "Accept"),
            ]),
            body: Data("34".utf8))
        let whole = begun.continued(by: part)
        #expect(CacheControl(response: whole.headers).noStore)
        #expect(whole.headers.list("Vary").contains("Cookie"))
    }

    @Test("a HEAD leaves nothing behind on the handle", .timeLimit(.minutes(5)))
    func handleReuse() async throws {
        let server = try await RawServer.start { request in
            [
                .send(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n"
                        + (request.head.hasPrefix("HEAD") ? "" : "here")), .close,
            ]
        }
        let transport = CurlTransport()
        func send(_ method: String, _ body: Data?) async throws -> TransferResponse {
            var request = TransferRequest(url: URL(string: server.url("/x"))!)
            request.method = method
            request.body = body
            return try await withCheckedContinuation { continuation in
                _ = transport.start(request) { event in
                    if case .finished(let result) = event { continuation.resume(returning: result) }
                }
            }.get()
        }
        #expect(try await send("POST", Data("1".utf8)).body == Data("here".utf8), "first")
        #expect(try await send("POST", Data()).body == Data("here".utf8), "empty")
        #expect(try await send("HEAD", nil).body == Data())
        #expect(try await send("POST", Data("1".utf8)).body == Data("here".utf8), "after HEAD")
        #expect(try await send("GET", nil).body == Data("here".utf8), "after HEAD and POST")
        await transport.shutdown()
        await server.stop()
    }

    @Test("a request's own no-store is obeyed whatever the freshness policy")
    func requestNoStore() async throws {
        let test = TestCache { $0.freshness = .immutable() }
        test.transport.script(a, [.text("1")])
        _ = try await test.ask(a, ["Cache-Control": "no-store"])
        #expect(!test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("a request's max-age counts for an entry that is fresh for ever", arguments: [false, true])
    func requestMaxAge(fromDisk: Bool) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.freshness = .http(defaultFreshness: .never) }
        test.transport.script(a, [.text("1"), .text("2")])
        _ = try await test.ask(a)
        test.date.advance(by: 1_000)
        if fromDisk { await test.cache.synchronize(); test.cache.clearMemory() }
        #expect(try await test.ask(a, ["Cache-Control": "max-age=60"]) == Told("2", .network))
        await test.cache.shutdown()
    }

    @Test(
        "a refresh that joins the job it came from keeps nothing alive", .timeLimit(.minutes(5)),
        arguments: [false, true])
    func nothingKeptAlive(withSecond: Bool) async throws {
        let job = try await refreshedJob(withSecond)
        let gone = await settle { job.value == nil }
        #expect(gone)
    }

    private func refreshedJob(_ withSecond: Bool) async throws -> WeakJob {
        let folder = TemporaryFolder()
        let window: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-while-revalidate=100"]
        var test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", window)])
        _ = try await test.ask(a)
        test = await test.reopened(folder)
        test.date.advance(by: 20)
        test.cache.slowQueue = test.cache.slowQueue.with { $0.isSuspended = true }
        let one = test.cache.slowGetData(DataRequest(a))
        let two =
            withSecond ? test.cache.slowGetData(DataRequest(a).with(\.headers, ["Cache-Control": "no-cache"])) : nil
        let job = WeakJob(one.withLink { $0.job })
        test.cache.slowQueue = test.cache.slowQueue.with { $0.isSuspended = false }
        let transfer = try await test.transport.nextTransfer()
        transfer.finish(with: Data("2".utf8), headers: window)
        let response = try await one.response
        #expect(Told(response) == Told("1", .stale))
        _ = try await response.revalidation?.value
        _ = try await two?.value
        await test.cache.shutdown()
        return job
    }

    @Test("a relative redirect is resolved against the URL that was asked", .timeLimit(.minutes(5)))
    func movedByModifier() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let edge = URL(string: "http://edge.test/a")!
        let moved = URL(string: "http://edge.test/moved")!
        test.transport.script(edge, [.status(302, ["Location": "/moved"])])
        test.transport.script(moved, [.text("here")])
        test.transport.script(url("moved"), [.text("of another host")])
        let request = DataRequest(a).with(
            \.modifier,
            .init { request in
                var request = request
                if request.url == url("a") { request.url = edge }
                return request
            })
        #expect(try await String(decoding: test.cache.getData(request).value, as: UTF8.self) == "here")
        await test.cache.shutdown()
    }

    @Test(
        "a server that breaks off again and again exhausts the retries, also of a transfer that is held back",
        .timeLimit(.minutes(5)))
    func brokenOffAgain() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero, retries: 3) }
        let begun = TransferResponse(headers: ["ETag": "\"1\"", "Content-Length": "4"], body: Data("12".utf8))
        let task = test.cache.slowGetData(a)
        (try await test.transport.nextTransfer()).interrupt(with: begun)
        var rounds = 0
        for round in 0..<20 {
            test.clock.advance(by: .seconds(1))
            let transfer = try await test.transport.nextTransfer()
            let urgent = test.cache.getData(url("urgent\(round)"))
            let other = try await test.transport.nextTransfer()
            #expect(await settle { transfer.isThrottled })
            other.finish(with: Data())
            _ = try await urgent.value
            #expect(await settle { !transfer.isThrottled })
            transfer.fail(with: .connectionLost)
            // Another thread may end the task.
            await test.cache.engine.finishCarryingOut()
            rounds = round
            if case .failed = task.state { break }
        }
        #expect(rounds < 10, "still \(task.state) after \(rounds) failures without a byte")
        await test.cache.shutdown()
    }

    @Test("a part that the caller asked for does not remove the whole that is stored", .timeLimit(.minutes(5)))
    func partBesideWhole() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(
            a,
            [
                .text("whole", ["Cache-Control": "max-age=10"]),
                .text("w", ["Content-Range": "bytes 0-0/5"], status: 206),
            ])
        _ = try await test.cache.getData(DataRequest(a).with(\.key, "k")).value
        test.date.advance(by: 20)
        _ = try await test.cache.getData(DataRequest(a).with(\.key, "k").with(\.headers, ["Range": "bytes=0-0"])).value
        #expect(test.cache.hasData(for: "k"))
        await test.cache.shutdown()
    }

    @Test("a part asked for under a key of its own is never kept as the whole", .timeLimit(.minutes(5)))
    func partForWhole() async throws {
        let test = TestCache { $0.freshness = .immutable() }
        test.transport.script(a, [.text("w", ["Content-Range": "bytes 0-0/5"], status: 206), .text("whole")])
        let isPart = Box(true)
        let modifier = RequestModifier { request in
            var request = request
            if isPart.value { request.headers["Range"] = "bytes=0-0" }
            isPart.update { $0 = false }
            return request
        }
        let request = DataRequest(a).with(\.modifier, modifier)
        _ = try await test.cache.getData(request).value
        #expect(try await String(decoding: test.cache.getData(request).value, as: UTF8.self) == "whole")
        await test.cache.shutdown()
    }

    @Test("a look does not give the body of an error, nor a variant of other fields")
    func lookAtErrors() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("not found", ["Cache-Control": "max-age=100"], status: 404)])
        _ = try await test.cache.getData(DataRequest(a).with(\.validation, .anyStatus)).value
        #expect(test.cache.data(for: a) == nil)
        test.transport.script(b, [.text("de", ["Cache-Control": "max-age=100", "Vary": "Accept-Language"])])
        _ = try await test.cache.getData(DataRequest(b).with(\.key, "k").with(\.headers, ["Accept-Language": "de"]))
            .value
        #expect(test.cache.data(for: DataRequest(b).with(\.key, "k")) == nil)
        await test.cache.shutdown()
    }

    @Test("a fragment does not keep the server from being asked by validators")
    func fragment() async throws {
        let test = TestCache()
        let withMark = URL(string: "http://host.test/a#top")!
        test.transport.script(withMark, [.text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10"])])
        test.transport.script(a, [.text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10"])])
        _ = try await test.ask(withMark)
        test.date.advance(by: 20)
        _ = try await test.ask(a)
        #expect(test.requests(a).first?["If-None-Match"] == "\"1\"")
        await test.cache.shutdown()
    }

    @Test("what was asked for before an invalidation is not kept as fresh after it", .timeLimit(.minutes(5)))
    func invalidatedMeanwhile() async throws {
        let test = TestCache()
        let task = test.cache.getData(a)
        let transfer = try await test.transport.nextTransfer()
        test.cache.invalidate(a)
        transfer.finish(with: Data("before".utf8), headers: ["Cache-Control": "max-age=100"])
        _ = try await task.value
        #expect(!test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("a validation may look into the cache", .timeLimit(.minutes(5)))
    func validationLooksIntoCache() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=100"])])
        _ = try await test.ask(a)
        await test.cache.synchronize()
        test.cache.clearMemory()
        let cache = test.cache
        let rule = ResponseValidation { _ in cache.queueCounts.fastRunning > 99 ? .rejected : nil }
        _ = try await cache.getData(DataRequest(a).with(\.validation, rule)).value
        await cache.shutdown()
    }
}

extension QueueConfiguration {
    fileprivate func with(_ change: (inout QueueConfiguration) -> Void) -> QueueConfiguration {
        var copy = self
        change(&copy)
        return copy
    }
}

// Set once, before it is shared.
private final class WeakJob: @unchecked Sendable {
    private(set) weak var value: FetchJob?
    init(_ value: FetchJob?) { self.value = value }
}
