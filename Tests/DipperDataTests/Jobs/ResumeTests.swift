import DipperTesting
import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Bodies that were broken off are continued, and never wrongly", .timeLimit(.minutes(5)))
struct ResumeTests {
    static let whole = Data((0..<100).map { UInt8($0) })
    let a = url("a")
    let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "max-age=50"]

    func beginning(_ count: Int, _ headers: HTTPHeaders? = nil) -> TransferResponse {
        TransferResponse(headers: headers ?? fields, body: Self.whole.prefix(count))
    }

    func part(
        _ range: Range<Int>, _ contentRange: String? = nil, tag: String? = "\"v\"", more: HTTPHeaders = [:]
    ) -> TransferResponse {
        var headers = more
        headers.append("Content-Range", contentRange ?? "bytes \(range.lowerBound)-\(range.upperBound - 1)/100")
        if let tag { headers.append("ETag", tag) }
        return TransferResponse(status: 206, headers: headers, body: Self.whole[range])
    }

    func cache(_ change: (inout DataCache.Configuration) -> Void = { _ in }, _ folder: TemporaryFolder? = nil)
        -> TestCache
    {
        TestCache(folder: folder) {
            $0.retryPolicy = .fixed(.zero, retries: 5)
            change(&$0)
        }
    }

    // MARK: Scripted

    @Test("the next attempt asks for what is missing, on the condition that it is the same, uncoded")
    func continues() async throws {
        let test = cache()
        test.transport.script(a, [.interrupted(beginning(40), .connectionLost), .response(part(40..<100))])
        let response = try await test.cache.getData(a).response
        #expect(response.data == Self.whole && response.status == 200 && response.source == .network)
        #expect(response.headers["Content-Range"] == nil && response.headers["Content-Length"] == "100")
        let requests = test.transport.transfers.map(\.request)
        #expect(requests.count == 2)
        #expect(requests[0].headers["Range"] == nil && requests[0].offset == 0)
        #expect(requests[1].headers["Range"] == "bytes=40-" && requests[1].headers["If-Range"] == "\"v\"")
        #expect(requests[1].headers["Accept-Encoding"] == "identity" && requests[1].offset == 40)
        #expect(test.cache.data(for: a) == Self.whole)
        await test.cache.shutdown()
    }

    @Test("a date does where there is no tag, if the answer was made a minute later")
    func dates() async throws {
        for (age, isStrong) in [(59.0, false), (60.0, true)] {
            let test = cache()
            let modified = (test.date.now - age).httpText
            let headers: HTTPHeaders = [
                "Last-Modified": modified, "Date": test.date.now.httpText, "Content-Length": "100",
            ]
            let rest = part(30..<100, tag: nil, more: ["Last-Modified": modified])
            test.transport.script(
                a, [.interrupted(beginning(30, headers), .truncated), isStrong ? .response(rest) : .body(Self.whole)])
            #expect(try await test.cache.getData(a).value == Self.whole)
            #expect(test.requests(a)[1]["If-Range"] == (isStrong ? modified : nil))
            #expect((test.requests(a)[1]["Range"] != nil) == isStrong)
            await test.cache.shutdown()
        }
    }

    @Test(
        "what cannot be continued for sure is begun anew",
        arguments: [
            ["Content-Length": "100"], ["ETag": "W/\"v\"", "Content-Length": "100"],
            ["ETag": "v", "Content-Length": "100"], ["ETag": "\"v\"", "Content-Encoding": "gzip"],
            ["ETag": "\"v\"", "Accept-Ranges": "none"], ["ETag": "\"v\"", "Content-Length": "40"],
        ] as [HTTPHeaders])
    func startsOver(headers: HTTPHeaders) async throws {
        let test = cache()
        test.transport.script(a, [.interrupted(beginning(40, headers), .connectionLost), .body(Self.whole)])
        #expect(try await test.cache.getData(a).value == Self.whole)
        #expect(test.requests(a).count == 2)
        #expect(test.requests(a)[1]["Range"] == nil && test.requests(a)[1]["If-Range"] == nil)
        await test.cache.shutdown()
    }

    @Test("variants that share a date of modification are not joined")
    func variants() async throws {
        let test = cache()
        let modified = (test.date.now - 1_000).httpText
        let headers: HTTPHeaders = [
            "Last-Modified": modified, "Date": test.date.now.httpText, "Content-Length": "100",
            "Vary": "Accept-Language",
        ]
        let german = test.cache.getData(
            DataRequest(a).with(\.key, "k").with(\.headers, ["Accept-Language": "de"]).with(\.retryPolicy, .never))
        let english = test.cache.getData(
            DataRequest(a).with(\.key, "k").with(\.headers, ["Accept-Language": "en"]))
        let first = try await test.transport.nextTransfer()
        first.interrupt(with: beginning(40, headers))
        #expect(await german.error == .connectionLost)
        let second = try await test.transport.nextTransfer()
        #expect(second.request.headers["Range"] == nil)
        let other = Data((0..<100).map { UInt8(200 - $0) })
        if second.request.headers["Range"] != nil {
            let rest: HTTPHeaders = ["Last-Modified": modified, "Content-Range": "bytes 40-99/100"]
            second.finish(with: other[40...], status: 206, headers: rest)
        } else if second.request.headers["Accept-Language"] == "en" {
            second.finish(with: other, headers: headers)
        } else {
            second.finish(with: Self.whole, headers: headers)
            let third = try await test.transport.nextTransfer()
            third.finish(with: other, headers: headers)
        }
        #expect(try await english.value == other)
        await test.cache.shutdown()
    }

    @Test("a part that does not fit is thrown away with what was there, and the whole asked for")
    func unfit() async throws {
        let wrong: [TransferResponse] = [
            part(41..<100), part(39..<100), part(40..<100, "bytes 40-99/101"), part(40..<100, tag: "\"w\""),
            part(40..<100, tag: "W/\"v\""), part(40..<100, tag: nil), part(40..<100, "bytes=40-99/100"),
            part(40..<100, "bytes 40-39/100"), part(40..<100, "bytes 40-98/100"), part(40..<40, "bytes 40-99/100"),
            part(40..<100, more: ["Content-Type": "multipart/byteranges; boundary=x"]),
            part(40..<100, more: ["Content-Encoding": "gzip"]), part(40..<100, more: ["Content-Range": "bytes 0-1/2"]),
            TransferResponse(status: 206, headers: ["ETag": "\"v\""], body: Self.whole[40...]),
            TransferResponse(status: 416, headers: ["Content-Range": "bytes */100"], body: Data()),
        ]
        for (number, answer) in wrong.enumerated() {
            let test = cache()
            test.transport.script(
                a,
                [.interrupted(beginning(40), .connectionLost), .response(answer), .response(beginning(100))])
            let task = test.cache.getData(a)
            let failures = Box(0)
            task.onFail { _, _ in failures.update { $0 += 1 } }
            #expect(try await task.response.data == Self.whole, "\(number)")
            #expect(test.requests(a).map { $0["Range"] } == [nil, "bytes=40-", nil], "\(number)")
            _ = await task.heard
            #expect(failures.value <= 1, "the misfit is no failure of its own")
            await test.cache.shutdown()
        }
    }

    @Test("a whole answer to a range request counts as it is")
    func ignoredRange() async throws {
        let test = cache()
        let other = Data(repeating: 7, count: 30)
        test.transport.script(
            a,
            [
                .interrupted(beginning(40), .connectionLost),
                .response(TransferResponse(headers: ["ETag": "\"w\""], body: other)),
            ])
        #expect(try await test.cache.getData(a).value == other)
        #expect(test.requests(a).count == 2)
        await test.cache.shutdown()
    }

    @Test("a whole answer that is broken off as well takes the place of the beginning that was there")
    func replacedBeginning() async throws {
        let test = cache()
        let other = Data((0..<80).map { UInt8(100 + $0) })
        let headers: HTTPHeaders = ["ETag": "\"w\"", "Content-Length": "80"]
        test.transport.script(
            a,
            [
                .interrupted(beginning(40), .connectionLost),
                .interrupted(TransferResponse(headers: headers, body: other.prefix(20)), .connectionLost),
                .response(
                    TransferResponse(
                        status: 206, headers: ["ETag": "\"w\"", "Content-Range": "bytes 20-79/80"], body: other[20...])),
            ])
        #expect(try await test.cache.getData(a).value == other)
        #expect(test.requests(a).map { $0["If-Range"] } == [nil, "\"v\"", "\"w\""])
        await test.cache.shutdown()
    }

    @Test("a body in pieces that are broken off again and again comes together")
    func pieces() async throws {
        let test = cache()
        var steps: [ScriptedTransport.Step] = [.interrupted(beginning(10), .connectionLost)]
        for start in stride(from: 10, to: 90, by: 20) {
            steps.append(.interrupted(part(start..<(start + 10), "bytes \(start)-99/100"), .truncated))
            steps.append(.response(part((start + 10)..<(start + 20))))
        }
        steps.append(.response(part(90..<100)))
        test.transport.script(a, steps)
        #expect(try await test.cache.getData(a).value == Self.whole)
        #expect(
            test.requests(a).dropFirst().map { $0["Range"] } == stride(from: 10, to: 100, by: 10).map { "bytes=\($0)-" }
        )
        await test.cache.shutdown()
    }

    @Test("a server that hands out single bytes is given up after a while, without a wrong byte")
    func singleBytes() async throws {
        let size = 1_000
        let long = Data((0..<size).map { UInt8(truncatingIfNeeded: $0 * 7) })
        let test = cache { $0.retryPolicy = .never }
        let headers: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "\(size)"]
        var steps: [ScriptedTransport.Step] = [
            .interrupted(TransferResponse(headers: headers, body: long.prefix(1)), .connectionLost)
        ]
        steps += (1..<size).map { place in
            .response(
                TransferResponse(
                    status: 206, headers: ["ETag": "\"v\"", "Content-Range": "bytes \(place)-\(place)/\(size)"],
                    body: long[place..<(place + 1)]))
        }
        test.transport.script(a, steps)
        let request = DataRequest(a).with(\.retryPolicy, .fixed(.zero, retries: 1))
        #expect(await test.cache.getData(request).error == .truncated)
        #expect(test.transport.transfers.count < 250)
        await test.cache.shutdown()
    }

    @Test("a 206 that nobody asked for is no answer")
    func unasked() async throws {
        let test = cache()
        test.transport.script(a, [.response(part(40..<100))])
        #expect(await test.cache.getData(a).error != nil)
        #expect(!test.cache.hasData(for: a))
        // Whoever asks for a range gets it.
        test.transport.script(url("b"), [.response(part(40..<100))])
        let ranged = DataRequest(url("b")).with(\.headers, ["Range": "bytes=40-"])
        #expect(try await test.cache.getData(ranged).response.status == 206)
        await test.cache.shutdown()
    }

    @Test("a redirect that leads elsewhere than before is not continued")
    func redirectedElsewhere() async throws {
        let test = cache()
        test.transport.script(a, [.status(302, ["Location": "/x"]), .status(302, ["Location": "/y"])])
        test.transport.script(url("x"), [.interrupted(beginning(40), .connectionLost)])
        let other = Data((0..<100).map { UInt8(200 - $0) })
        test.transport.script(url("y"), [])
        let task = test.cache.getData(a)
        let transfer = try await test.transport.nextTransfer()
        if transfer.request.headers["Range"] != nil {
            transfer.finish(
                with: other[40...], status: 206, headers: ["ETag": "\"v\"", "Content-Range": "bytes 40-99/100"])
        } else {
            transfer.finish(with: other, headers: fields)
        }
        #expect(try await task.value == other)
        await test.cache.shutdown()
    }

    @Test("progress goes on from where it was, and begins anew with a body that does")
    func progress() async throws {
        let test = cache { $0.progressInterval = .zero }
        test.transport.script(a, [])
        let heard = Box<[TaskProgress]>([])
        let task = test.cache.getData(a).onProgress { progress in heard.update { $0.append(progress) } }
        let first = try await test.transport.nextTransfer()
        first.send(progress: 40, of: 100)
        first.interrupt(with: beginning(40))
        let second = try await test.transport.nextTransfer()
        #expect(second.request.offset == 40)
        second.send(progress: 70, of: 100)
        second.finish(with: Self.whole[40...], status: 206, headers: part(40..<100).headers)
        _ = await task.heard
        #expect(heard.value.map(\.received) == [40, 70])
        #expect(heard.value.map(\.expected) == [100, 100])
        await test.cache.shutdown()
    }

    @Test("a prefetch that was held back until its server hung up goes on in silence")
    func lostPatience() async throws {
        let test = cache { $0.retryPolicy = .never }
        let told = Box<[String]>([])
        let slow = test.cache.slowGetData(a)
            .onFail { error, _ in told.update { $0.append("fail \(error)") } }
            .onRetry { told.update { $0.append("retry") } }
        let first = try await test.transport.nextTransfer()
        let urgent = test.cache.getData(url("urgent"))
        let urgentTransfer = try await test.transport.nextTransfer()
        #expect(await settle { first.isThrottled })
        first.interrupt(with: beginning(60))
        urgentTransfer.finish(with: Data())
        _ = try await urgent.value
        let second = try await test.transport.nextTransfer()
        #expect(second.request.headers["Range"] == "bytes=60-")
        second.finish(with: Self.whole[60...], status: 206, headers: part(60..<100).headers)
        guard case .success(let response) = await slow.heard else {
            Issue.record("the prefetch has failed")
            return
        }
        #expect(response.data == Self.whole)
        #expect(told.value.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a server that breaks off after a byte each time has failed in the end, also where the prefetch is held back")
    func losesPatienceAgain() async throws {
        let test = cache { $0.retryPolicy = .never }
        let slow = test.cache.slowGetData(a)
        for attempt in 0..<17 {
            let transfer = try await test.transport.nextTransfer()
            let urgent = test.cache.getData(url("urgent\(attempt)"))
            let urgentTransfer = try await test.transport.nextTransfer()
            #expect(await settle { transfer.isThrottled })
            transfer.interrupt(with: attempt == 0 ? beginning(1) : part(attempt..<attempt + 1))
            urgentTransfer.finish(with: Data())
            _ = try await urgent.value
        }
        let transport = test.transport
        #expect(await settle { slow.state == .failed(.connectionLost) || transport.transfers(of: a).count > 17 })
        #expect(transport.transfers(of: a).count == 17)
        await test.cache.shutdown()
    }
}
