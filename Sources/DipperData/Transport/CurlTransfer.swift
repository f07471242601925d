import CCurl
import Foundation

/// One transfer by libcurl. All but ``Transfer``'s calls happen on its pool's thread.
// The mutable parts belong to the pool's thread; other threads only post commands.
final class CurlTransfer: Transfer, @unchecked Sendable {
    let request: TransferRequest
    private let pool: CurlPool
    private let receive: @Sendable (TransferEvent) -> Void

    var handle: UnsafeMutableRawPointer?
    var headerList: UnsafeMutablePointer<curl_slist>?
    var isThrottled: Bool
    /// The largest body taken.
    private let limit: Int
    var isOver = false
    private var status = 0
    private var fields = HTTPHeaders()
    private var body = ByteBuffer()
    private var expected: Int?
    private(set) var isTooLarge = false
    private var errorBytes = 0

    init(
        _ request: TransferRequest, pool: CurlPool, receive: @escaping @Sendable (TransferEvent) -> Void
    ) {
        self.request = request
        self.pool = pool
        self.receive = receive
        limit = pool.configuration.maximumBodySize
        isThrottled = request.isThrottled
    }

    // MARK: From any thread

    func cancel() { pool.post(.cancel(self)) }
    func setThrottled(_ isThrottled: Bool) { pool.post(.setThrottled(self, isThrottled)) }
    /// The connection stays where it is; a promoted transfer is released by its pause being lifted.
    func setLane(_ lane: Lane) {}

    // MARK: On the pool's thread

    /// A line of the header section, line break included.
    func takeHeaderLine(_ line: UnsafeRawBufferPointer) {
        if line.starts(with: "HTTP/".utf8) {
            // A new section: after an informational answer or a redirect only the last one counts.
            fields = HTTPHeaders()
            status = 0
            expected = nil
            return
        }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return }
        let value = line[(colon + 1)...]
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D || $0 == 0x0A }
        let start = value.firstIndex { !isSpace($0) } ?? value.endIndex
        let end = value.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? start
        fields.append(
            String(decoding: line[..<colon], as: UTF8.self), String(decoding: value[start..<end], as: UTF8.self))
    }

    /// Takes a piece of the body; false if it is not wanted.
    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if status == 0 { readStatus() }
        // The body of an error is not handed out; it is read so that the connection can be used again, unless that
        // takes longer than a new connection.
        guard (200...299).contains(status) else {
            errorBytes += bytes.count
            return errorBytes <= Self.longestErrorBody
        }
        guard body.count + bytes.count <= limit else {
            isTooLarge = true
            return false
        }
        if body.count == 0 { body.reserve(min(expected ?? bytes.count, limit, Self.largestReservation)) }
        body.append(bytes)
        receive(.progress(received: body.count, expected: expected))
        return true
    }

    /// A server may announce what it likes: past this the buffer grows with what arrives.
    private static let largestReservation = 16 << 20
    private static let longestErrorBody = 64 << 10

    /// The transfer was broken off because it had said enough: its status.
    var hasSaidEnough: Bool { errorBytes > Self.longestErrorBody }

    private func readStatus() {
        guard let handle else { return }
        var code = 0
        _ = dipper_curl_get_long(handle, CURLINFO_RESPONSE_CODE, &code)
        status = code
        var length: curl_off_t = -1
        _ = dipper_curl_get_off(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length)
        // With a content coding the length is that of the coded bytes.
        expected = length >= 0 && fields["Content-Encoding"] == nil ? Int(length) : nil
    }

    /// Ends the transfer and tells so, once.
    func end(_ result: Result<Void, DipperError>, metrics: TransferMetrics = .init()) {
        guard !isOver else { return }
        isOver = true
        switch result {
        case .failure(let error):
            body = ByteBuffer()
            receive(.finished(.failure(error)))
        case .success:
            readStatus()
            let response = TransferResponse(
                status: status, headers: fields, body: body.takeData(), metrics: metrics)
            receive(.finished(.success(response)))
        }
    }
}
