import CCurl
import Foundation

/// One transfer by libcurl. All but ``Transfer``'s calls happen on its pool's thread.
// The mutable parts belong to the pool's thread; other threads only post commands.
final class CurlTransfer: Transfer, @unchecked Sendable {
    let request: TransferRequest
    let pool: CurlPool
    private let receive: @Sendable (TransferEvent) -> Void

    var handle: UnsafeMutableRawPointer?
    var headerList: UnsafeMutablePointer<curl_slist>?
    /// Addresses handed to libcurl.
    var addressList: UnsafeMutablePointer<curl_slist>?
    /// Where libcurl writes what went wrong.
    let errorBuffer = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    /// How the request gets there, and the addresses of the names on the way, as far as they are known.
    let route: NetworkRoute
    var addresses: [String: [HostAddress]] = [:]
    /// libcurl has asked for the addresses of a name.
    private(set) var needsAddresses = false
    /// How often it has.
    private(set) var lookups = 0
    /// The look-up that it waits for.
    var ticket: HostLookups.Ticket?
    /// Until when the connection must be there.
    var connectDeadline: ContinuousClock.Instant?
    /// When it was first given to libcurl, and when last.
    var firstBegun: ContinuousClock.Instant?
    var begun: ContinuousClock.Instant?
    /// From the moment at which the request was sent.
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
    /// The connections that were kept cannot be trusted.
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

    // MARK: From any thread

    func cancel() { pool.post(.cancel(self)) }
    func setThrottled(_ isThrottled: Bool) { pool.post(.setThrottled(self, isThrottled)) }
    func setQueue(_ queue: FetchQueue) { pool.post(.setQueue(self, queue)) }
    func copyBody(_ reply: @escaping @Sendable (Data, Int) -> Void) { pool.post(.copyBody(self, reply)) }

    // MARK: The connection

    /// The names on the way whose addresses are missing.
    var missingNames: [NetworkRoute.Name] { route.names.filter { addresses[$0.host] == nil } }

    /// Whether libcurl may look up a name by itself: one that takes no time.
    func mayResolve() -> Bool {
        if route.names.isEmpty { return true }
        needsAddresses = true
        return false
    }

    /// Forgets the addresses that libcurl did not take, or no longer has; false if that happens again and again.
    func beginLookup() -> Bool {
        needsAddresses = false
        addresses = [:]
        lookups += 1
        return lookups <= Self.mostLookups
    }

    private static let mostLookups = 4

    /// A link-local address is of a link, which libcurl's list cannot name.
    func setScope(of address: UnsafeMutablePointer<curl_sockaddr>) {
        guard !addresses.isEmpty, let ip = IPAddress(dipper_curl_address(address)), ip.isLinkLocal else { return }
        let known = addresses.values.joined().first { $0.scope != 0 && IPAddress($0.text) == ip }
        if let known { dipper_curl_set_scope(address, known.scope) }
    }

    /// libcurl's text for the failure.
    var errorText: String { String(cString: errorBuffer) }

    func mayConnect(to address: UnsafePointer<curl_sockaddr>) -> Bool {
        let policy = pool.configuration.addressPolicy
        let allowed = policy.isAny || IPAddress(dipper_curl_address(address)).map(policy.allows) ?? false
        if allowed { mayConnectSomewhere = true } else { isAddressRefused = true }
        return allowed
    }

    /// No address of the host may be connected to.
    var isRefused: Bool { isAddressRefused && !mayConnectSomewhere }

