import CCurl
import Foundation

/// The translation of libcurl's result codes into ``DipperError``.
enum CurlErrors {
    static func error(_ code: CURLcode, _ handle: UnsafeMutableRawPointer, of transfer: CurlTransfer) -> DipperError {
        if transfer.isTooLarge { return .tooLarge }
        if code == CURLE_COULDNT_CONNECT, transfer.isRefused { return .addressRefused }
        if code == CURLE_SSL_CONNECT_ERROR, isBrokenHandshake(transfer.errorText) {
            return .connectionLost.with(detail: "the TLS handshake was broken off")
        }
        var osError = 0
        _ = dipper_curl_get_long(handle, CURLINFO_OS_ERRNO, &osError)
        let isClear = transfer.request.url.scheme?.asciiLowercased == "http"
        return classify(code, osError: Int32(osError), isClear: isClear).with(detail: CurlLibrary.describe(code))
    }

    /// Whether libcurl's error text says that the connection ended during the TLS handshake without an alert.
    ///
    /// A peer that hangs up, or a network that fails, during the handshake has not refused TLS. libcurl has one code
    /// for a refusal and for a broken handshake, and its text for the latter depends on the TLS library.
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
        // libcurl reports a line that is too long for its buffer as CURLE_OUT_OF_MEMORY or as 100 (CURLE_TOO_LARGE).
        case CURLE_FILESIZE_EXCEEDED, CURLE_OUT_OF_MEMORY, CURLcode(rawValue: 100):
            .tooLarge
        case CURLE_URL_MALFORMAT:
            .invalidURL
        // Only http and https URLs get here: libcurl reports HTTP/0.9 as an unsupported protocol.
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING, CURLE_WRITE_ERROR,
            // libcurl's code for a malformed trailer.
            CURLE_BAD_FUNCTION_ARGUMENT:
            .malformedResponse
        default:
            .transport
        }
    }
}
