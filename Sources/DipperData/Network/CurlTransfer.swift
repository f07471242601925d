import CCurl
import Foundation

/// One transfer by libcurl. The methods of ``Transfer`` post messages; all else belongs to the loop's thread.
// A loop that has ended takes no messages: a new transfer then ends on the thread that starts it.
final class CurlTransfer: Transfer, @unchecked Sendable {
    let request: TransferRequest
    let pool: CurlPool
    private let receive: @Sendable (TransferEvent) -> Void

    var handle: UnsafeMutableRawPointer?
    var headerList: UnsafeMutablePointer<curl_slist>?
    /// The fields for a proxy, which libcurl sends to no server.
    var proxyHeaderList: UnsafeMutablePointer<curl_slist>?
    var addressList: UnsafeMutablePointer<curl_slist>?
    let errorBuffer = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    let route: NetworkRoute
    var addresses: [String: [HostAddress]] = [:]
    private(set) var needsAddresses = false
    /// The number of look-ups begun because libcurl asked for addresses.
    private(set) var lookups = 0
    var ticket: HostLookups.Ticket?
    /// By this time the connection must be established.
    var connectDeadline: ContinuousClock.Instant?
    var firstBegun: ContinuousClock.Instant?
    var begun: ContinuousClock.Instant?
    /// `nil` until a connection is there and the request is about to be sent.
    var speed: SpeedLimit?
    var isThrottled: Bool
    private(set) var queue: FetchQueue
    private(set) var isOver = false
    private var answer = CurlAnswer()
    private var body = ByteBuffer()
    private var errorBytes = 0
    private(set) var isTooLarge = false
    private var isAddressRefused = false
    private var mayConnectSomewhere = false
    private var socket: Int32?
    private(set) var needsNewConnection: Bool
    private var flow: SlowFlow?

    init(
        _ request: TransferRequest, pool: CurlPool, receive: @escaping @Sendable (TransferEvent) -> Void
    ) {
        self.request = request
        self.pool = pool
        self.receive = receive
        route = pool.proxies.route(to: request.url)
        queue = request.queue
        errorBuffer.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        needsNewConnection = request.needsNewConnection
        isThrottled = request.isThrottled
    }

    deinit { errorBuffer.deallocate() }

    // MARK: Commands

    func start() {
        if !pool.post({ $0.begin(self) }) { end(.failure(.shutDown)) }
    }
    func cancel() { pool.post { $0.cancel(self) } }
    func setThrottled(_ isThrottled: Bool) { pool.post { $0.setThrottled(self, isThrottled) } }
    func setQueue(_ queue: FetchQueue) { pool.post { _ in self.move(to: queue) } }
    func copyBody(_ reply: @escaping @Sendable (Data, Int) -> Void) {
        pool.post { _ in
            if let body = self.bodySoFar { reply(body.bytes, body.offset) }
        }
    }

    // MARK: Connection

    var missingNames: [NetworkRoute.Name] { route.names.filter { addresses[$0.host] == nil } }

    /// Whether libcurl may resolve a host by itself: only if the route has no names, so that resolving is instant.
    /// Otherwise notes that libcurl needs addresses.
    func mayResolve() -> Bool {
        if route.names.isEmpty { return true }
        needsAddresses = true
        return false
    }

    /// The addresses were not accepted, or have been dropped. Returns `false` after too many look-ups.
    func beginLookup() -> Bool {
        needsAddresses = false
        addresses = [:]
        lookups += 1
        return lookups <= Self.mostLookups
    }

    private static let mostLookups = 4

    /// libcurl's address list cannot hold the link of a link-local address.
    func setScope(of address: UnsafeMutablePointer<curl_sockaddr>) {
        guard !addresses.isEmpty, let ip = IPAddress(dipper_curl_address(address)), ip.isLinkLocal else { return }
        let known = addresses.values.joined().first { $0.scope != 0 && IPAddress($0.text) == ip }
        if let known { dipper_curl_set_scope(address, known.scope) }
    }

    var errorText: String { String(cString: errorBuffer) }

    func mayConnect(to address: UnsafePointer<curl_sockaddr>) -> Bool {
        let policy = pool.configuration.addressPolicy
        let allowed = policy.isAny || IPAddress(dipper_curl_address(address)).map(policy.allows) ?? false
        if allowed { mayConnectSomewhere = true } else { isAddressRefused = true }
        return allowed
    }

