import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Typed values", .timeLimit(.minutes(2)))
struct TypedValueTests {
    private let test = TestCache()

    @Test("a value in memory is not decoded again, as long as there is room for it")
    func memory() async throws {
        let limit = 1 << 20
        let test = TestCache { $0.valueMemoryLimit = limit }
        let decoder = CountingValueDecoder()
        let large = Feed(String(repeating: "x", count: limit / 16))
        for number in 0..<40 {
            test.transport.script(url("\(number)"), [.body(large.bytes)])
            _ = try await test.cache.getValue(Feed.self, from: url("\(number)"), decoder: decoder).value
        }
        #expect(test.cache.valueMemorySize <= limit && test.cache.valueMemorySize >= large.bytes.count)
        let response = try await test.cache.getValue(Feed.self, from: url("39"), decoder: decoder).response
        #expect(response.value == large && response.source == .memory && decoder.decodes.value == 40)
        test.cache.clearMemory()
        #expect(test.cache.valueMemorySize == 0)
    }

    @Test("bytes on disk are decoded without a request, for a call and for a look without the network")
    func disk() async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        #expect(test.cache.value(Feed.self, for: url("a")) == nil)
        try test.cache.addData(Feed.sample.bytes, for: url("a"))
        #expect(test.cache.value(Feed.self, for: url("a")) == .sample)
        for isCall in [false, true] {
            test = await test.reopened(folder)
            if isCall {
                let response = try await test.cache.getValue(Feed.self, from: url("a")).response
                #expect(response.value == .sample && response.source == .disk)
            } else {
                #expect(test.cache.value(Feed.self, for: url("a")) == .sample)
            }
            #expect(test.transport.transfers.isEmpty && test.cache.valueMemorySize > 0)
        }
    }

    @Test("a task for a value has what other tasks have: the result, the attempts, identity, a description, hooks")
    func task() async throws {
        test.transport.script(url("a"), [.body(Feed.sample.bytes)])
        test.transport.script(url("b"), [.status(404)])
        let good = test.cache.getValue(Feed.self, from: url("a"))
        let bad = test.cache.getValue(Feed.self, from: url("b"))
        #expect(try await good.result.get() == .sample)
        #expect(await bad.error == .status(404))
        #expect(good.attempts == 1 && bad.attempts == 1)
        #expect(Set([good, bad, good]).count == 2)
        #expect("\(good)".hasSuffix("fast finished"))
        let heard = Box<[Feed]>([])
        good.then { feed in heard.update { $0.append(feed) } }
        await test.cache.idle()
        #expect(heard.value == [.sample])
    }

    @Test("property lists, and JSON with options, are decoded")
    func formats() async throws {
        struct Entry: Codable, Equatable { var firstName: String }
        let entry = Entry(firstName: "Ada")
        test.transport.script(url("a"), [.body(try PropertyListEncoder().encode(entry))])
        test.transport.script(url("b"), [.body(Data(#"{"first_name":"Ada"}"#.utf8))])
        let snake = JSONValueDecoder("snake case") { $0.keyDecodingStrategy = .convertFromSnakeCase }
        #expect(try await test.cache.getValue(Entry.self, from: url("a"), decoder: .propertyList).value == entry)
        #expect(try await test.cache.getValue(Entry.self, from: url("b"), decoder: snake).value == entry)
    }

    // MARK: Bytes that cannot be decoded

    @Test("an answer that cannot be decoded ends the call with the path of the failing key, and stays for other calls")
    func failingKey() async throws {
        test.transport.script(url("a"), [.body(Data(#"{"items":[{"name":"one"},{"title":"two"}]}"#.utf8))])
        let error = await test.cache.getValue(Feed.self, from: url("a")).error
        #expect(error == .undecodable)
        #expect(error?.detail == "no items[1].name")
        #expect(test.transport.transfers.count == 1)
        #expect(try await test.cache.getData(url("a")).value.count == 42)
        #expect(test.transport.transfers.count == 1)
    }

    @Test(
        "stored bytes that cannot be decoded are fetched again once, unless the call may only read the cache",
        arguments: [Feed.sample.bytes, Feed.broken, nil])
    func brokenEntry(answer: Data?) async throws {
        try test.cache.addData(Feed.broken, for: url("a"))
        var request = DataRequest(url("a"))
        if let answer { test.transport.script(url("a"), [.body(answer)]) } else { request.cachePolicy = .cacheOnly }
        let result = await test.cache.getValue(Feed.self, from: request).result
        #expect(result == (answer == Feed.sample.bytes ? .success(.sample) : .failure(.undecodable)))
        #expect(test.transport.transfers.count == (answer == nil ? 0 : 1))
        if answer == Feed.sample.bytes { #expect(test.cache.data(for: url("a")) == answer) }
    }

    // MARK: Newer bytes

    @Test("a value that is out of date is answered at once, and its task tells of the newer one")
    func newer() async throws {
        let old: HTTPHeaders = ["Cache-Control": "max-age=1, stale-while-revalidate=100"]
        test.transport.script(
            url("a"), [Feed.sample, .empty].map { .response(TransferResponse(headers: old, body: $0.bytes)) })
        _ = try await test.cache.getValue(Feed.self, from: url("a")).value
        test.date.advance(by: 10)
        let heard = Box<[Feed]>([])
        let task = test.cache.getValue(Feed.self, from: url("a")).onRevalidate { newer in
            if case .success(let response) = newer { heard.update { $0.append(response.value) } }
        }
        let response = try await task.response
        #expect(response.value == .sample && response.source == .stale)
        #expect(try await response.revalidation?.value == .empty)
        await test.cache.idle()
        #expect(heard.value == [.empty])
        #expect(test.transport.transfers.count == 2)
    }

    @Test("newer bytes take the place of a value in memory", arguments: ["added", "fetched by another call"])
    func replaced(how: String) async throws {
        test.transport.script(url("a"), [.body(Feed.sample.bytes), .body(Feed.empty.bytes)])
        _ = try await test.cache.getValue(Feed.self, from: url("a")).value
        if how == "added" {
            try test.cache.addData(Feed.empty.bytes, for: url("a"))
        } else {
            _ = try await test.cache.getRemoteData(url("a")).value
        }
        #expect(try await test.cache.getValue(Feed.self, from: url("a")).value == .empty)
    }

    @Test("a removed value is fetched again, and takes no memory")
    func removal() async throws {
        test.transport.script(url("a"), [.body(Feed.sample.bytes)])
        for count in 1...2 {
            _ = try await test.cache.getValue(Feed.self, from: url("a")).value
            #expect(test.transport.transfers.count == count)
            #expect(test.cache.value(Feed.self, for: url("a")) == .sample)
            test.cache.removeData(for: url("a"))
            #expect(test.cache.valueMemorySize == 0)
            #expect(test.cache.value(Feed.self, for: url("a")) == nil)
        }
    }

    // MARK: Queues, failures, the end

    @Test("failures, retries and progress of the fetch reach the calls for a value, those that join late, too")
    func hooks() async throws {
        let test = TestCache { $0.progressInterval = .zero }
        let heard = Box<[String]>([])
        func call(_ name: String) -> ValueTask<Feed> {
            let request = DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1)))
            return test.cache.slowGetValue(Feed.self, from: request)
                .onFail { error, isFatal in heard.update { $0.append("\(name): \(error.shortDescription) \(isFatal)") }
                }
                .onRetry { heard.update { $0.append("\(name): retry") } }
                .onProgress { progress in heard.update { $0.append("\(name): \(progress.received)") } }
        }
        let early = call("early")
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        try await test.clock.waitForSleepers(1)
        let late = call("late")
        try await late.waitForFailures()
        test.clock.advance(by: .seconds(1))
        let transfer = try await test.transport.nextTransfer()
        let end = Feed.sample.bytes.count
        transfer.send(progress: end, of: end)
        transfer.finish(with: Feed.sample.bytes)
        for task in [early, late] { #expect(try await task.value == .sample) }
        await test.cache.idle()
        for name in ["early", "late"] {
            let expected = ["connection lost false", "retry", "\(end)"].map { "\(name): \($0)" }
            #expect(heard.value.filter { $0.hasPrefix(name) } == expected)
        }
    }

    @Test("calls end when the cache is shut down")
    func shutdown() async throws {
        let task = test.cache.getValue(Feed.self, from: url("a"))
        await test.cache.shutdown()
        #expect(await task.error == .cancelled)
        #expect(await test.cache.getValue(Feed.self, from: url("a")).error == .shutDown)
    }
}
