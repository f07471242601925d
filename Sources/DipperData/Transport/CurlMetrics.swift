import CCurl

/// The measurements of libcurl.
enum CurlMetrics {
    /// Returns the number of bytes of fields and bodies so far, in both directions.
    static func moved(_ handle: UnsafeMutableRawPointer) -> Int {
        var (down, up): (curl_off_t, curl_off_t) = (0, 0)
        _ = dipper_curl_get_off(handle, CURLINFO_SIZE_DOWNLOAD_T, &down)
        _ = dipper_curl_get_off(handle, CURLINFO_SIZE_UPLOAD_T, &up)
        var head = 0
        _ = dipper_curl_get_long(handle, CURLINFO_HEADER_SIZE, &head)
        return Int(down) + Int(up) + head
    }

    /// Reads the metrics of a transfer.
    /// - Parameter earlier: the time from the first beginning of the transfer to the last.
    static func read(_ handle: UnsafeMutableRawPointer, earlier: Duration) -> TransferMetrics {
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
        /// Returns a time that libcurl has measured; zero if the event did not happen.
        func moment(_ info: CURLINFO) -> Duration {
            let time = number(info)
            return time > 0 ? earlier + .microseconds(time) : .zero
        }
        var metrics = TransferMetrics()
        metrics.nameLookup = earlier + .microseconds(number(CURLINFO_NAMELOOKUP_TIME_T))
        metrics.connect = moment(CURLINFO_CONNECT_TIME_T)
        metrics.tls = moment(CURLINFO_APPCONNECT_TIME_T)
        metrics.firstByte = moment(CURLINFO_STARTTRANSFER_TIME_T)
        metrics.total = earlier + .microseconds(number(CURLINFO_TOTAL_TIME_T))
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
