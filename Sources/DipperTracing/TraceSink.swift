#if Tracing
    public import DipperData
    import Synchronization
    public import Tracing

    /// A sink that makes a trace of each call, with swift-distributed-tracing: a span of the call, and in it spans of the
    /// look-ups, requests, decodes, processing steps and writes that are done for it.
    ///
    /// ```swift
    /// var configuration = ImageCache.Configuration()
    /// configuration.data.eventSinks = [TraceSink(propagatingTo: ["images.example.org"])]
    /// let cache = ImageCache(configuration)
    /// ```
    ///
    /// A call that is made inside of a span is a part of that span. A call that joins the work of another has a link to
    /// the span of that work. Without a tracer the sink receives no events and costs nothing.
    ///
    /// No text of a span holds a secret: URLs, keys and errors go through the sink's rule of redaction.
    public final class TraceSink: EventSink {
        /// The topics of all that has a span; none if there is no tracer.
        public let topics: CacheEvent.Topics
        private let tracer: any Tracer
        private let hosts: Set<String>
        private let redaction: Redaction
        private let state = Mutex(State())

        private struct Work {
            /// The call that the work is done for.
            let owner: CacheEvent.ID
            let parent: CacheEvent.ID?
            /// `nil` for work whose parts are shown as those of its owner.
            let span: (any Span)?
            let context: ServiceContext
            /// The request that an attempt has sent last, until its answer.
            var request: (any Span)?
            /// The number of requests that a fetch has sent.
            var requests = 0
            /// The calls whose work the call has joined.
            var linked: Set<CacheEvent.ID> = []
        }

        /// The latest values, a few thousand of them.
        private struct Recent<Value> {
            private var latest: [CacheEvent.ID: Value] = [:]
            private var earlier: [CacheEvent.ID: Value] = [:]
            private static var most: Int { 4_096 }

            subscript(id: CacheEvent.ID) -> Value? {
                get { latest[id] ?? earlier[id] }
                set {
                    earlier[id] = nil
                    if latest[id] == nil, latest.count >= Self.most { (latest, earlier) = ([:], latest) }
                    latest[id] = newValue
                }
            }
        }

        private struct State {
            /// Work with a span, until it ends.
            private var open: [CacheEvent.ID: Work] = [:]
            /// Work without a span. That one of them has ended may have been told before it was joined.
            private var joined = Recent<Work>()
            /// The contexts of work that has ended: a write, for example, may begin later.
            private var ended = Recent<ServiceContext>()

            subscript(id: CacheEvent.ID) -> Work? {
                get { open[id] ?? joined[id] }
                set {
                    if newValue.map({ $0.span == nil }) ?? (open[id] == nil) {
                        joined[id] = newValue
                    } else {
                        joined[id] = nil
                        open[id] = newValue
                    }
                }
            }

            func context(of id: CacheEvent.ID) -> ServiceContext? { self[id]?.context ?? ended[id] }

            mutating func close(_ id: CacheEvent.ID) -> Work? {
                guard let work = exchange(&self[id], with: nil) else { return nil }
                ended[id] = work.context
                return work
            }
        }

        /// Creates a sink that makes spans with a tracer.
        /// - Parameters:
        ///   - tracer: the tracer; by default the one that the program has set with `InstrumentationSystem.bootstrap`
        ///     before.
        ///   - hosts: the hosts that are told the trace, by the header fields that the tracer uses, such as
        ///     `traceparent` (W3C Trace Context). No other host is, wherever a redirect leads. A name means that host
        ///     alone, not those below it, and any port.
        ///   - redaction: the rule that removes secrets from URLs, keys and errors.
        public init(
            _ tracer: any Tracer = InstrumentationSystem.tracer, propagatingTo hosts: Set<String> = [],
            redaction: Redaction = .standard
        ) {
            self.tracer = tracer
            self.hosts = Set(hosts.map { $0.lowercased() })
            self.redaction = redaction
            topics =
                tracer is NoOpTracer
                ? [] : [.calls, .fetches, .lookUps, .attempts, .requests, .objects, .writes]
        }

        /// Begins or ends the span of an event.
        public func receive(_ event: CacheEvent) {
            switch event.kind {
            case .callBegan(let queue):
                // The call for the bytes of an object is a part of the call for the object.
                if let id = event.id, state.withLock({ $0[id] }) != nil { return }
                begin("dipper.call", event) { attributes in
                    attributes["dipper.key"] = redaction.text(event.key)
                    attributes["dipper.queue"] = queue.rawValue
                }
            case .callJoined(let fetch):
                guard let id = event.id, !links(id, to: fetch) else { return }
                begin("dipper.fetch", fetch, within: id) { $0["dipper.key"] = redaction.text(event.key) }
            case .queued: note("queued", event)
            case .paused: note("paused", event)
            case .resumed: note("resumed", event)
            case .parked: note("parked", event)
            case .queueChanged(let queue): note("moved to \(queue.rawValue)Queue", event)
            case .lookUpBegan: begin("dipper.lookup", event)
            case .attemptBegan: begin("dipper.attempt", event)
            case .received(let status, _, let metrics): received(event.id, status, metrics)
            case .decodeBegan: begin("dipper.decode", event)
            case .stepBegan(let name): begin("dipper.step", event) { $0["dipper.step"] = redaction.text(name) }
            case .writeBegan(let bytes): begin("dipper.write", event) { $0["dipper.bytes"] = bytes }
            case .callAnswered(let source), .attemptEnded(.answered(let source)), .lookUpEnded(let source?):
                end(event.id) { $0["dipper.source"] = source.rawValue }
            case .callFailed(let error), .attemptEnded(.failed(let error, _)), .decodeEnded(let error?),
                .stepEnded(let error?):
                end(event.id, with: error)
            case .attemptEnded(.stopped): end(event.id, with: .cancelled)
            case .writeEnded(let isOnDisk): end(event.id) { $0["dipper.on_disk"] = isOnDisk }
            case .fetchEnded, .lookUpEnded, .decodeEnded, .stepEnded: end(event.id)
            case .fetchBegan, .requested, .cleaned, .networkChanged, .memoryPressure, .missed: break
            }
        }

        // MARK: Spans

        private func begin(_ name: String, _ event: CacheEvent, _ describe: (inout SpanAttributes) -> Void = { _ in }) {
            if let id = event.id { begin(name, id, within: event.parent, describe) }
        }

        private func begin(
            _ name: String, _ id: CacheEvent.ID, within parent: CacheEvent.ID?,
            _ describe: (inout SpanAttributes) -> Void
        ) {
            let (known, owner) = state.withLock { state in
                (parent.flatMap(state.context), parent.flatMap { state[$0]?.owner })
            }
            let span = start(tracer, name, known ?? .current ?? .topLevel)
            span.updateAttributes(describe)
            state.withLock { state in
                state[id] = Work(owner: owner ?? id, parent: parent, span: span, context: span.context)
            }
        }

        private func start(
            _ tracer: some Tracer, _ name: String, _ context: ServiceContext, _ kind: SpanKind = .internal
        ) -> any Span { tracer.startSpan(name, context: context, ofKind: kind) }

        private func end(_ id: CacheEvent.ID?, _ describe: (inout SpanAttributes) -> Void = { _ in }) {
            finish(id) { span in span.updateAttributes(describe) }
        }

        private func end(_ id: CacheEvent.ID?, with error: DipperError) { finish(id) { span in fail(span, error) } }

        private func finish(_ id: CacheEvent.ID?, _ describe: (any Span) -> Void) {
            guard let id, let work = state.withLock({ $0.close(id) }) else { return }
            // A request that is still open has brought no answer.
            for span in [work.request, work.span].compactMap(\.self) {
                describe(span)
                span.end()
            }
        }

        /// That a call is cancelled is no error of anybody.
        private func fail(_ span: any Span, _ error: DipperError) {
            if error.isCancelled { return span.updateAttributes { $0["dipper.cancelled"] = true } }
            let type = error.status.map { "\($0)" } ?? error.shortDescription
            span.updateAttributes { $0["error.type"] = type }
            span.setStatus(SpanStatus(code: .error, message: redaction.sentence("\(error)")))
        }

        private func note(_ name: String, _ event: CacheEvent) {
            let span = event.id.flatMap { id in state.withLock { $0[id]?.span } }
            span?.addEvent(SpanEvent(name: name))
        }

        /// Links a call to the work that it waits for, unless that is its own.
        /// - Returns: `false` if there is no such work yet.
        private func links(_ id: CacheEvent.ID, to work: CacheEvent.ID) -> Bool {
            let (isKnown, span, context) = state.withLock { state -> (Bool, (any Span)?, ServiceContext) in
                guard let known = state[work] else { return (state.context(of: work) != nil, nil, .topLevel) }
                guard let owner = state[id]?.owner, owner != known.owner,
                    state[owner]?.linked.insert(known.owner).inserted == true
                else { return (true, nil, .topLevel) }
                return (true, state[owner]?.span, known.context)
            }
            span?.addLink(SpanLink(context: context, attributes: [:]))
            return isKnown
        }

        // MARK: Requests

        private func received(_ attempt: CacheEvent.ID?, _ status: Int, _ metrics: TransferMetrics) {
            guard let span = attempt.flatMap({ id in state.withLock { $0[id]?.request.take() } }) else { return }
            span.updateAttributes { attributes in
                attributes["http.response.status_code"] = status
                attributes["http.response.body.size"] = metrics.bytesReceived
                let version = metrics.httpVersion.split(separator: "/").last
                attributes["network.protocol.version"] = version.map { String($0) }
                if status >= 400 { attributes["error.type"] = "\(status)" }
            }
            // The times of an answer whose body was not wanted end with its head.
            let isWhole = metrics.firstByte > .zero && metrics.firstByte <= metrics.total
            let end = DefaultTracerClock.now.nanosecondsSinceEpoch
            let times = [
                ("name looked up", metrics.nameLookup), ("connected", metrics.connect), ("TLS set up", metrics.tls),
                ("first byte", metrics.firstByte),
            ]
            for (name, time) in times where isWhole && time > .zero && time <= metrics.total {
                let before = UInt64((metrics.total - time) / .nanoseconds(1))
                let instant = DefaultTracerClock.Timestamp(nanosecondsSinceEpoch: end - min(before, end))
                span.addEvent(SpanEvent(name: name, at: instant))
            }
            if status >= 400 { span.setStatus(SpanStatus(code: .error)) }
            span.end()
        }

        private struct FieldInjector: Injector {
            func inject(_ value: String, forKey key: String, into headers: inout HTTPHeaders) { headers[key] = value }
        }
    }

    extension TraceSink: CallTracer {
        package func joined(_ work: CacheEvent.ID, by waiting: CacheEvent.ID) {
            if links(waiting, to: work) { return }
            state.withLock { state in
                guard let known = state[waiting] else { return }
                state[work] = Work(owner: known.owner, parent: nil, span: nil, context: known.context)
            }
        }

        package func ended(_ work: CacheEvent.ID) { end(work) }

        package func sends(_ request: inout TransferRequest, in attempt: CacheEvent.ID) {
            let (work, count) = state.withLock { state in
                let work = state[attempt]
                let fetch = work?.parent ?? attempt
                state[fetch]?.requests += 1
                return (work, state[fetch]?.requests ?? 1)
            }
            guard let work else { return }
            // The answer to the request before could not be used.
            work.request?.end()
            let span = start(tracer, request.method, work.context, .client)
            let (url, host) = (request.url, request.url.host(percentEncoded: false)?.lowercased() ?? "")
            span.updateAttributes { attributes in
                attributes["http.request.method"] = request.method
                attributes["url.full"] = redaction.text(url)
                attributes["server.address"] = host
                attributes["server.port"] = url.port ?? (url.scheme?.lowercased() == "https" ? 443 : 80)
                if count > 1 { attributes["http.request.resend_count"] = count - 1 }
            }
            state.withLock { $0[attempt]?.request = span }
            guard hosts.contains(host) else { return }
            var headers = request.headers
            tracer.inject(span.context, into: &headers, using: FieldInjector())
            // A tracer's field must not break out of the request.
            if headers.isWellFormed { request.headers = headers }
        }
    }
#endif
