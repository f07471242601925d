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
    var isThrottled: Bool
    private(set) var lane: Lane
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
        lane = request.lane
        needsNewConnection = request.needsNewConnection
        isThrottled = request.isThrottled
    }

    // MARK: From any thread

    func cancel() { pool.post(.cancel(self)) }
    func setThrottled(_ isThrottled: Bool) { pool.post(.setThrottled(self, isThrottled)) }
    func setLane(_ lane: Lane) { pool.post(.setLane(self, lane)) }
    func copyBody(_ reply: @escaping @Sendable (Data, Int) -> Void) { pool.post(.copyBody(self, reply)) }

    // MARK: The connection

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
        guard let socket else { return true }
        var connections = 0
        if let handle { _ = dipper_curl_get_long(handle, CURLINFO_NUM_CONNECTS, &connections) }
        // What has come unasked must not be taken for the answer.
        if connections == 0, pool.sockets.speaksHTTP1(socket), CurlSockets.hasInput(socket) {
            needsNewConnection = true
            return false
        }
        followLane()
        return true
    }

    /// The transfer lets go of its connection, which may be used again.
    func disconnect() {
        if let socket, let version = httpVersion {
            pool.sockets.note(socket, speaksHTTP1: version < CURL_HTTP_VERSION_2_0)
        }
        socket = nil
        flow = nil
    }

    private func followLane() {
        guard let socket else { return }
        if lane == .slow, !CurlSockets.isLoopback(socket) {
            flow = SlowFlow(socket, to: request.url.host(percentEncoded: false) ?? "", pool: pool)
        } else {
            pool.sockets.unlimit(socket)
        }
    }

    /// The transfer counts in another lane from now on: its window follows, if the connection is its own.
    func move(to lane: Lane) {
        guard lane != self.lane else { return }
        self.lane = lane
        guard !isOver, !isMultiplexed || pool.lane == .slow else { return }
        flow = nil
        followLane()
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
        if body.count == 0 { body.reserve(min(answer.length ?? bytes.count, limit, Self.largestReservation)) }
        body.append(bytes)
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

    /// A server may announce what it likes: past this the buffer grows with what arrives.
    private static let largestReservation = 16 << 20
    private static let longestErrorBody = 64 << 10

    /// The answer is an error, and what is missing of it is not wanted: its status is enough.
    var hasSaidEnough: Bool {
        answer.isComplete && answer.status >= 300 && !request.keepsErrorBody && !isTooLarge && !answer.isMalformed
    }

    /// What has come of the body, and where it belongs; `nil` if there is nothing to look at.
    var bodySoFar: (bytes: Data, offset: Int)? {
        let isWanted = !isOver && body.count > 0 && (answer.status == 200 || answer.status == 206)
        return isWanted ? (body.copy(), offset) : nil
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
            if body.count > 0, !isTooLarge { receive(.interrupted(response(metrics))) }
            body = ByteBuffer()
            receive(.finished(.failure(error)))
        case .success:
            readStatus()
            receive(.finished(.success(response(metrics))))
        }
    }

    func readStatus() {
        if let handle { answer.readStatus(handle) }
    }

    private func response(_ metrics: TransferMetrics) -> TransferResponse {
        TransferResponse(
            status: answer.status, headers: answer.fields, body: body.takeData(), metrics: metrics)
    }
}