    /// Whether the address policy has refused every address that libcurl tried.
    var isRefused: Bool { isAddressRefused && !mayConnectSomewhere }

    /// Takes note of the connection, new or reused. Returns `false` if the request must not be sent on it.
    func connected(from ports: CurlSockets.Ports) -> Bool {
        pool.noteConnection(on: route)
        // For a reused connection libcurl reports the ports only, not the socket.
        socket = pool.sockets.socket(with: ports)
        defer { startClock() }
        guard let socket else { return true }
        var connections = 0
        if let handle { _ = dipper_curl_get_long(handle, CURLINFO_NUM_CONNECTS, &connections) }
        // Bytes that arrive before the request must not be taken for its answer.
        if connections == 0, pool.sockets.speaksHTTP1(socket), CurlSockets.hasInput(socket) {
            needsNewConnection = true
            return false
        }
        followQueue()
        return true
    }

    private func startClock() {
        guard speed == nil else { return }
        let configuration = pool.configuration
        speed = SpeedLimit(
            rate: configuration.minimumRate, window: configuration.minimumRateWindow,
            longest: configuration.transferTimeLimit)
        if !isThrottled { speed?.run(at: pool.time) }
    }

    func tooSlow(at now: Duration) -> DipperError? {
        guard let handle, speed != nil else { return nil }
        let configuration = pool.configuration
        switch speed?.check(at: now, bytes: CurlMetrics.moved(handle)) {
        case .tooSlow:
            let limit = "\(configuration.minimumRate) bytes a second over \(configuration.minimumRateWindow)"
            return .timedOut.with(detail: "fewer than \(limit)")
        case .tooLong: return .timedOut.with(detail: "the transfer takes too long")
        case .fine, nil: return nil
        }
    }

    func disconnect() {
        if let socket, let version = httpVersion {
            pool.sockets.note(socket, speaksHTTP1: version < CURL_HTTP_VERSION_2_0)
        }
        socket = nil
        flow = nil
    }

    private func followQueue() {
        guard let socket else { return }
        if queue == .fast || CurlSockets.isLoopback(socket) {
            pool.sockets.unlimit(socket)
        } else if ownsConnection {
            flow = SlowFlow(socket, to: request.url.host(percentEncoded: false) ?? "", pool: pool)
        }
    }

    /// The receive window follows once no other transfer can share the connection.
    private func move(to queue: FetchQueue) {
        guard queue != self.queue else { return }
        self.queue = queue
        guard !isOver else { return }
        flow = nil
        followQueue()
    }

    /// In the fast pool, this is known once the answer begins.
    private var ownsConnection: Bool { pool.queue == .slow || httpVersion.map { $0 < CURL_HTTP_VERSION_2_0 } ?? false }

    /// A connection that several transfers share is not slowed down for one of them.
    var isMultiplexed: Bool { httpVersion.map { $0 >= CURL_HTTP_VERSION_2_0 } ?? false }

    /// In libcurl's numbers; `nil` before the answer begins.
    private var httpVersion: Int? {
        var version = 0
        guard let handle, dipper_curl_get_long(handle, CURLINFO_HTTP_VERSION, &version) == CURLE_OK, version > 0 else {
            return nil
        }
        return version
    }

    var canBeContinued: Bool {
        answer.status == 200 && body.count > 0 && body.count < answer.length ?? .max
            && PartialBody.validator(in: answer.fields) != nil
    }

    func throttle(_ isThrottled: Bool) {
        self.isThrottled = isThrottled
        if isThrottled { speed?.hold(at: pool.time) } else { speed?.run(at: pool.time) }
        flow?.interrupt()
    }

    // MARK: Answer

