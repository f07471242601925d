import CCurl
import Foundation

/// The options that all transfers of a pool share, and libcurl's callbacks.
enum CurlOptions {
    /// False if this libcurl does not know an option that is not to be done without: what a caller asks for, such as a
    /// pinned key, must not be left out silently.
    static func set(
        _ configuration: CurlConfiguration, sockets: CurlSockets, on handle: UnsafeMutableRawPointer
    ) -> Bool {
        var isSet = true
        func check(_ code: CURLcode) { if code != CURLE_OK { isSet = false } }
        func set(_ option: CURLoption, _ value: Int) { check(dipper_curl_set_long(handle, option, value)) }
        func set(_ option: CURLoption, _ value: String?) {
            if let value { check(dipper_curl_set_string(handle, option, value)) }
        }
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_NOPROGRESS, 1)
        set(CURLOPT_BUFFERSIZE, 64 << 10)
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        // Where a redirect leads is decided by the cache.
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_LOW_SPEED_LIMIT, max(0, configuration.lowSpeedLimit))
        set(CURLOPT_LOW_SPEED_TIME, max(1, configuration.lowSpeedTime.milliseconds / 1_000))
        // The pool's own table keeps addresses; libcurl's holds them no longer than it takes to connect.
        set(CURLOPT_DNS_CACHE_TIMEOUT, 5)
        // The empty list means every coding that this libcurl can decode.
        set(CURLOPT_ACCEPT_ENCODING, configuration.decodesContent ? "" : nil)
        // Without HTTP/2 in libcurl it stays with HTTP/1.1.
        _ = dipper_curl_set_long(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS)
        // Older versions are not to be spoken, whatever the system allows.
        set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_PROXY_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_USERAGENT, configuration.userAgent.isHeaderValue ? configuration.userAgent : nil)
        set(CURLOPT_CAINFO, configuration.caBundle)
        set(
            CURLOPT_PINNEDPUBLICKEY,
            configuration.pinnedPublicKeys.map { "sha256//" + $0 }.joined(separator: ";").nonEmpty)
        // Which proxy is taken, and for which hosts none, is decided by ``ProxySettings``, and not by libcurl as well.
        set(CURLOPT_NOPROXY, "")
        // What a proxy says of the tunnel is not the answer.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        check(dipper_curl_set_off(handle, CURLOPT_MAXFILESIZE_LARGE, curl_off_t(configuration.maximumBodySize)))
        check(dipper_curl_set_data_fn(handle, CURLOPT_WRITEFUNCTION, takeBody))
        check(dipper_curl_set_data_fn(handle, CURLOPT_HEADERFUNCTION, takeHeader))
        check(dipper_curl_set_open_fn(handle, openSocket))
        check(dipper_curl_set_close_fn(handle, closeSocket))
        check(
            dipper_curl_set_pointer(handle, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(sockets).toOpaque()))
        check(dipper_curl_set_ready_fn(handle, connected))
        check(dipper_curl_set_resolver_fn(handle, mayResolve))
        return isSet
    }

    /// The identity that the client shows where it is asked for one; none if it is not to be shown.
    static func setIdentity(
        _ configuration: CurlConfiguration, isOffered: Bool, on handle: UnsafeMutableRawPointer
    ) -> Bool {
        guard configuration.clientCertificate != nil || configuration.clientKey != nil else { return true }
        let values = [
            (CURLOPT_SSLCERT, configuration.clientCertificate), (CURLOPT_SSLKEY, configuration.clientKey),
            (CURLOPT_KEYPASSWD, configuration.clientKeyPassword),
        ]
        return values.allSatisfy { option, value in
            dipper_curl_set_string(handle, option, isOffered ? value : nil) == CURLE_OK
        }
    }

    /// The options that hand the callbacks their transfer.
    static func setContext(_ context: UnsafeMutableRawPointer?, on handle: UnsafeMutableRawPointer) {
        let options = [
            CURLOPT_WRITEDATA, CURLOPT_HEADERDATA, CURLOPT_OPENSOCKETDATA, CURLOPT_PREREQDATA,
            CURLOPT_RESOLVER_START_DATA,
        ]
        for option in options { _ = dipper_curl_set_pointer(handle, option, context) }
    }

    private static func transfer(_ context: UnsafeMutableRawPointer?) -> CurlTransfer? {
        context.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let takeBody: dipper_curl_data_fn = { data, size, count, context in
        let length = size * count
        guard let data, let transfer = CurlOptions.transfer(context) else { return 0 }
        if transfer.isThrottled { return Int(CURL_WRITEFUNC_PAUSE) }
        return transfer.take(UnsafeRawBufferPointer(start: data, count: length)) ? length : 0
    }

    private static let takeHeader: dipper_curl_data_fn = { data, size, count, context in
        let length = size * count
        guard let data, let transfer = CurlOptions.transfer(context) else { return 0 }
        return transfer.takeHeaderLine(UnsafeRawBufferPointer(start: data, count: length)) ? length : 0
    }

    /// libcurl would look up a name now, on a thread that it waits for: the pool does that instead.
    private static let mayResolve: curl_resolver_start_callback = { _, _, context in
        guard let transfer = CurlOptions.transfer(context) else { return 1 }
        return transfer.mayResolve() ? 0 : 1
    }

    private static let openSocket: curl_opensocket_callback = { context, _, address in
        guard let address, let transfer = CurlOptions.transfer(context), transfer.mayConnect(to: address) else {
            return CURL_SOCKET_BAD
        }
        transfer.setScope(of: address)
        let socket = dipper_curl_open_socket(address)
        if socket >= 0 { transfer.pool.sockets.add(socket) }
        return socket
    }

    private static let closeSocket: curl_closesocket_callback = { context, socket in
        if let context { Unmanaged<CurlSockets>.fromOpaque(context).takeUnretainedValue().remove(socket) }
        return close(socket)
    }

    /// The connection is there, and the request is about to be sent.
    private static let connected: curl_prereq_callback = { context, peer, _, peerPort, localPort in
        guard let transfer = CurlOptions.transfer(context), let peer,
            transfer.connected(from: .init(local: localPort, peer: peerPort, address: String(cString: peer)))
        else { return CURL_PREREQFUNC_ABORT }
        return CURL_PREREQFUNC_OK
    }
}

extension String {
    fileprivate var nonEmpty: String? { isEmpty ? nil : self }
}

extension Duration {
    /// Whole milliseconds, rounded up.
    var milliseconds: Int {
        let (seconds, attoseconds) = components
        let whole = seconds.multipliedReportingOverflow(by: 1_000)
        guard !whole.overflow else { return seconds > 0 ? Int.max / 2 : 0 }
        return Int(whole.partialValue) + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    var timeInterval: Double {
        Double(components.seconds) + Double(components.attoseconds) * 1e-18
    }
}
