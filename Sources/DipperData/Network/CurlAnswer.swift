import CCurl
import Foundation

/// The status and the fields of an answer, which libcurl delivers line by line.
struct CurlAnswer {
    private(set) var status = 0
    private(set) var fields = HTTPHeaders()
    /// The announced length in bytes, with the content codings; `nil` for none.
    private(set) var length: Int?
    private(set) var size = 0
    private(set) var isComplete = false
    /// `nil` for codings that cannot be taken off.
    private(set) var codings: [ContentCoding]? = []
    /// Whether the values of `Content-Length` contradict each other, are not numbers, or are too many to read.
    private(set) var isMalformed = false
    /// The status of an informational answer; zero for a final one.
    private var informational = 0
    /// The informational answers that nobody has taken yet.
    private var interims: [InterimResponse] = []
    /// Whether a folded line may continue the last line.
    private var canContinue = false

    /// Takes a line, line break included. libcurl may deliver several at once; a value must not contain a line break.
    mutating func take(_ lines: UnsafeRawBufferPointer) {
        var rest = lines
        while let end = rest.position(of: 0x0A), end + 1 < rest.count {
            takeLine(rest.part(0..<end + 1))
            rest = rest.part(end + 1..<rest.count)
        }
        takeLine(rest)
    }

    private mutating func takeLine(_ line: UnsafeRawBufferPointer) {
        size += line.count
        let isNext = isComplete ? informational > 0 : fields.isEmpty
        if isNext, line.starts(with: "HTTP/".utf8) {
            // After an informational answer. Only the last answer counts.
            let (size, interims) = (size, interims)
            self = CurlAnswer()
            (self.size, self.interims) = (size, interims)
            let status = line.drop { $0 != UInt8(ascii: " ") }.dropFirst().prefix(while: \.isDigit)
            let code = Int(String(decoding: status, as: UTF8.self)) ?? 0
            informational = (100...199).contains(code) && code != 101 ? code : 0
            return
        }
        // Lines after the body are trailers.
        guard !isComplete, let first = line.first else { return }
        if Self.isLineBreak(first) {
            complete()
        } else if Self.isBlank(first) {
            if canContinue, let value = Self.value(line) { fields.extendLast(with: value) }
        } else {
            canContinue = takeField(line)
        }
    }

    /// Returns `false` for a malformed field, which is ignored because parsers disagree about it.
    private mutating func takeField(_ line: UnsafeRawBufferPointer) -> Bool {
        guard let colon = line.position(of: UInt8(ascii: ":")), colon > 0 else { return false }
        let name = line.part(0..<colon)
        guard name.allSatisfy(\.isTokenCharacter), let value = Self.value(line.part(colon + 1..<line.count)) else {
            return false
        }
        fields.append(String(decoding: name, as: UTF8.self), value)
        return true
    }

    /// `nil` for bytes that cannot be sent back.
    private static func value(_ bytes: UnsafeRawBufferPointer) -> String? {
        let value = trimmed(bytes)
        return value.position(of: 0) == nil && value.position(of: 0x0D) == nil ? String(fieldBytes: value) : nil
    }

    mutating func takeInterims() -> [InterimResponse] { exchange(&interims, with: []) }

    private mutating func complete() {
        isComplete = true
        // 100 answers the expectation of libcurl itself.
        if informational > 100 { interims.append(InterimResponse(status: informational, headers: fields)) }
        codings = ContentCoding.codings(in: fields)
        // An error that cannot be recovered from (RFC 9112, section 6.3).
        let list = fields.fieldList("Content-Length")
        isMalformed =
            list.isCut || !list.members.allSatisfy { $0 == list.members.first && $0.utf8.allSatisfy(\.isDigit) }
    }

    mutating func readStatus(_ handle: UnsafeMutableRawPointer) {
        status = dipper_curl_long(handle, CURLINFO_RESPONSE_CODE)
        // Negative for none.
        let announced = Int(dipper_curl_off(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T))
        length = announced >= 0 ? announced : nil
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    private static func isLineBreak(_ byte: UInt8) -> Bool { byte == 0x0D || byte == 0x0A }

    private static func trimmed(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var (start, end) = (0, bytes.count)
        while start < end, isBlank(bytes[start]) || isLineBreak(bytes[start]) { start += 1 }
        while start < end, isBlank(bytes[end - 1]) || isLineBreak(bytes[end - 1]) { end -= 1 }
        return bytes.part(start..<end)
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: baseAddress.map { $0 + range.lowerBound }, count: range.count)
    }

    fileprivate func position(of byte: UInt8) -> Int? {
        guard let baseAddress, let found = memchr(baseAddress, Int32(byte), count) else { return nil }
        return UnsafeRawPointer(found) - baseAddress
    }
}

