import CCurl

/// Reads what libcurl measured.
enum CurlMetrics {
    static func read(_ handle: UnsafeMutableRawPointer) -> TransferMetrics {
        func number(_ info: CURLINFO) -> Int {
            var value: curl_off_t = 0
            _ = dipper_curl_get_off(handle, info, &value)
            return Int(value)
        }
        func long(_ info: CURLINFO) -> Int {
            var value = 0
            _ = dipper_curl_get_long(handle, info, &value)
            return value
        }
        var metrics = TransferMetrics()
        metrics.nameLookup = .microseconds(number(CURLINFO_NAMELOOKUP_TIME_T))
        metrics.connect = .microseconds(number(CURLINFO_CONNECT_TIME_T))
        metrics.tls = .microseconds(number(CURLINFO_APPCONNECT_TIME_T))
        metrics.firstByte = .microseconds(number(CURLINFO_STARTTRANSFER_TIME_T))
        metrics.total = .microseconds(number(CURLINFO_TOTAL_TIME_T))
        metrics.bytesReceived = number(CURLINFO_SIZE_DOWNLOAD_T)
        metrics.reusedConnection = long(CURLINFO_NUM_CONNECTS) == 0
        metrics.redirects = long(CURLINFO_REDIRECT_COUNT)
        metrics.httpVersion =
            switch long(CURLINFO_HTTP_VERSION) {
            case CURL_HTTP_VERSION_1_0: "HTTP/1.0"
            case CURL_HTTP_VERSION_1_1: "HTTP/1.1"
            case CURL_HTTP_VERSION_2_0: "HTTP/2"
            case CURL_HTTP_VERSION_3: "HTTP/3"
            default: ""
            }
        return metrics
    }
}
