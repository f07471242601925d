import CCurl
import Foundation

/// One transfer by libcurl. The methods of ``Transfer`` post messages.
// Without a thread a transfer ends on the thread that starts it.
@Loop
final class CurlTransfer: Transfer {
    /// With the present queue and throttling.
    private(set) var request: TransferRequest
    let pool: CurlPool
    private let receive: @Sendable (TransferEvent) -> Void

    var handle: UnsafeMutableRawPointer?
    var lists: [UnsafeMutablePointer<curl_slist>?] = []
    nonisolated let errorText = CurlErrorText()
    private(set) lazy var route = pool.proxies.route(to: request.url)
    var addresses: [String: [HostAddress]] = [:]
    var needsAddresses = false
    /// The number of look-ups that libcurl has asked for.
    var lookups = 0
    var lookup: HostResolver.Lookup?
    var connectDeadline: ContinuousClock.Instant?
    var firstBegun: ContinuousClock.Instant?
    /// The duration of earlier tries, with the look-ups between them.
    var timeBefore = Duration.zero
    /// `nil` until there is a connection.
    private var speed: SpeedLimit?
    private(set) var isOver = false
    /// When the connection is given up after an early end.
    private(set) var drainsUntil: ContinuousClock.Instant?
    private var isPreviewing = false
    private var lastPreview: ContinuousClock.Instant?
    private static let previews = DispatchQueue(label: "dipper.previews")
    private var answer = CurlAnswer()
    private var body = ByteBuffer()
    private var errorBytes = 0
    /// The length at which the next part of the body is reported.
    private var nextPart = CurlTransfer.partStep
    private nonisolated static let partStep = 1 << 20
    private(set) var isTooLarge = false
    /// Whether the address policy has refused every address so far; `nil` before the first.
    private(set) var isRefused: Bool?
    private var socket: Int32?
    /// `nil` unless the transfer is in `slowQueue` and shares its connection with none.
    private var window: ReceiveWindow?

    nonisolated init(
        _ request: TransferRequest, pool: CurlPool, receive: @escaping @Sendable (TransferEvent) -> Void
    ) {
        self.request = request
        self.pool = pool
        self.receive = receive
    }

    // MARK: Commands

    nonisolated func start() {
        if !pool.post(waits: false, { self.pool.begin(self) }) { receive(.finished(.failure(.noThread))) }
    }
    nonisolated func cancel() { pool.post { self.pool.end(self, .cancelled) } }
    nonisolated func setThrottled(_ isThrottled: Bool) { pool.post { self.pool.setThrottled(self, isThrottled) } }
    nonisolated func setQueue(_ queue: FetchQueue) { pool.post { self.move(to: queue) } }
    nonisolated func copyBody(_ reply: @escaping @Sendable (Data, Int) -> Void) {
        pool.post {
            guard !self.isOver, self.body.count > 0, [200, 206].contains(self.answer.status) else { return }
            guard let codings = self.codings else {
                // A shared body would be copied to become longer.
                if let length = self.answer.length { _ = self.body.reserve(min(length, self.limit)) }
                return reply(self.body.snapshot(), self.offset)
            }
            // Each time all bytes are decoded: one time after the other, and ten times a second.
            guard !self.isPreviewing, self.lastPreview.map({ .now - $0 >= .milliseconds(100) }) ?? true else { return }
            (self.isPreviewing, self.lastPreview) = (true, .now)
            Self.previews.async { [body = self.body.snapshot(), limit = self.limit] in
                let decoded = try? ContentDecoder.decode(body, codings ?? [], atMost: limit, isBeginning: true)
                if let decoded, !decoded.isEmpty { reply(decoded, 0) }
                self.pool.post { self.isPreviewing = false }
            }
        }
    }

    // MARK: Connection

    /// Whether libcurl may resolve a host by itself: only without a look-up. Otherwise notes that it needs addresses.
    func mayResolve() -> Bool {
        if route.names.isEmpty { return true }
        needsAddresses = true
        return false
    }

    func openSocket(to address: UnsafeMutablePointer<curl_sockaddr>) -> Int32 {
        let policy = pool.configuration.addressPolicy
        let ip = IPAddress(dipper_curl_address(address))
        guard policy.isAny || ip.map(policy.allows) ?? false else {
            isRefused = isRefused ?? true
            return CURL_SOCKET_BAD
        }
        isRefused = false
        // libcurl's list of addresses cannot hold the scope of a link-local address.
        if let ip, ip.isLinkLocal,
            let known = addresses.values.joined().first(where: { $0.scope != 0 && $0.address == ip })
        {
            dipper_curl_set_scope(address, known.scope)
        }
        let socket = dipper_curl_open_socket(address)
        if socket >= 0 { pool.sockets.add(socket) }
        return socket
    }

