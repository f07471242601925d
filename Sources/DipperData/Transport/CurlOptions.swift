import CCurl
import Foundation

/// The options that all transfers of a pool share, and libcurl's callbacks.
enum CurlOptions {
    static func set(_ configuration: CurlConfiguration, sockets: CurlSockets, on handle: UnsafeMutableRawPointer) {
        func set(_ option: CURLoption, _ value: Int) { _ = dipper_curl_set_long(handle, option, value) }
        func set(_ option: CURLoption, _ value: String?) {
            guard let value else { return }
            _ = dipper_curl_set_string(handle, option, value)
        }
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_NOPROGRESS, 1)
        set(CURLOPT_BUFFERSIZE, 64 << 10)
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        // Where a redirect leads is decided by the cache.
        set(CURLOPT_FOLLOWLOCATION, 0)
        // Zero would mean libcurl's own five minutes.
        set(CURLOPT_CONNECTTIMEOUT_MS, max(1, configuration.connectTimeout.milliseconds))
        set(CURLOPT_LOW_SPEED_LIMIT, configuration.lowSpeedLimit)
        set(CURLOPT_LOW_SPEED_TIME, max(1, configuration.lowSpeedTime.milliseconds / 1_000))
        // The empty list means every coding that this libcurl can decode.
        set(CURLOPT_ACCEPT_ENCODING, configuration.decodesContent ? "" : nil)
        set(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS)
        set(CURLOPT_USERAGENT, configuration.userAgent)
        set(CURLOPT_CAINFO, configuration.caBundle)
        set(
            CURLOPT_PINNEDPUBLICKEY,
            configuration.pinnedPublicKeys.map { "sha256//" + $0 }.joined(separator: ";").nonEmpty)
        set(CURLOPT_SSLCERT, configuration.clientCertificate)
        set(CURLOPT_SSLKEY, configuration.clientKey)
        set(CURLOPT_KEYPASSWD, configuration.clientKeyPassword)
        set(CURLOPT_PROXY, configuration.proxySetting)
        // What a proxy says of the tunnel is not the answer.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        _ = dipper_curl_set_off(handle, CURLOPT_MAXFILESIZE_LARGE, curl_off_t(configuration.maximumBodySize))
        _ = dipper_curl_set_data_fn(handle, CURLOPT_WRITEFUNCTION, takeBody)
        _ = dipper_curl_set_data_fn(handle, CURLOPT_HEADERFUNCTION, takeHeader)
        _ = dipper_curl_set_open_fn(handle, openSocket)
        _ = dipper_curl_set_close_fn(handle, closeSocket)
        _ = dipper_curl_set_pointer(handle, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(sockets).toOpaque())
        _ = dipper_curl_set_ready_fn(handle, connected)
    }

    /// The options that hand the callbacks their transfer.
    static func setContext(_ context: UnsafeMutableRawPointer?, on handle: UnsafeMutableRawPointer) {
        for option in [CURLOPT_WRITEDATA, CURLOPT_HEADERDATA, CURLOPT_OPENSOCKETDATA, CURLOPT_PREREQDATA] {
            _ = dipper_curl_set_pointer(handle, option, context)
        }
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

    private static let openSocket: curl_opensocket_callback = { context, _, address in
        guard let address, let transfer = CurlOptions.transfer(context), transfer.mayConnect(to: address) else {
            return CURL_SOCKET_BAD
        }
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
