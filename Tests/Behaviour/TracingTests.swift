import DipperTracing
import FaultServer
import InMemoryTracing
import TestSupport
import Testing
import Tracing

/// The in-memory tracer, with the header field of W3C Trace Context.
private struct W3CTracer: Tracer {
    let spans = InMemoryTracer(
        idGenerator: .init(nextTraceID: { hexadecimal() + hexadecimal() }, nextSpanID: { hexadecimal() }))
    /// The end of the field, after the identifiers.
    var suffix = "-01"

    private static func hexadecimal() -> String {
        let digits = String(UInt64.random(in: 1 ... .max), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    func startSpan<Instant: TracerInstant>(
        _ operationName: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant, function: String, file fileID: String, line: UInt
    ) -> InMemorySpan {
        spans.startSpan(
            operationName, context: context(), ofKind: kind, at: instant(), function: function, file: fileID, line: line
        )
    }

    func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let span = context.inMemorySpanContext else { return }
        injector.inject("00-\(span.traceID)-\(span.spanID)\(suffix)", forKey: "traceparent", into: &carrier)
    }

    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {}

    func forceFlush() {}
}

/// The spans of a test that have ended.
private struct Trace {
    let spans: [FinishedInMemorySpan]
    let open: [String]

    init(_ tracer: W3CTracer) {
        (spans, open) = (tracer.spans.finishedSpans, tracer.spans.activeSpans.map(\.operationName))
    }

    /// The names of a span and of those that it is a part of, the outermost first.
    func path(_ span: FinishedInMemorySpan) -> String {
        let name = span.operationName.replacingOccurrences(of: "dipper.", with: "")
        return spans.first { $0.spanID == span.parentSpanID }.map { "\(path($0))/\(name)" } ?? name
    }

    var paths: [String] { spans.map(path).sorted() }

    /// In the order of their begin.
    subscript(name: String) -> [FinishedInMemorySpan] {
        spans.filter { $0.operationName == name }
            .sorted { $0.startInstant.nanosecondsSinceEpoch < $1.startInstant.nanosecondsSinceEpoch }
    }
}

extension FinishedInMemorySpan {
    fileprivate func text(_ name: String) -> String? {
        switch attributes.get(name) {
        case .string(let text): text
        case .int32(let number): "\(number)"
        case .int64(let number): "\(number)"
        case .bool(let flag): "\(flag)"
        default: nil
        }
    }

    fileprivate func texts(_ names: String...) -> [String?] { names.map(text) }

    fileprivate var field: String { "00-\(traceID)-\(spanID)-01" }

    /// Everything that the span says.
    fileprivate var everything: String {
        var text = "\(operationName) \(status.map { "\($0)" } ?? "") \(events) \(errors)"
        attributes.forEach { text += " \($0)=\($1)" }
        return text
    }
}

/// The code of the guide *Tracing calls*.
private enum TracingGuide {
    /// The program of the tests goes on without a tracer.
    enum InstrumentationSystem {
        static func bootstrap(_ tracer: some Tracer) {}
    }

    final class View {
        var image: Image?
    }

    static func traced(_ tracer: some Tracer, _ folder: URL, _ url: URL, _ view: View) async throws -> ImageCache {
        InstrumentationSystem.bootstrap(tracer)  // of swift-otel, for example

        var configuration = ImageCache.Configuration(directory: folder)
        configuration.data.eventSinks = [TraceSink(propagatingTo: ["images.example.org"])]
        let cache = ImageCache(configuration)

        try await withSpan("show the front page") { _ in
            view.image = try await cache.getImage(url).value  // a part of the span above
        }
        return cache
    }
}

@Suite("Traces of calls", .timeLimit(.minutes(2)))
struct TracingTests {
    private let tracer = W3CTracer()
    private let a = url("a")
    private let body = Data("body".utf8)