    /// Notes the connection, new or reused. Returns `false` if the request must not be sent on it.
    func connected(from ports: CurlSockets.Ports) -> Bool {
        // For a reused connection libcurl reports no socket.
        socket = pool.sockets.socket(with: ports)
        speed = speed ?? SpeedLimit(isHeld: request.isThrottled)
        guard let socket else { return true }
        let isReused = dipper_curl_long(handle, CURLINFO_NUM_CONNECTS) == 0
        // Early bytes must not be taken for the answer.
        if isReused, pool.sockets.hasStrayInput(socket) {
            request.needsNewConnection = true
            return false
        }
        followQueue()
        return true
    }

    func speedError(_ handle: UnsafeMutableRawPointer) -> DipperError? {
        speed?.check(pool.configuration, bytes: CurlMetrics.moved(handle))
    }

    func disconnect() {
        if let socket, let version = httpVersion {
            pool.sockets.note(socket, speaksHTTP1: version < CURL_HTTP_VERSION_2_0)
        }
        socket = nil
        window = nil
    }

    private func followQueue() {
        guard let socket else { return }
        if request.queue == .fast || CurlSockets.isLoopback(socket) {
            pool.sockets.unlimit(socket)
        } else if ownsConnection {
            window = ReceiveWindow(socket, to: request.url.host(percentEncoded: false) ?? "", pool: pool)
        }
    }

    private func move(to queue: FetchQueue) {
        guard queue != request.queue else { return }
        request.queue = queue
        guard !isOver else { return }
        window = nil
        followQueue()
    }

    /// Known in the fast pool once the answer begins.
    private var ownsConnection: Bool { pool.queue == .slow || httpVersion.map { $0 < CURL_HTTP_VERSION_2_0 } ?? false }

    var isMultiplexed: Bool { httpVersion.map { $0 >= CURL_HTTP_VERSION_2_0 } ?? false }

    private var httpVersion: Int? {
        let version = handle.map { dipper_curl_long($0, CURLINFO_HTTP_VERSION) } ?? 0
        return version > 0 ? version : nil
    }

    var canBeContinued: Bool {
        answer.status == 200 && body.count > 0 && body.count < answer.length ?? .max
            && PartialBody.validator(in: answer.fields) != nil
    }

    func throttle(_ isThrottled: Bool) {
        request.isThrottled = isThrottled
        if isThrottled { speed?.hold() } else { speed?.run() }
        window?.interrupt()
    }

    // MARK: Answer