    /// The connection is there, new or used before; false if nothing is to be asked on it.
    func connected(from ports: CurlSockets.Ports) -> Bool {
        // Of a connection that is used again libcurl names the ports only, not the socket.
        socket = pool.sockets.socket(with: ports)
        defer { startClock() }
        guard let socket else { return true }
        var connections = 0
        if let handle { _ = dipper_curl_get_long(handle, CURLINFO_NUM_CONNECTS, &connections) }
        // What has come unasked must not be taken for the answer.
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

    /// Whether the transfer is as fast as it must be; `nil` if it is.
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

    /// The transfer lets go of its connection, which may be used again.
    func disconnect() {
        if let socket, let version = httpVersion {
            pool.sockets.note(socket, speaksHTTP1: version < CURL_HTTP_VERSION_2_0)
        }
        socket = nil
        flow = nil
    }

    private func followQueue() {
        guard let socket else { return }
        if queue == .slow, !CurlSockets.isLoopback(socket) {
            flow = SlowFlow(socket, to: request.url.host(percentEncoded: false) ?? "", pool: pool)
        } else {
            pool.sockets.unlimit(socket)
        }
    }

    /// The transfer counts in another queue from now on: its window follows, if the connection is its own.
    func move(to queue: FetchQueue) {
        guard queue != self.queue else { return }
        self.queue = queue
        guard !isOver, !isMultiplexed || pool.queue == .slow else { return }
        flow = nil
        followQueue()
    }

    /// Several transfers may share the connection, so that it cannot be held back for one of them.
    var isMultiplexed: Bool { httpVersion.map { $0 >= CURL_HTTP_VERSION_2_0 } ?? false }

    /// `nil` before the answer has begun.
    private var httpVersion: Int? {
        var version = 0
        guard let handle, dipper_curl_get_long(handle, CURLINFO_HTTP_VERSION, &version) == CURLE_OK, version > 0 else {
            return nil
        }
        return version
    }

    /// What has come so far can be continued by another request.
    var canBeContinued: Bool {
        answer.status == 200 && body.count > 0 && body.count < answer.length ?? .max
            && PartialBody.validator(in: answer.fields) != nil
    }

    func throttle(_ isThrottled: Bool) {
        self.isThrottled = isThrottled
        if isThrottled { speed?.hold(at: pool.time) } else { speed?.run(at: pool.time) }
        flow?.interrupt()
    }

    // MARK: The answer

    /// A line of the header section, line break included; false if there have been too many.
    func takeHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        answer.take(line)
        guard answer.size <= pool.configuration.maximumHeaderSize else {
            isTooLarge = true
            return false
        }
        return !answer.isMalformed
    }

    /// Takes a piece of the body; false if it is not wanted.
    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if answer.status == 0 { readStatus() }
        // The body of an error is read so that the connection can be used again, unless that takes longer than a new
        // connection.
        if !(200...299).contains(answer.status), !request.keepsErrorBody {
            errorBytes += bytes.count
            return errorBytes <= Self.longestErrorBody
        }
        guard body.count + bytes.count <= limit else {
            isTooLarge = true
            return false
        }
        guard body.append(bytes) else {
            isTooLarge = true
            return false
        }
        if let handle { flow?.measure(handle) }
        receive(.progress(received: offset + body.count, expected: answer.length.map { offset + $0 }))
        return true
    }

    private var limit: Int {
        let configuration = pool.configuration
        let whole =
            configuration.decodesContent && answer.isCoded
            ? min(configuration.maximumBodySize, configuration.maximumDecodedSize) : configuration.maximumBodySize
        return whole - offset
    }

    /// Bytes that the answer continues: none if it is a whole one.
    private var offset: Int { answer.status == 206 ? request.offset : 0 }

    private static let longestErrorBody = 64 << 10

    /// The answer is an error, and what is missing of it is not wanted: its status is enough.
    var hasSaidEnough: Bool {
        answer.isComplete && answer.status >= 300 && !request.keepsErrorBody && !isTooLarge && !answer.isMalformed
    }

    /// What has come of the body, and where it belongs; `nil` if there is nothing to look at.
    var bodySoFar: (bytes: Data, offset: Int)? {
        let isWanted = !isOver && body.count > 0 && (answer.status == 200 || answer.status == 206)
        return isWanted ? (body.snapshot(), offset) : nil
    }

    // MARK: The end

    /// Ends the transfer and tells so, once.
    func end(_ result: Result<Void, DipperError>, metrics: TransferMetrics = .init()) {
        guard !isOver else { return }
        isOver = true
        var result = result
        // To libcurl a connection that is closed amid the fields ends the answer.
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

    /// The answer, with the body; `nil` if there is no memory for it.
    private func response(_ metrics: TransferMetrics) -> TransferResponse? {
        body.takeData().map {
            TransferResponse(status: answer.status, headers: answer.fields, body: $0, metrics: metrics)
        }
    }
}