    private func traced(
        _ folder: TemporaryFolder? = nil, hosts: Set<String> = [],
        _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) -> TestCache {
        TestCache(folder: folder, sink: TraceSink(tracer, propagatingTo: hosts)) {
            $0.retryPolicy = .fixed(.zero, retries: 1)
            change(&$0)
        }
    }

    private func tracedImages(
        _ folder: TemporaryFolder? = nil, redaction: Redaction = .standard
    ) -> TestImageCache {
        TestImageCache(folder: folder) { $0.data.eventSinks = [TraceSink(tracer, redaction: redaction)] }
    }

    /// Ends the cache, so that all has been told, and returns its trace.
    private func trace(_ cache: DataCache, sourceLocation: SourceLocation = #_sourceLocation) async -> Trace {
        await cache.shutdown()
        let trace = Trace(tracer)
        #expect(trace.open == [], "spans that have not ended", sourceLocation: sourceLocation)
        return trace
    }

    private func trace(_ cache: ImageCache, sourceLocation: SourceLocation = #_sourceLocation) async -> Trace {
        await cache.shutdown()
        return await trace(cache.data, sourceLocation: sourceLocation)
    }

    @Test("The names of steps go through the sink's own rule of redaction")
    func steps() async throws {
        let test = tracedImages(redaction: Redaction(secretNames: ["pet"]))
        try test.script(a, .sample())
        _ = try await test.cache.getImage(ImageRequest(a).processed(by: Inverting("pet=rex"))).value
        #expect(await trace(test.cache)["dipper.step"].map { $0.text("dipper.step") } == ["test.pet=***"])
    }

    // MARK: The tree

