import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Bodies that were broken off are continued, and never wrongly", .timeLimit(.minutes(2)))
struct ResumeTests {
    private let whole = Data((0..<100).map { UInt8($0) })
    private let other = Data((0..<100).map { UInt8(200 - $0) })
    private let a = url("a")
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "max-age=50"]

    private func beginning(_ count: Int, _ headers: HTTPHeaders? = nil) -> TransferResponse {
        TransferResponse(headers: headers ?? fields, body: whole.prefix(count))
    }

    private func part(
        _ range: Range<Int>, _ contentRange: String? = nil, tag: String? = "\"v\"", more: HTTPHeaders = [:]
    ) -> TransferResponse {
        var headers = more
        headers.append("Content-Range", contentRange ?? "bytes \(range.lowerBound)-\(range.upperBound - 1)/100")
        if let tag { headers.append("ETag", tag) }
        return TransferResponse(status: 206, headers: headers, body: whole[range])
    }

    private func open(
        _ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) -> TestCache {
        TestCache(folder: folder) {
            $0.retryPolicy = .fixed(.zero, retries: 5)
            change(&$0)
        }
    }

    // MARK: From attempt to attempt

    @Test(
        "the next attempt asks for what is missing, on the condition that it is the same, uncoded",
        arguments: [
            ["ETag": "\"v\""],
            // A date does where there is no tag, if the answer was made a minute later.
            ["Last-Modified": (ManualDate().now - 60).httpText, "Date": ManualDate().now.httpText],
        ] as [HTTPHeaders])
    func continues(validators: HTTPHeaders) async throws {
        let test = open()
        let beginning = beginning(40, validators.adding("Content-Length", "100"))
        let rest = part(40..<100, tag: nil, more: validators)
        test.transport.script(a, [.interrupted(beginning, .connectionLost), .response(rest)])
        let response = try await test.cache.getData(a).response
        #expect(response.data == whole && response.status == 200 && response.source == .network)
        #expect(response.headers["Content-Range"] == nil && response.headers["Content-Length"] == "100")
        let requests = test.transport.transfers.map(\.request)
        #expect(requests.count == 2)
        #expect(requests[0].headers["Range"] == nil && requests[0].offset == 0)
        #expect(requests[1].headers["Range"] == "bytes=40-" && requests[1].offset == 40)
        #expect(requests[1].headers["If-Range"] == validators["ETag"] ?? validators["Last-Modified"])
        #expect(requests[1].headers["Accept-Encoding"] == "identity")
        #expect(test.cache.data(for: a) == whole)
    }

    @Test(
        "what cannot be continued for sure is begun anew",
        arguments: [
            // ValidatorsTests has the validators that do not do.
            ["Content-Length": "100"], ["ETag": "\"v\"", "Content-Encoding": "gzip"],
            ["ETag": "\"v\"", "Accept-Ranges": "none"], ["ETag": "\"v\"", "Content-Length": "40"],
        ] as [HTTPHeaders])
    func startsOver(headers: HTTPHeaders) async throws {
        let test = open()
        test.transport.script(a, [.interrupted(beginning(40, headers), .connectionLost), .body(whole)])
        #expect(try await test.cache.getData(a).value == whole)
        #expect(test.requests(a).map { $0["Range"] ?? $0["If-Range"] } == [nil, nil])
    }

    @Test("a part that does not fit is thrown away with what was there, and the whole asked for", arguments: 0..<6)
    func unfit(number: Int) async throws {
        let answers: [TransferResponse] = [
            // ValidatorsTests has all that does not fit by its fields.
            part(41..<100), part(40..<100, "bytes 40-99/101"), part(40..<100, tag: "\"w\""),
            part(40..<100, "bytes 40-98/100"), part(40..<40, "bytes 40-99/100"),
            TransferResponse(status: 416, headers: ["Content-Range": "bytes */100"], body: Data()),
        ]
        let test = open()
        test.transport.script(
            a, [.interrupted(beginning(40), .connectionLost), .response(answers[number]), .response(beginning(100))])
        let failures = Box(0)
        let task = test.cache.getData(a).onFail { _, _ in failures.update { $0 += 1 } }
        #expect(try await task.value == whole)
        #expect(test.requests(a).map { $0["Range"] } == [nil, "bytes=40-", nil])
        await test.cache.idle()
        #expect(failures.value == 1, "the misfit is no failure of its own")
    }

    @Test("a whole answer to a request for a part counts as it is, and if it is broken off, as the new beginning")
    func wholeInstead() async throws {
        let test = open()
        let headers: HTTPHeaders = ["ETag": "\"w\"", "Content-Length": "100"]
        let rest = TransferResponse(
            status: 206, headers: ["ETag": "\"w\"", "Content-Range": "bytes 20-99/100"], body: other[20...])
        let short = TransferResponse(headers: ["ETag": "\"w\""], body: Data("short".utf8))
        for (target, steps, conditions) in [
            (a, [.response(short)], [nil, "\"v\""]),
            (
                url("b"),
                [
                    .interrupted(TransferResponse(headers: headers, body: other.prefix(20)), .connectionLost),
                    .response(rest),
                ], [nil, "\"v\"", "\"w\""]
            ),
        ] as [(URL, [ScriptedTransport.Step], [String?])] {
            test.transport.script(target, [.interrupted(beginning(40), .connectionLost)] + steps)
            #expect(try await test.cache.getData(target).value == (target == a ? short.body : other))
            #expect(test.requests(target).map { $0["If-Range"] } == conditions)
        }
    }

    @Test("a server that hands out single bytes is given up after a while")
    func singleBytes() async throws {
        let test = open()
        let size = 1_000
        var steps: [ScriptedTransport.Step] = [
            .interrupted(beginning(1, ["ETag": "\"v\"", "Content-Length": "\(size)"]), .connectionLost)
        ]
        steps += (1..<size).map { place in
            let headers: HTTPHeaders = ["ETag": "\"v\"", "Content-Range": "bytes \(place)-\(place)/\(size)"]
            return .response(TransferResponse(status: 206, headers: headers, body: Data([7])))
        }
        test.transport.script(a, steps)
        let request = DataRequest(a).with(\.retryPolicy, .fixed(.zero, retries: 1))
        #expect(await test.cache.getData(request).error == .truncated)
        #expect(test.transport.transfers.count < 250)
    }

    @Test("a 206 that nobody asked for is no answer; who asks for a range gets it")
    func unasked() async throws {
        let test = open()
        for target in [a, url("b")] { test.transport.script(target, [.response(part(40..<100))]) }
        #expect(await test.cache.getData(a).error != nil)
        #expect(!test.cache.hasData(for: a))
        let ranged = DataRequest(url("b")).with(\.headers, ["Range": "bytes=40-"])
        #expect(try await test.cache.getData(ranged).response.status == 206)
    }

    @Test("a redirect that leads elsewhere than before, and a variant for others, are not continued")
    func elsewhere() async throws {
        let test = open()
        test.transport.script(a, [.redirect("/x"), .redirect("/y")])
        test.transport.script(url("x"), [.interrupted(beginning(40), .connectionLost)])
        test.transport.script(url("y"), [.body(other)])
        #expect(try await test.cache.getData(a).value == other)
        #expect(test.requests(url("y")).map { $0["Range"] } == [nil])

        // Both variants were modified at the same date.
        let headers: HTTPHeaders = [
            "Last-Modified": (test.date.now - 1_000).httpText, "Date": test.date.now.httpText,
            "Content-Length": "100", "Vary": "Accept-Language",
        ]
        let request = DataRequest(url("b")).with(\.key, "k")
        let german = test.cache.getData(
            request.with(\.headers, ["Accept-Language": "de"]).with(\.retryPolicy, .never))
        let english = test.cache.getData(request.with(\.headers, ["Accept-Language": "en"]))
        try await test.transport.nextTransfer().interrupt(with: beginning(40, headers))
        #expect(await german.error == .connectionLost)
        var transfer = try await test.transport.nextTransfer()
        if transfer.request.headers["Accept-Language"] == "de" {
            transfer.finish(with: whole, headers: headers)
            transfer = try await test.transport.nextTransfer()
        }
        #expect(transfer.request.headers["Range"] == nil)
        transfer.finish(with: other, headers: headers)
        #expect(try await english.value == other)
    }

    @Test("progress goes on from where it was")
    func progress() async throws {
        let test = open { $0.progressInterval = .zero }
        let heard = Box<[TaskProgress]>([])
        let task = test.cache.getData(a).onProgress { progress in heard.update { $0.append(progress) } }
        let first = try await test.transport.nextTransfer()
        first.send(progress: 40, of: 100)
        first.interrupt(with: beginning(40))
        let second = try await test.transport.nextTransfer()
        second.send(progress: 70, of: 100)
        second.finish(with: whole[40...], status: 206, headers: part(40..<100).headers)
        _ = try await task.value
        await test.cache.idle()
        #expect(heard.value.map(\.received) == [40, 70])
        #expect(heard.value.map(\.expected) == [100, 100])
    }

    // MARK: Prefetches that were held back

    @Test("a prefetch that was held back until its server hung up goes on in silence, but not for ever")
    func lostPatience() async throws {
        let test = open { $0.retryPolicy = .never }
        let told = Box<[String]>([])
        /// Holds a prefetch back by an urgent call until its transfer has broken off.
        func breakOff(_ transfer: ScriptedTransfer, _ response: TransferResponse) async throws {
            let (urgent, urgentTransfer) = try await test.begin(DataRequest(url("urgent")).with(\.cachePolicy, .bypass))
            try await transfer.wait { $0.isThrottled }
            transfer.interrupt(with: response)
            urgentTransfer.finish(with: Data())
            _ = try await urgent.value
        }
        let slow = test.cache.slowGetData(a)
            .onFail { error, _ in told.update { $0.append("fail \(error)") } }
            .onRetry { told.update { $0.append("retry") } }
        try await breakOff(test.transport.nextTransfer(), beginning(60))
        let second = try await test.transport.nextTransfer()
        #expect(second.request.headers["Range"] == "bytes=60-")
        second.finish(with: whole[60...], status: 206, headers: part(60..<100).headers)
        #expect(try await slow.value == whole)
        await test.cache.idle()
        #expect(told.value.isEmpty)

        let hopeless = test.cache.slowGetData(url("b"))
        for attempt in 0..<17 {
            let response = attempt == 0 ? beginning(1) : part(attempt..<attempt + 1)
            try await breakOff(test.transport.nextTransfer(), response)
        }
        #expect(await hopeless.error == .connectionLost, "a server that sends a byte each time has failed in the end")
        #expect(test.requests(url("b")).count == 17)
    }

    // MARK: From call to call

    private func next(_ test: TestCache, _ target: URL) async throws -> HTTPHeaders {
        let (task, transfer) = try await test.begin(DataRequest(target).with(\.cachePolicy, .useCache))
        task.cancel()
        await test.cache.idle()
        return transfer.request.headers
    }

    private func leave(_ part: TransferResponse, _ test: TestCache, _ target: URL) async throws {
        let task = test.cache.getData(target)
        try await test.transport.nextTransfer().hold(part)
        task.cancel()
        #expect(await task.error == .cancelled)
        await test.cache.idle()
        // The cache has heard of the end of the transfer.
        _ = test.cache.queueCounts
    }

    @Test(
        "a call after a cancel, a shutdown, or both goes on from the bytes that are here",
        arguments: [(true, true, false), (true, true, true), (true, false, true), (false, true, false)])
    func afterCancel(hasFolder: Bool, cancels: Bool, reopens: Bool) async throws {
        let folder = hasFolder ? TemporaryFolder() : nil
        var test = open(folder)
        let first = test.cache.getData(a)
        try await test.transport.nextTransfer().hold(beginning(30))
        if cancels {
            first.cancel()
            await test.cache.idle()
        }
        if reopens, let folder { test = await test.reopened(folder) }
        #expect(await first.error == .cancelled)
        test.transport.script(a, [.response(part(30..<100))])
        let task = reopens ? test.cache.slowGetData(a) : test.cache.getData(a)
        #expect(try await task.value == whole)
        #expect(test.requests(a).last?["Range"] == "bytes=30-")
        if let folder { test = await test.reopened(folder) }
        #expect(try await test.cache.getData(a).response.source == (hasFolder ? .disk : .memory))
        // A trim takes entries alone.
        if hasFolder { test.cache.removeData(for: a) } else { test.cache.trimMemory(to: 0) }
        test.transport.script(a, [])
        #expect(try await next(test, a)["Range"] == nil, "what is complete leaves no beginning behind")
    }

    @Test("a later call continues by the validators of the answer that was broken off", arguments: [true, false])
    func validators(hasFolder: Bool) async throws {
        let test = open(hasFolder ? TemporaryFolder() : nil)
        let modified = (test.date.now - 60).httpText
        for (name, validators, condition) in [
            ("tag", ["ETag": "\"v\""], "\"v\""),
            ("date", ["Last-Modified": modified, "Date": test.date.now.httpText], modified),
            ("weak", ["ETag": "W/\"v\""], nil), ("coded", ["ETag": "\"v\"", "Content-Encoding": "gzip"], nil),
        ] as [(String, HTTPHeaders, String?)] {
            try await leave(beginning(30, validators.adding("Content-Length", "100")), test, url(name))
            let headers = try await next(test, url(name))
            #expect(headers["If-Range"] == condition && headers["Range"] == condition.map { _ in "bytes=30-" })
        }
    }

    @Test(
        "a later call takes no beginning of another version, whether the server sends the whole or a part of it",
        arguments: [true, false], [true, false])
    func changed(hasFolder: Bool, sendsPart: Bool) async throws {
        let test = open(hasFolder ? TemporaryFolder() : nil)
        try await leave(beginning(30), test, a)
        let headers: HTTPHeaders = ["ETag": "\"w\"", "Content-Length": "100"]
        let new = ScriptedTransport.Step.response(TransferResponse(headers: headers, body: other))
        test.transport.script(a, sendsPart ? [.response(part(30..<100, tag: "\"w\"")), new] : [new])
        #expect(try await test.cache.getData(a).value == other)
        let requests = test.requests(a).map { $0["If-Range"] }
        #expect(requests == (sendsPart ? [nil, "\"v\"", nil] : [nil, "\"v\""]))
    }

    enum Removal: String, CaseIterable {
        case remove, clear, flush, fromMemory, clearMemory, memoryOnly, noStore

        func leaves(hasFolder: Bool) -> Bool {
            switch self {
            case .remove, .clear, .flush, .noStore: false
            case .fromMemory, .clearMemory: hasFolder
            case .memoryOnly: !hasFolder
            }
        }
    }

    @Test(
        "beginnings go with their entry, and nothing is kept where nothing may be",
        arguments: Removal.allCases, [true, false])
    func removal(removal: Removal, hasFolder: Bool) async throws {
        let folder = hasFolder ? TemporaryFolder() : nil
        var test = open(folder) { if removal == .memoryOnly { $0.cachePolicy = .memoryOnly } }
        try await leave(
            beginning(30, removal == .noStore ? fields.adding("Cache-Control", "no-store") : fields), test, a)
        test.date.advance(by: 10)
        switch removal {
        case .remove: test.cache.removeData(for: a)
        case .clear: test.cache.clear()
        case .flush: test.cache.flush(olderThan: .seconds(5))
        case .fromMemory: test.cache.removeData(for: a, from: .memory)
        case .clearMemory: test.cache.clearMemory()
        case .memoryOnly, .noStore: break
        }
        if let folder { test = await test.reopened(folder) }
        #expect(try await next(test, a)["Range"] == (removal.leaves(hasFolder: hasFolder) ? "bytes=30-" : nil))
    }
}