    func takeHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        let isFirst = answer.size == 0
        answer.take(line)
        if isFirst, window == nil { followQueue() }
        guard answer.size <= pool.configuration.maximumHeaderSize else {
            isTooLarge = true
            return false
        }
        if !isOver { for interim in answer.takeInterims() { receive(.interim(interim)) } }
        if answer.isComplete, !answer.isMalformed, !isOver { endEarly() }
        return !answer.isMalformed
    }

    /// Ends once the header section is complete, if the body will not be used: it may be long in coming. What comes in
    /// the next moment is read all the same, so that the connection can be used again.
    private func endEarly() {
        readStatus()
        guard hasSaidEnough, let handle else { return }
        drainsUntil = .now + .seconds(1)
        end(nil, CurlMetrics.read(handle, earlier: timeBefore))
    }

    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if answer.status == 0 { readStatus() }
        // Reading an error's body lets the connection be reused; a long one costs more than a new connection.
        if isOver || (!(200...299).contains(answer.status) && !request.keepsErrorBody) {
            errorBytes += bytes.count
            return errorBytes <= Self.longestErrorBody
        }
        guard body.count + bytes.count <= limit else {
            isTooLarge = true
            return false
        }
        // A server may announce a body that it does not send.
        if body.count == 0, let length = answer.length { _ = body.reserve(min(length, limit, PageChunks.largest)) }
        guard body.append(bytes) else {
            isTooLarge = true
            return false
        }
        if let handle { window?.measure(handle) }
        if body.count >= nextPart { tellPart() }
        receive(
            .progress(received: offset + body.count, expected: answer.length.map { min($0, .max - offset) + offset }))
        return true
    }

    private func tellPart() {
        let isContinuable = codings == nil && (canBeContinued || (answer.status == 206 && request.offset > 0))
        // A shared body would be copied to become longer. Pages that no byte reaches take no memory.
        guard isContinuable, let length = answer.length, body.reserve(min(length, limit)) else {
            return nextPart = .max
        }
        nextPart = body.count + Self.partStep
        receive(.partial(TransferResponse(status: answer.status, headers: answer.fields, body: body.snapshot())))
    }

    private var limit: Int {
        let configuration = pool.configuration
        let whole =
            codings == nil
            ? configuration.maximumBodySize : min(configuration.maximumBodySize, configuration.maximumDecodedSize)
        return whole - offset
    }

    /// The codings to take off the body; `nil` if the bytes are delivered as they come.
    private var codings: [ContentCoding]?? {
        guard pool.configuration.decodesContent, answer.codings?.isEmpty != true else { return nil }
        return .some(answer.codings)
    }

    private var offset: Int { answer.status == 206 ? request.offset : 0 }

    private static let longestErrorBody = 64 << 10

    var hasSaidEnough: Bool {
        guard answer.isComplete, answer.status >= 300, !isTooLarge, !answer.isMalformed else { return false }
        let isFollowed =
            request.ignoresRedirectBody && Redirect.statuses.contains(answer.status) && answer.fields["Location"] != nil
        return isFollowed || !request.keepsErrorBody
    }

    func end(_ error: DipperError?, _ metrics: TransferMetrics = .init()) {
        guard !isOver else { return }
        isOver = true
        var error = error
        // libcurl reports success if the connection closes within the header section.
        if !answer.isComplete {
            error = error ?? DipperError.connectionLost.with(detail: "the header section is incomplete")
        }
        if let error {
            // The beginning of a coded body cannot be continued.
            if body.count > 0, !isTooLarge, codings == nil, let part = response(metrics) { receive(.interrupted(part)) }
            body = ByteBuffer()
            receive(.finished(.failure(error)))
        } else if let response = response(metrics) {
            guard let codings, !response.body.isEmpty else { return receive(.finished(.success(response))) }
            pool.decode(response, codings, atMost: limit, then: receive)
        } else {
            receive(.finished(.failure(.tooLarge.with(detail: "there is no memory"))))
        }
    }

    func readStatus() {
        if let handle { answer.readStatus(handle) }
    }

    private func response(_ metrics: TransferMetrics) -> TransferResponse? {
        body.takeData().map {
            TransferResponse(status: answer.status, headers: answer.fields, body: $0, metrics: metrics)
        }
    }
}

/// The memory for the reason of a failure, in which libcurl writes.
final class CurlErrorText: @unchecked Sendable {
    let bytes = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    init() { bytes.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE)) }

    deinit { bytes.deallocate() }

    var text: String { String(cString: bytes) }
}

/// A least average rate and a longest duration of a transfer, without the time in which it may not use the link.
private struct SpeedLimit {
    private static let marksPerWindow = 16

    private static let start = ContinuousClock.now
    private static var now: Duration { ContinuousClock.now - start }

    private var watch = Stopwatch()
    /// Bytes moved at times of ``watch``, oldest first. All but the first lie within the window.
    private var marks: [(time: Duration, bytes: Int)] = []

    init(isHeld: Bool) { if !isHeld { run() } }

    mutating func run() { watch.run(at: Self.now) }
    mutating func hold() { watch.hold(at: Self.now) }

    mutating func check(_ limits: CurlConfiguration, bytes: Int) -> DipperError? {
        guard watch.isRunning else { return nil }
        let time = watch.spent(at: Self.now)
        if let longest = limits.transferTimeLimit, time >= longest {
            return .timedOut.with(detail: "the transfer takes too long")
        }
        let (rate, window) = (limits.minimumRate, limits.minimumRateWindow)
        guard rate > 0 else { return nil }
        while marks.count > 1, time - marks[1].time >= window { marks.removeFirst() }
        if let mark = marks.first, time - mark.time >= window {
            let least = Double(rate) * (time - mark.time).timeInterval
            // mutant TimeLimit|Hostile: `< least {` => `< least, bytes == 0 {`
            if Double(bytes - mark.bytes) < least {
                return .timedOut.with(detail: "fewer than \(rate) bytes a second over \(window)")
            }
        }
        if marks.last.map({ time - $0.time >= window / Self.marksPerWindow }) ?? true { marks.append((time, bytes)) }
        return nil
    }
}
