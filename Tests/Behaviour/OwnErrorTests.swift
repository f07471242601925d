import TestSupport
import Testing

@Suite("Errors of the program's own code", .timeLimit(.minutes(2)))
struct OwnErrorTests {
    private struct Mine: Error, CustomStringConvertible {
        let place: String
        var description: String { "refused" }
    }

    private struct Failing: ValueDecoder {
        let identifier = "failing"
        func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
            throw Mine(place: "value")
        }
    }

    private static func fail<Value>(_ place: String) throws -> Value { throw Mine(place: place) }
    private static func place(_ error: DipperError?) -> String? { (error?.underlying as? Mine)?.place }

    private static let hooks: [(place: String, kind: DipperError, request: DataRequest)] = [
        (
            "modifier", .rejected,
            DataRequest(url("a")).with(\.modifier, RequestModifier(identity: "") { _ in try fail("modifier") })
        ),
        (
            "credentials", .rejected,
            DataRequest(url("a")).with(\.credentials, .provider(identity: "") { _ in try fail("credentials") })
        ),
        (
            "renewed credentials", .rejected,
            DataRequest(url("closed"))
                .with(
                    \.credentials,
                    .provider(identity: "") { try $0.demand == nil ? "old" : fail("renewed credentials") })
        ),
        (
            "transform", .undecodable,
            DataRequest(url("a")).with(\.bodyTransform, BodyTransform(identifier: "") { _ in try fail("transform") })
        ),
        (
            "redirect", .rejected,
            DataRequest(url("moved")).with(\.redirectHandler, RedirectHandler { _, _ in try fail("redirect") })
        ),
        (
            "validation", .rejected,
            DataRequest(url("a")).with(\.validation, ResponseValidation { _ in try fail("validation") })
        ),
        ("provider", .unreadable, DataRequest(CustomProvider(key: "mine") { try fail("provider") })),
    ]

    @Test("An error that a hook throws reaches each caller as itself, awaited, told and prefetched", arguments: 0..<7)
    func hooks(number: Int) async throws {
        let test = TestCache()
        let (place, kind, request) = Self.hooks[number]
        test.transport.script(url("a"), [.text("1")])
        test.transport.script(url("closed"), [.status(401, ["WWW-Authenticate": "Bearer"])])
        test.transport.script(url("moved"), [.redirect("/a")])
        let told = Box<[String?]>([])
        let tasks = (0..<2).map { _ in
            test.cache.getData(request).onFail { error, _ in told.update { $0.append(Self.place(error)) } }
        }
        for task in tasks {
            let error = await task.error
            #expect(Self.place(error) == place && error == kind && error?.description == "\(kind): Mine")
            _ = await task.ending
        }
        #expect(told.value == [place, place])
        do {
            _ = try await test.cache.getData(request).value
            Issue.record("there is no error")
        } catch {
            #expect(Self.place(error as? DipperError) == place)
        }
        let result = await DataPrefetcher(test.cache, [request]).value
        #expect(result.failed.map { Self.place($0.error) } == [place])
    }

    @Test("A hook's error that may pass is tried again, and the hook that is told of the retry has it")
    func retried() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.text("bad"), .text("good")])
        let request = DataRequest(url("a")).with(\.retryPolicy, .fixed(.zero))
            .with(
                \.validation,
                ResponseValidation { response in
                    response.body == Data("good".utf8) ? nil : .timedOut.with(underlying: Mine(place: "validation"))
                })
        let told = Box<[String?]>([])
        let task = test.cache.getData(request)
            .onFail { error, isFatal in told.update { $0.append(isFatal ? "fatal" : Self.place(error)) } }
            .onRetry { error in told.update { $0.append(Self.place(error)) } }
        await test.whileClockRuns { _ = await task.ending }
        #expect(told.value == ["validation", "validation"])
        #expect(try await task.value == Data("good".utf8))
    }

    @Test("An error of a decoder of values, a processor or a decoder of pictures reaches the caller as itself")
    func made() async throws {
        let test = TestImageCache()
        try test.script(url("a"), .sample(4, 4))
        let value = await test.cache.data.getValue([Int].self, from: url("a"), decoder: Failing()).error
        #expect(Self.place(value) == "value" && value == .undecodable && value?.detail == "Mine")
        let json = await test.cache.data.getValue([Int].self, from: url("a")).error
        #expect(json?.underlying is DecodingError)
        let failing = ImageProcessors.Custom("mine") { _, _ in try Self.fail("processor") }
        let task = test.cache.getImage(ImageRequest(url("a")).processed(by: failing))
        let picture = await task.error
        #expect(Self.place(picture) == "processor" && picture == .processingFailed)
    }

    private enum Leaky: Error { case expired(token: String) }

    @Test("The text of a hook's error, which may hold secrets, is in no description, log or event; its type is")
    func secret() async throws {
        let lines = Box<[String]>([])
        let test = TestCache {
            $0.logger = .recording(lines: { line in lines.update { $0.append(line) } })
            $0.observe { event in lines.update { $0.append("\(event)") } }
        }
        let credentials = Credentials.provider(identity: "") { _ in throw Leaky.expired(token: "s3cr3t") }
        let error = await test.cache.getData(DataRequest(url("a")).with(\.credentials, credentials)).error
        await test.cache.shutdown()
        #expect(error?.description == "rejected: Leaky" && error?.detail == "Leaky")
        #expect(lines.value.contains { $0.contains("rejected: Leaky") })
        #expect(!lines.value.contains { $0.contains("s3cr3t") })
    }

    @Test("The underlying error takes no part in comparisons and descriptions")
    func apart() {
        let error = DipperError.rejected.with(underlying: Mine(place: "here"))
        #expect(error == .rejected && Set([error, .rejected]).count == 1)
        #expect("\(error)" == "rejected" && error.localizedDescription == "rejected")
        var dumped = ""
        dump(error, to: &dumped)
        #expect(!dumped.contains("here") && !String(reflecting: error).contains("here"))
        #expect(DipperError.rejected.underlying == nil)
    }
}