    @Test("A call for a picture is a part of the caller's span, and all work for the picture is a part of the call")
    func picture() async throws {
        let test = tracedImages(TemporaryFolder())
        try test.script(a, .sample(40, 30))
        let request = ImageRequest(a).processed(by: Inverting("one") |> Inverting("two"))
        _ = try await tracer.withSpan("scroll") { _ in try await test.cache.getImage(request).value }
        let trace = await trace(test.cache)
        let call = "scroll/call"
        let (fetch, attempt) = ("\(call)/fetch", "\(call)/fetch/attempt")
        let wanted = [
            "scroll", call, "\(call)/decode", "\(call)/step", "\(call)/step", fetch, attempt, "\(attempt)/GET",
            "\(fetch)/lookup",
        ]
        #expect(trace.paths.filter { !$0.hasSuffix("/write") } == wanted.sorted())
        let writes = trace.paths.filter { $0.hasSuffix("/write") }
        #expect(!writes.isEmpty && writes.allSatisfy { $0.hasPrefix(call) })
        #expect(Set(trace.spans.map(\.traceID)).count == 1)
        #expect(
            trace["dipper.call"][0].texts("dipper.key", "dipper.queue", "dipper.source") == [
                a.absoluteString, "fast", "network",
            ])
        #expect(trace["dipper.step"].map { $0.text("dipper.step") } == ["test.one", "test.two"])
        #expect(trace["dipper.write"].allSatisfy { $0.text("dipper.on_disk") == "true" })
        let sent = trace["GET"][0]
        #expect(
            sent.texts("http.request.method", "url.full", "server.address", "server.port", "http.response.status_code")
                == ["GET", a.absoluteString, "host.test", "80", "200"])
        #expect(sent.kind == .client && sent.text("http.request.resend_count") == nil && sent.status == nil)
        #expect(trace.spans.allSatisfy { $0.status == nil && $0.links.isEmpty })
    }

    @Test("A call that memory answers is a span of its own in the caller's, for bytes, values and pictures")
    func memory() async throws {
        let test = tracedImages()
        try test.script(a, .sample(4, 3))
        test.transport.script(url("v"), [.body(Data("[1]".utf8))])
        _ = try await test.load(a)
        _ = try await test.cache.data.getValue([Int].self, from: url("v")).value
        await test.cache.idle()
        tracer.spans.clearFinishedSpans()
        for _ in 0..<2 {
            try await tracer.withSpan("scroll") { _ in
                _ = try await test.cache.getImage(a).value
                _ = try await test.cache.data.getValue([Int].self, from: url("v")).value
                _ = try await test.cache.data.getData(url("v")).value
            }
        }
        let trace = await trace(test.cache)
        #expect(trace.paths == ["scroll", "scroll"] + Array(repeating: "scroll/call", count: 6))
        #expect(trace["dipper.call"].allSatisfy { $0.text("dipper.source") == "memory" })
    }

    @Test("A picture and a value that memory answers out of date are counted and traced as such")
    func stale() async throws {
        let test = tracedImages()
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=100"]
        try test.script(a, .sample(4, 3), headers: headers)
        test.transport.script(url("v"), [.response(TransferResponse(headers: headers, body: Data("[1]".utf8)))])
        _ = try await test.load(a)
        _ = try await test.cache.data.getValue([Int].self, from: url("v")).value
        await test.cache.idle()
        tracer.spans.clearFinishedSpans()
        test.date.advance(by: 20)
        #expect(try await test.source(a) == .stale)
        #expect(try await test.cache.data.getValue([Int].self, from: url("v")).response.source == .stale)
        await test.cache.idle()
        #expect(test.cache.data.statistics.staleAnswers == 2)
        let trace = await trace(test.cache)
        #expect(trace["dipper.call"].count { $0.text("dipper.source") == "stale" } == 2)
    }

    @Test("A picture made of a stored form, or of another picture in memory, is a part of its call")
    func forms() async throws {
        let test = tracedImages(TemporaryFolder())
        try test.script(a, .sample(40, 30))
        let inverted = ImageRequest(a).inverted
        _ = try await test.load(inverted)
        await test.forgetMemory()
        tracer.spans.clearFinishedSpans()
        for _ in 0..<2 {
            _ = try await test.load(inverted)
            _ = try await test.load(ImageRequest(a).processed(by: Inverting() |> Inverting("twice")))
        }
        let trace = await trace(test.cache)
        #expect(trace.paths.count { $0 == "call" } == 4 && trace.paths.allSatisfy { $0.hasPrefix("call") })
        #expect(trace.paths.contains("call/step"), "\(trace.paths)")
    }

    @Test(
        "A renewal of an answer that is out of date is a part of the call that has caused it", arguments: [true, false])
    func renewal(onDisk: Bool) async throws {
        let test = traced(onDisk ? TemporaryFolder() : nil)
        try await test.keep("1", ["Cache-Control": "max-age=10, stale-while-revalidate=100"], for: a)
        await test.cache.synchronize()
        if onDisk { test.cache.clearMemory() }
        tracer.spans.clearFinishedSpans()
        test.date.advance(by: 20)
        let response = try await tracer.withSpan("scroll") { _ in try await test.cache.getData(a).response }
        #expect(response.source == .stale)
        try await test.transport.nextTransfer().finish(with: body)
        let trace = await trace(test.cache)
        #expect(
            trace.paths.contains("scroll/call/fetch/attempt/GET") && trace["dipper.call"].count == 1, "\(trace.paths)")
        #expect(trace.paths.allSatisfy { $0.hasPrefix("scroll") })
    }

    // MARK: Joining

    @Test("A call that joins a fetch has a link to the fetch, and no parts")
    func joined() async throws {
        let test = traced()
        let tasks = [test.cache.slowGetData(a), test.cache.getData(a), test.cache.getData(a)]
        try await test.transport.nextTransfer().finish(with: body)
        for task in tasks { _ = try await task.value }
        let trace = await trace(test.cache)
        #expect(trace.paths == ["call", "call", "call", "call/fetch", "call/fetch/attempt", "call/fetch/attempt/GET"])
        let (calls, fetch) = (trace["dipper.call"], trace["dipper.fetch"][0])
        #expect(calls.map(\.links.count) == [0, 1, 1] && calls[0].spanID == fetch.parentSpanID)
        for call in calls.dropFirst() {
            #expect(call.links[0].context.inMemorySpanContext == fetch.spanContext && call.traceID != fetch.traceID)
        }
        #expect(fetch.events.map(\.name).contains("moved to fastQueue"))
    }

    @Test(
        "A call for a picture that is on its way has a link to the call that it is made for, also when that is given up"
    )
    func joinedPictures() async throws {
        let test = tracedImages()
        let (first, transfer) = try await test.begin(a)
        let second = test.cache.getImage(a)
        let other = test.cache.getImage(ImageRequest(a).inverted)
        try await test.passThrough()
        first.cancel()
        #expect(await first.error == .cancelled)
        transfer.finish(with: try Image.sample(4, 3).encoded(as: .png))
        _ = try await (second.value, other.value)
        let trace = await trace(test.cache)
        let calls = trace["dipper.call"].filter { $0.text("dipper.key") == a.absoluteString }
        #expect(calls.map(\.links.count) == [0, 1, 1])
        #expect(calls.dropFirst().allSatisfy { $0.links[0].context.inMemorySpanContext == calls[0].spanContext })
        #expect(trace["dipper.decode"].map(\.parentSpanID) == [calls[0].spanID])
    }

    // MARK: Failures

    @Test("Each attempt and each request is a span with its status; what a call survives is no error of the call")
    func retry() async throws {
        let test = traced()
        test.transport.script(a, [.status(503), .body(body)])
        _ = try await test.cache.getData(a).value
        let trace = await trace(test.cache)
        let (attempts, requests) = (trace["dipper.attempt"], trace["GET"])
        #expect(
            attempts.map { $0.text("error.type") } == ["503", nil] && attempts.map(\.status?.code) == [.error, nil])
        #expect(requests.map { $0.text("http.response.status_code") } == ["503", "200"])
        #expect(requests.map { $0.text("http.request.resend_count") } == [nil, "1"])
        #expect(
            requests.map(\.parentSpanID) == attempts.map(\.spanID) && requests.map(\.status?.code) == [.error, nil])
        #expect(trace["dipper.call"][0].status == nil && trace["dipper.fetch"][0].events.map(\.name).contains("parked"))
    }

    @Test(
        "A call that fails has the reason; a cancelled one is no error; a request without an answer ends with its attempt"
    )
    func failures() async throws {
        let test = traced()
        let (secret, gone) = (url("a?token=CANARY&size=2"), url("gone"))
        test.transport.script(secret, [.failure(.tlsRejected.with(detail: "at http://u:CANARY@host.test/"))])
        test.transport.script(gone, [.status(404)])
        #expect(await test.cache.getData(secret).error == .tlsRejected)
        #expect(await test.cache.getData(gone).error == .status(404))
        let (task, _) = try await test.begin(url("slow"))
        task.cancel()
        #expect(await task.error == .cancelled)
        let trace = await trace(test.cache)
        let calls = trace["dipper.call"]
        #expect(calls.map { $0.text("error.type") } == ["TLS rejected", "404", nil])
        #expect(calls.map(\.status?.code) == [.error, .error, nil])
        #expect(calls[2].text("dipper.cancelled") == "true")
        #expect(trace["GET"].map { $0.text("error.type") } == ["TLS rejected", "404", nil])
        #expect(trace["GET"][0].text("url.full") == "http://host.test/a?token=***&size=2")
        #expect(trace["GET"][2].text("dipper.cancelled") == "true")
        #expect(trace.spans.allSatisfy { !$0.everything.contains("CANARY") }, "\(trace.spans.map(\.everything))")
    }

    @Test("Every span ends, whatever becomes of many calls for few pictures")
    func manyCalls() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.eventSinks = [TraceSink(tracer)]
            $0.data.retryPolicy = .fixed(.zero, retries: 1)
        }
        let urls = (0..<8).map { url("p\($0)") }
        for (number, url) in urls.enumerated() {
            let answer: ScriptedTransport.Step =
                number % 4 == 3 ? .body(Data("no picture".utf8)) : try .image(.sample(8, 6))
            test.transport.script(url, number % 2 == 0 ? [.status(500), answer] : [answer])
        }
        var random = SeededRandom(7)
        var tasks: [ImageTask] = []
        for _ in 0..<300 {
            let url = urls[Int.random(in: 0..<urls.count, using: &random)]
            let request = Bool.random(using: &random) ? ImageRequest(url) : ImageRequest(url).inverted
            tasks.append(Bool.random(using: &random) ? test.cache.getImage(request) : test.cache.slowGetImage(request))
            if Int.random(in: 0..<3, using: &random) == 0 { tasks.randomElement(using: &random)?.cancel() }
            if Int.random(in: 0..<40, using: &random) == 0 { test.cache.clearMemory() }
        }
        for task in tasks { _ = await task.result }
        let trace = await trace(test.cache)
        #expect(trace["dipper.call"].count == tasks.count)
        #expect(trace.paths.allSatisfy { $0.hasPrefix("call") }, "\(Set(trace.paths))")
    }

    // MARK: Other hosts

    @Test(
        "Only the hosts that the program names are told the trace, by each request's own span, wherever a redirect leads"
    )
    func propagation() async throws {
        for (named, fields) in [("127.0.0.1", [true, false]), ("LOCALHOST", [false, true]), ("1", [false, false])] {
            let tracer = W3CTracer()
            try await withFaultServer(nil, { $0.eventSinks = [TraceSink(tracer, propagatingTo: [named])] }) {
                server, cache in
                let target = "http://localhost:\(server.url("/").port ?? 0)/bytes/9/b"
                let location = target.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
                let request = DataRequest(server.url("/bytes/9/a?redirect=\(location)"))
                    .with(\.headers, ["traceparent": "own"])
                _ = try await tracer.withSpan("scroll") { _ in try await cache.getData(request).value }
                await cache.shutdown()
                let requests = Trace(tracer)["GET"]
                let told = server.requests.map { $0.header("traceparent") }
                // Without the name, the caller's own field goes where the caller has sent it, and to no other origin.
                let own = ["own", nil]
                #expect(told == zip(zip(requests, fields), own).map { $0.1 ? $0.0.field : $1 }, "\(named)")
                #expect(requests.map { $0.text("http.response.status_code") } == ["302", "200"])
                #expect(requests.map { $0.text("http.request.resend_count") } == [nil, "1"])
                #expect(requests.map { $0.text("network.protocol.version") } == ["1.1", "1.1"])
                #expect(requests[0].parentSpanID == requests[1].parentSpanID && Set(requests.map(\.traceID)).count == 1)
                #expect(requests[1].events.map(\.name).contains("first byte"))
            }
        }
    }

    @Test(
        "No host is told the trace by default, and no field of a tracer breaks out of a request",
        arguments: [false, true])
    func fields(isNamed: Bool) async throws {
        let sink = TraceSink(W3CTracer(suffix: "\r\nX: y"), propagatingTo: isNamed ? ["host.test"] : [])
        let test = TestCache(sink: sink)
        test.transport.script(a, [.body(body)])
        _ = try await test.cache.getData(a).value
        #expect(test.transport.transfers.first?.request.headers["traceparent"] == nil)
        await test.cache.shutdown()
    }

    @Test("The example of the guide shows its picture")
    func guide() async throws {
        let (folder, view) = (TemporaryFolder(), TracingGuide.View())
        let file = try folder.place(Image.sample().png, at: "front.png")
        let cache = try await TracingGuide.traced(tracer, folder.url.appendingPathComponent("cache"), file, view)
        #expect(view.image?.size == Image.sample().size)
        await cache.shutdown()
    }

    @Test("Without a tracer no event is built for traces")
    func untraced() {
        #expect(TraceSink().topics.isEmpty && TraceSink(NoOpTracer()).topics.isEmpty)
        #expect(!TraceSink(tracer).topics.isEmpty)
    }
}
