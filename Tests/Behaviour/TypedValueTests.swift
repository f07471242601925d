import Dispatch
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

    @Test("a value whose bytes are there is being decoded; tasks of all kinds have one type of state")
    func state() async throws {
        struct Slow: ValueDecoder {
            let door: Door
            var identifier: String { "slow" }
            func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
                door.pass()
                return try JSONDecoder().decode(type, from: data)
            }
        }
        let door = Door()
        test.transport.script(url("a"), [.body(Feed("first").bytes)])
        let task = test.cache.getValue(Feed.self, from: url("a"), decoder: Slow(door: door))
        try await door.waitForArrivals(1)
        #expect(task.state == .decoding)
        door.stayOpen()
        _ = try await task.value
        let ended: [any FetchTask] = [task, test.cache.getData(url("a"))]
        _ = await test.cache.getData(url("a")).ending
        #expect(ended.map(\.state) == [.finished, .finished])
    }

    @Test(
        "a value that the program stores is read back, for a key, a URL and after a restart", arguments: [true, false])
    func storing(hasFolder: Bool) async throws {
        let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil)
        let (first, second) = (Feed("first"), Feed("second"))
        try test.cache.addValue(first, for: "settings")
        try test.cache.addValue(first, for: url("a"), encoder: PropertyListEncoder())
        #expect(test.cache.readValue(Feed.self, for: "settings") == first)
        try test.cache.addValue(second, for: "settings")
        #expect(await test.cache.value(Feed.self, for: "settings") == second)
        #expect(await test.cache.value(Feed.self, for: "nothing") == nil)
        let format = PropertyListValueDecoder()
        #expect(try await test.cache.getValue(Feed.self, from: url("a"), decoder: format).value == first)
        #expect(await test.cache.value(Feed.self, for: url("a"), decoder: format) == first)
        #expect(test.transport.transfers.isEmpty)
        if hasFolder { #expect(await test.reopened().cache.value(Feed.self, for: "settings") == second) }
    }

    @Test("a value that cannot be encoded, or has an empty key, throws, and what was stored before stays")
    func unencodable() throws {
        struct Unencodable: Encodable {
            func encode(to encoder: any Encoder) throws {
                throw EncodingError.invalidValue(self, .init(codingPath: [], debugDescription: "secret"))
            }
        }
        try test.cache.addValue(Feed.sample, for: "a")
        let error = #expect(throws: DipperError.unencodable) { try test.cache.addValue(Unencodable(), for: "a") }
        #expect(error?.underlying is EncodingError && error.map { !"\($0)".contains("secret") } == true)
        #expect(throws: DipperError.unencodable) { try test.cache.addValue(Double.nan, for: url("a")) }
        #expect(throws: DipperError.emptyKey) { try test.cache.addValue(Feed.sample, for: "") }
        #expect(test.cache.readValue(Feed.self, for: "a") == .sample)
    }

    @Test("a closure gets the value, from either queue and from the network alone")
    func closures() async throws {
        let (first, second) = (Feed("first"), Feed("second"))
        test.transport.script(url("a"), [.body(first.bytes), .body(second.bytes)])
        let got = Box<[Feed]>([])
        func end(_ task: ValueTask<Feed>) async { _ = await task.ending }
        await end(test.cache.slowGetValue(Feed.self, from: url("a")) { feed in got.update { $0.append(feed) } })
        await end(test.cache.getValue(Feed.self, from: url("a")) { feed in got.update { $0.append(feed) } })
        await end(test.cache.getRemoteValue(Feed.self, from: url("a")) { feed in got.update { $0.append(feed) } })
        #expect(got.value == [first, first, second])
        #expect(try await test.cache.getRemoteValue(Feed.self, from: url("a")).value == second)
        #expect(test.transport.transfers(of: url("a")).count == 3)
    }

    @Test("bytes on disk are decoded without a request, for a call and for a look without the network")
    func disk() async throws {
        var test = TestCache(folder: TemporaryFolder())
        #expect(test.cache.readValue(Feed.self, for: url("a")) == nil)
        try test.cache.addData(Feed.sample.bytes, for: url("a"))
        #expect(test.cache.readValue(Feed.self, for: url("a")) == .sample)
        for isCall in [false, true] {
            test = await test.reopened()
            if isCall {
                let response = try await test.cache.getValue(Feed.self, from: url("a")).response
                #expect(response.value == .sample && response.source == .disk)
            } else {
                #expect(test.cache.readValue(Feed.self, for: url("a")) == .sample)
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
        #expect(try await test.cache.getValue(Entry.self, from: url("a"), decoder: .propertyList).value == entry)
        let snake = try await test.cache.getValue(
            Entry.self, from: url("b"), decoder: .json("snake case") { $0.keyDecodingStrategy = .convertFromSnakeCase }
        ).value
        #expect(snake == entry)
    }

    @Test(
        "Property lists that are nested deeply, or might be, are refused before Foundation's parser, which has no limit",
        arguments: [
            ("<array>", "</array>", 500, false), ("<array>", "</array>", 600, true),
            ("<array>", "</array>", 100_000, true), ("<dict><key>a</key>", "</dict>", 100_000, true),
            ("<array><!-- </array> -->", "</array>", 100_000, true),
            ("<array><![CDATA[</array>]]>", "</array>", 100_000, true), ("<array/ >", "", 100_000, true),
            ("<array/><string>a</string>", "", 600, false), ("(", ")", 100_000, true), ("{a=", ";}", 100_000, true),
        ])
    func deepLists(opening: String, closing: String, count: Int, isRefused: Bool) throws {
        struct Anything: Decodable {
            init(from decoder: any Decoder) {}
        }
        let nested = String(repeating: opening, count: count) + String(repeating: closing, count: count)
        let text = opening.hasPrefix("<") ? "<?xml version=\"1.0\"?><plist><array>\(nested)</array></plist>" : nested
        func refuses(_ data: Data) -> Bool {
            (try? PropertyListValueDecoder().decode(Anything.self, from: data)) == nil
        }
        #expect(refuses(Data(text.utf8)) == isRefused)
        for encoding in [String.Encoding.utf16, .utf16LittleEndian, .utf32] where opening.hasPrefix("<") {
            #expect(refuses(try #require(text.data(using: encoding))))
        }
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
        if answer == Feed.sample.bytes { #expect(test.cache.readData(for: url("a")) == answer) }
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
            #expect(test.cache.readValue(Feed.self, for: url("a")) == .sample)
            test.cache.removeData(for: url("a"))
            #expect(test.cache.valueMemorySize == 0)
            #expect(test.cache.readValue(Feed.self, for: url("a")) == nil)
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

    @Test("a call that joins a fetch hears of the bytes so far")
    func progressSoFar() async throws {
        let test = TestCache { $0.progressInterval = .zero }
        func call() -> (task: ValueTask<Feed>, received: Box<Int>) {
            let received = Box(0)
            let task = test.cache.getValue(Feed.self, from: a)
                .onProgress { progress in received.update { $0 = progress.received } }
            return (task, received)
        }
        let first = call()
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: 5, of: 9)
        try await first.received.wait { $0 == 5 }
        let second = call()
        try await second.received.wait { $0 == 5 }
        transfer.finish(with: Feed.sample.bytes)
        for call in [first, second] { #expect(try await call.task.value == .sample) }
    }

    @Test("calls end when the cache is shut down")
    func shutdown() async throws {
        let task = test.cache.getValue(Feed.self, from: url("a"))
        await test.cache.shutdown()
        #expect(await task.error == .cancelled)
        #expect(await test.cache.getValue(Feed.self, from: url("a")).error == .shutDown)
    }

    // MARK: Made once for several calls

    private let a = url("a")

    @Test("calls share a request and a decoding, whenever they join", arguments: ["fetch", "decoding"])
    func joining(stage: String) async throws {
        let decoder = CountingValueDecoder(isHeld: true)
        func call() -> ValueTask<Feed> { test.cache.getValue(Feed.self, from: a, decoder: decoder) }
        var tasks = [call()]
        let transfer = try await test.transport.nextTransfer()
        if stage == "fetch" { tasks += (0..<20).map { _ in call() } }
        transfer.finish(with: Feed.sample.bytes)
        try await decoder.decodes.wait { $0 == 1 }
        if stage == "decoding" { tasks += (0..<20).map { _ in call() } }
        decoder.release(tasks.count)
        for task in tasks { #expect(try await task.value == .sample) }
        #expect(test.transport.transfers.count == 1)
        #expect(decoder.decodes.value == 1)
    }

    @Test("values of two types, and calls of different policies, share a request; equal values are decoded once")
    func kinds() async throws {
        struct Count: Decodable, Sendable { var items: [[String: String]] }
        let decoder = CountingValueDecoder()
        let fresh = DataRequest(a).with(\.cachePolicy, .ignoreCache)
        let feed = test.cache.getValue(Feed.self, from: a, decoder: decoder)
        let newest = test.cache.getValue(Feed.self, from: fresh, decoder: decoder)
        let count = test.cache.slowGetValue(Count.self, from: a)
        let bytes = test.cache.getData(a)
        try await test.transport.nextTransfer().finish(with: Feed.sample.bytes)
        #expect(try await feed.value == .sample)
        #expect(try await newest.value == .sample)
        #expect(try await count.value.items.count == 2)
        #expect(try await bytes.value == Feed.sample.bytes)
        #expect(test.transport.transfers.count == 1)
        #expect(decoder.decodes.value == 1)
    }

    @Test("a failed fetch fails all calls; stored bytes that several calls cannot decode are fetched again once")
    func failures() async throws {
        let record = EventRecord()
        let test = TestCache {
            $0.retryPolicy = .never
            $0.eventSinks.append(record)
        }
        test.transport.script(a, [.status(404)])
        let refused = test.cache.getValue(Feed.self, from: a)
        let bytes = test.cache.getData(a)
        #expect(await refused.error == .status(404))
        #expect(await bytes.error == .status(404))

        let b = url("b")
        try test.cache.addData(Feed.broken, for: b)
        let decoder = CountingValueDecoder(isHeld: true)
        let feed = test.cache.getValue(Feed.self, from: b, decoder: decoder)
        let names = test.cache.getValue([String: [Feed.Item]].self, from: b, decoder: decoder)
        try await decoder.decodes.wait { $0 == 2 }
        decoder.release(10)
        let transfer = try await test.transport.nextTransfer()
        // The second call that could not decode what was stored waits for the fetch of the first.
        try await record.wait { events in
            events.count { if case .callJoined = $0.kind { $0.key == CacheKey(b) } else { false } } == 2
        }
        transfer.finish(with: Feed.sample.bytes)
        #expect(try await feed.value == .sample)
        #expect(try await names.value["items"]?.count == 2)
        #expect(test.transport.transfers(of: b).count == 1)
    }

    @Test("cancelling one call leaves the others; work ends with the last call", arguments: [1, 2])
    func cancelling(count: Int) async throws {
        let tasks = (0..<2).map { _ in test.cache.getValue(Feed.self, from: a) }
        let transfer = try await test.transport.nextTransfer()
        for task in tasks.prefix(count) {
            task.cancel()
            #expect(await task.error == .cancelled)
        }
        if count == 1 {
            transfer.finish(with: Feed.sample.bytes)
            #expect(try await tasks[1].value == .sample)
        } else {
            try await transfer.wait { $0.isCancelled }
            await test.cache.idle()
            #expect(test.cache.readValue(Feed.self, for: a) == nil)
        }
    }

    @Test("work has the queue of its most urgent call, while calls join, move and are cancelled")
    func urgency() async throws {
        let slow = test.cache.slowGetValue(Feed.self, from: a)
        let transfer = try await test.transport.nextTransfer()
        let fast = test.cache.getValue(Feed.self, from: a)
        try await transfer.wait { $0.queue == .fast }
        #expect(test.cache.queueCounts == QueueCounts(fastRunning: 1))
        fast.cancel()
        try await transfer.wait { $0.queue == .slow }
        let other = test.cache.getValue([String: [Feed.Item]].self, from: a)
        try await transfer.wait { $0.queue == .fast }
        test.cache.moveTaskToSlowQueue(a)
        try await transfer.wait { $0.queue == .slow }
        #expect(other.queue == .slow && slow.queue == .slow)
        transfer.finish(with: Feed.sample.bytes)
        #expect(try await slow.value == .sample)
        #expect(try await other.value["items"]?.count == 2)
        #expect(test.transport.transfers.count == 1)
    }

    @Test(
        "a removal during the work lets its calls have the value, and keeps nothing of it for later calls",
        arguments: ["fetch", "decoding"], [CacheTiers.all, .memory])
    func removed(stage: String, tiers: CacheTiers) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let decoder = CountingValueDecoder(isHeld: true)
        func call() -> ValueTask<Feed> { test.cache.getValue(Feed.self, from: a, decoder: decoder) }
        func remove() { test.cache.removeData(for: a, from: tiers) }
        let early = call()
        let transfer = try await test.transport.nextTransfer()
        if stage == "fetch" { remove() }
        transfer.finish(with: Feed.sample.bytes)
        try await decoder.decodes.wait { $0 == 1 }
        if stage == "decoding" { remove() }
        decoder.release(10)
        #expect(try await early.value == .sample)
        await test.cache.idle()
        #expect(test.cache.valueMemorySize == 0)
        if tiers == .all {
            #expect(test.cache.readData(for: a) == nil)
            let late = call()
            try await test.transport.nextTransfer().finish(with: Feed.empty.bytes)
            #expect(try await late.value == .empty)
        } else {
            // The bytes on disk hold.
            #expect(try await call().value == .sample)
        }
        #expect(decoder.decodes.value == 2)
    }

    @Test("bytes that are added during the work take the place of what it makes")
    func added() async throws {
        let decoder = CountingValueDecoder(isHeld: true)
        let early = test.cache.getValue(Feed.self, from: a, decoder: decoder)
        try await test.transport.nextTransfer().finish(with: Feed.sample.bytes)
        try await decoder.decodes.wait { $0 == 1 }
        try test.cache.addData(Feed.empty.bytes, for: a)
        decoder.release(10)
        _ = try await early.value
        await test.cache.idle()
        #expect(try await test.cache.getValue(Feed.self, from: a, decoder: decoder).value == .empty)
        #expect(test.cache.readData(for: a) == Feed.empty.bytes)
    }

    @Test("calls for values are cancelled and moved by their URL, and with all others, at any stage")
    func cancelledByURL() async throws {
        for isAll in [false, true] {
            let decoder = CountingValueDecoder(isHeld: true)
            let test = TestCache()
            let task = test.cache.getValue(Feed.self, from: a, decoder: decoder)
            try await test.transport.nextTransfer().finish(with: Feed.sample.bytes)
            try await decoder.decodes.wait { $0 == 1 }
            if isAll { test.cache.cancelAll() } else { test.cache.cancel(a) }
            #expect(await task.error == .cancelled)
            decoder.release(1)
            await test.cache.idle()
            #expect(test.cache.valueMemorySize == 0)
        }
    }
}

struct Feed: Codable, Sendable, Equatable {
    struct Item: Codable, Equatable { var name: String }
    var items: [Item]

    static let sample = Feed("one", "two")
    static let empty = Feed()
    static let broken = Data("nonsense".utf8)

    init(_ names: String...) { items = names.map(Item.init) }

    var bytes: Data { (try? JSONEncoder().encode(self)) ?? Data() }
}

/// A decoder of JSON that counts the values that it is asked for, and holds each of them until the test lets it go on.
struct CountingValueDecoder: ValueDecoder {
    let identifier: String
    let isHeld: Bool
    let decodes = Box(0)
    private let inside = DispatchSemaphore(value: 0)

    init(_ identifier: String = "counting", isHeld: Bool = false) {
        self.identifier = identifier
        self.isHeld = isHeld
    }

    func release(_ count: Int = 1) { for _ in 0..<count { inside.signal() } }

    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        decodes.update { $0 += 1 }
        if isHeld { inside.wait() }
        return try JSONDecoder().decode(type, from: data)
    }
}