    /// Returns `false` if the header section is too large or malformed.
    func takeHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        let isFirst = answer.size == 0
        answer.take(line)
        if isFirst, flow == nil { followQueue() }
        guard answer.size <= pool.configuration.maximumHeaderSize else {
            isTooLarge = true
            return false
        }
        return !answer.isMalformed
    }

    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if answer.status == 0 { readStatus() }
        // The body of an error is read so that the connection can be reused; a long one costs more than a new
        // connection.
        if !(200...299).contains(answer.status), !request.keepsErrorBody {
            errorBytes += bytes.count
            return errorBytes <= Self.longestErrorBody
        }
        guard body.count + bytes.count <= limit else {
            isTooLarge = true
            return false
        }
        // More is reserved when it arrives: a server may announce a body that it does not send.
        if body.count == 0, let length = answer.length { _ = body.reserve(min(length, limit, PageChunks.largest)) }
        guard body.append(bytes) else {
            isTooLarge = true
            return false
        }
        if let handle { flow?.measure(handle) }
        receive(.progress(received: offset + body.count, expected: answer.length.map { offset + $0 }))
        return true
    }

    /// In bytes of the body, after content decoding.
    private var limit: Int {
        let configuration = pool.configuration
        let whole =
            configuration.decodesContent && answer.isCoded
            ? min(configuration.maximumBodySize, configuration.maximumDecodedSize) : configuration.maximumBodySize
        return whole - offset
    }

    /// Where this answer's body begins in the whole body: zero unless the status is 206.
    private var offset: Int { answer.status == 206 ? request.offset : 0 }

    private static let longestErrorBody = 64 << 10

    /// The body of an error may not be wanted.
    var hasSaidEnough: Bool {
        answer.isComplete && answer.status >= 300 && !request.keepsErrorBody && !isTooLarge && !answer.isMalformed
    }

    /// The received part of the body and its position in the whole body; `nil` if there is nothing to show.
    var bodySoFar: (bytes: Data, offset: Int)? {
        let isWanted = !isOver && body.count > 0 && (answer.status == 200 || answer.status == 206)
        return isWanted ? (body.snapshot(), offset) : nil
    }

    // MARK: Completion

    func end(_ result: Result<Void, DipperError>, metrics: TransferMetrics = .init()) {
        guard !isOver else { return }
        isOver = true
        var result = result
        // libcurl reports success if the connection closes within the header section.
        if case .success = result, !answer.isComplete {
            result = .failure(.connectionLost.with(detail: "the header section is incomplete"))
        }
        switch result {
        case .failure(let error):
            if body.count > 0, !isTooLarge, let part = response(metrics) { receive(.interrupted(part)) }
            body = ByteBuffer()
            receive(.finished(.failure(error)))
        case .success:
            readStatus()
            let response = response(metrics)
            receive(.finished(response.map { .success($0) } ?? .failure(.tooLarge.with(detail: "there is no memory"))))
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

/// A check that a transfer keeps a least average rate and a longest duration. Only time in which the transfer may use
/// the link counts. A value; the owner of the transfer asks it from time to time.
struct SpeedLimit: Sendable {
    enum Verdict: Equatable {
        case fine
        case tooSlow
        case tooLong
    }

    private let rate: Int
    private let window: Duration
    private let longest: Duration?
    private var counted = Duration.zero
    /// `nil` while the transfer is held back.
    private var runningSince: Duration?
    /// Bytes moved at times of ``counted``, the oldest first. All marks but the first lie within the window.
    private var marks: [(time: Duration, bytes: Int)] = []

    /// - Parameters:
    ///   - rate: bytes a second; zero for no limit.
    ///   - window: the time over which the average is taken.
    init(rate: Int, window: Duration, longest: Duration?) {
        self.rate = rate
        self.window = window
        self.longest = longest
    }

    mutating func run(at now: Duration) {
        if runningSince == nil { runningSince = now }
    }

    mutating func hold(at now: Duration) {
        if let runningSince { counted += now - runningSince }
        runningSince = nil
    }

    /// - Parameter bytes: the bytes moved so far, in both directions.
    mutating func check(at now: Duration, bytes: Int) -> Verdict {
        guard let runningSince else { return .fine }
        let time = counted + (now - runningSince)
        if let longest, time >= longest { return .tooLong }
        guard rate > 0 else { return .fine }
        while marks.count > 1, time - marks[1].time >= window { marks.removeFirst() }
        if let mark = marks.first, time - mark.time >= window {
            let least = Double(rate) * (time - mark.time).timeInterval
            // mutant TimeLimit|Hostile: `< least { retu` => `< least, bytes == 0 { retu`
            if Double(bytes - mark.bytes) < least { return .tooSlow }
        }
        if marks.last.map({ time - $0.time >= window / Self.marksPerWindow }) ?? true { marks.append((time, bytes)) }
        return .fine
    }

    private static let marksPerWindow = 16
}