@Loop
enum CurlErrors {
    static func error(_ code: CURLcode, _ handle: UnsafeMutableRawPointer, of transfer: CurlTransfer) -> DipperError {
        if transfer.isTooLarge { return .tooLarge }
        if dipper_curl_long(handle, CURLINFO_HTTP_CONNECTCODE) == 407 {
            return .status(407).with(detail: "the proxy opens no tunnel")
        }
        if code == CURLE_COULDNT_CONNECT, transfer.isRefused == true { return .addressRefused }
        if code == CURLE_SSL_CONNECT_ERROR, isBrokenHandshake(transfer.errorText.text) {
            return .connectionLost.with(detail: "the TLS handshake was broken off")
        }
        let osError = Int32(dipper_curl_long(handle, CURLINFO_OS_ERRNO))
        let isClear = transfer.request.url.scheme?.asciiLowercased == "http"
        let detail = curl_easy_strerror(code).map { String(cString: $0) } ?? "code \(code.rawValue)"
        return classify(code, osError: osError, isClear: isClear).with(detail: detail)
    }

    /// Whether the connection ended during the TLS handshake without an alert, so that TLS was not refused. libcurl has
    /// one code for both, and its text depends on the TLS library.
    static func isBrokenHandshake(_ text: String) -> Bool {
        ["unexpected eof", "SSL_ERROR_SYSCALL", "SSL_ERROR_ZERO_RETURN", "reset by peer", "non-properly terminated"]
            .contains { text.contains($0) }
    }

    private static func classify(_ code: CURLcode, osError: Int32, isClear: Bool) -> DipperError {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
            .hostNotFound
        case CURLE_COULDNT_CONNECT:
            osError == ENETUNREACH || osError == EHOSTUNREACH || osError == ENETDOWN
                ? .unreachable : .connectionFailed
        case CURLE_OPERATION_TIMEDOUT:
            .timedOut
        case CURLE_PARTIAL_FILE:
            .truncated
        // Without TLS and without a socket error, the chunked coding is malformed.
        case CURLE_RECV_ERROR where isClear && osError == 0:
            .malformedResponse
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_HTTP2, CURLE_HTTP2_STREAM:
            .connectionLost
        case CURLE_SSL_CONNECT_ERROR:
            osError == 0 ? .tlsRejected : .connectionLost
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_INVALIDCERTSTATUS,
            CURLE_SSL_CRL_BADFILE, CURLE_SSL_CLIENTCERT, CURLE_USE_SSL_FAILED, CURLE_SSL_ENGINE_NOTFOUND:
            .tlsRejected
        // libcurl's codes for a line that is too long for its buffer; 100 is CURLE_TOO_LARGE.
        case CURLE_FILESIZE_EXCEEDED, CURLE_OUT_OF_MEMORY, CURLcode(rawValue: 100):
            .tooLarge
        case CURLE_URL_MALFORMAT:
            .invalidURL
        // Only http and https URLs get here: the unsupported protocol is HTTP/0.9.
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING, CURLE_WRITE_ERROR,
            // libcurl's code for a malformed trailer.
            CURLE_BAD_FUNCTION_ARGUMENT:
            .malformedResponse
        default:
            .transport
        }
    }
}

enum CurlMetrics {
    /// In bytes, in both directions.
    static func moved(_ handle: UnsafeMutableRawPointer) -> Int {
        Int(dipper_curl_off(handle, CURLINFO_SIZE_DOWNLOAD_T)) + Int(dipper_curl_off(handle, CURLINFO_SIZE_UPLOAD_T))
            + dipper_curl_long(handle, CURLINFO_HEADER_SIZE)
    }

    static func read(_ handle: UnsafeMutableRawPointer, earlier: Duration) -> TransferMetrics {
        func time(_ info: CURLINFO) -> Duration { .microseconds(dipper_curl_off(handle, info)) }
        func moment(_ info: CURLINFO) -> Duration {
            let span = time(info)
            return span > .zero ? earlier + span : .zero
        }
        var metrics = TransferMetrics()
        metrics.nameLookup = earlier + time(CURLINFO_NAMELOOKUP_TIME_T)
        metrics.connect = moment(CURLINFO_CONNECT_TIME_T)
        metrics.tls = moment(CURLINFO_APPCONNECT_TIME_T)
        metrics.firstByte = moment(CURLINFO_STARTTRANSFER_TIME_T)
        metrics.total = earlier + time(CURLINFO_TOTAL_TIME_T)
        metrics.bytesReceived = Int(dipper_curl_off(handle, CURLINFO_SIZE_DOWNLOAD_T))
        metrics.reusedConnection = dipper_curl_long(handle, CURLINFO_NUM_CONNECTS) == 0
        metrics.redirects = dipper_curl_long(handle, CURLINFO_REDIRECT_COUNT)
        metrics.httpVersion =
            switch dipper_curl_long(handle, CURLINFO_HTTP_VERSION) {
            case CURL_HTTP_VERSION_1_0: "HTTP/1.0"
            case CURL_HTTP_VERSION_1_1: "HTTP/1.1"
            case CURL_HTTP_VERSION_2_0: "HTTP/2"
            case CURL_HTTP_VERSION_3: "HTTP/3"
            default: ""
            }
        return metrics
    }
}
