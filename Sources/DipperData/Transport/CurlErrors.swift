import CCurl
import Foundation

/// libcurl's result codes as ``DipperError``.
enum CurlErrors {
    static func error(_ code: CURLcode, _ handle: UnsafeMutableRawPointer, of transfer: CurlTransfer) -> DipperError {
        if transfer.isTooLarge { return .tooLarge }
        if code == CURLE_COULDNT_CONNECT, transfer.isRefused { return .addressRefused }
        var osError = 0
        _ = dipper_curl_get_long(handle, CURLINFO_OS_ERRNO, &osError)
        return classify(code, osError: Int32(osError)).with(detail: CurlLibrary.describe(code))
    }

    private static func classify(_ code: CURLcode, osError: Int32) -> DipperError {
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
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_HTTP2, CURLE_HTTP2_STREAM:
            .connectionLost
        case CURLE_SSL_CONNECT_ERROR:
            // A handshake that the peer broke off is a broken connection; one that it refused is not.
            osError == 0 ? .tlsRejected : .connectionLost
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_INVALIDCERTSTATUS,
            CURLE_SSL_CRL_BADFILE, CURLE_SSL_CLIENTCERT, CURLE_USE_SSL_FAILED, CURLE_SSL_ENGINE_NOTFOUND:
            .tlsRejected
        case CURLE_TOO_MANY_REDIRECTS:
            .tooManyRedirects
        case CURLE_FILESIZE_EXCEEDED:
            .tooLarge
        case CURLE_URL_MALFORMAT:
            .invalidURL
        // The scheme has been looked at before: an unsupported protocol is HTTP/0.9.
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING, CURLE_WRITE_ERROR:
            .malformedResponse
        default:
            .transport
        }
    }
}
