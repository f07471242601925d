import CCurl
import Foundation

/// The options that all transfers of a pool share, and libcurl's callbacks.
enum CurlOptions {
    /// Sets the options that all transfers share. Returns `false` if this libcurl does not know a required option: an
    /// option that the caller asks for, such as a pinned key, must not be dropped silently.
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
        // The cache decides about redirects.
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_LOW_SPEED_LIMIT, max(0, configuration.lowSpeedLimit))
        set(CURLOPT_LOW_SPEED_TIME, max(1, configuration.lowSpeedTime.milliseconds / 1_000))
        // HostResolver keeps the addresses; libcurl's own cache needs to hold them only while it connects.
        set(CURLOPT_DNS_CACHE_TIMEOUT, 5)
        // The empty list means every coding that this libcurl can decode.
        set(CURLOPT_ACCEPT_ENCODING, configuration.decodesContent ? "" : nil)
        // A libcurl without HTTP/2 uses HTTP/1.1.
        _ = dipper_curl_set_long(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS)
        // Older TLS versions are refused, even if the system's configuration allows them.
        // mutant TLS: `_TLSv1_2)` => `_TLSv1_0)`
        set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_PROXY_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_USERAGENT, configuration.userAgent.isHeaderValue ? configuration.userAgent : nil)
        set(CURLOPT_CAINFO, configuration.caBundle)
        // Otherwise the folder of the system's certificates counts beside the bundle, if libcurl was built with one.
        if configuration.caBundle != nil { check(dipper_curl_set_string(handle, CURLOPT_CAPATH, nil)) }
        set(CURLOPT_PINNEDPUBLICKEY, pins(configuration.pinnedPublicKeys))
        // ProxySettings decides which requests use a proxy; libcurl must not apply the environment's exceptions again.
        set(CURLOPT_NOPROXY, "")
        // The proxy's answer to CONNECT is not the server's answer.
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

    /// Sets the client certificate and its key, or removes them from the handle if they are not to be offered.
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

    /// Sets what holds for the origin of one transfer. Options that are not set here would keep these values, so the
    /// handle must not be used for another transfer.
    static func setTLS(_ tls: TLSAnswer, on handle: UnsafeMutableRawPointer) -> Bool {
        let blobs = [
            (CURLOPT_CAINFO_BLOB, tls.authorities), (CURLOPT_SSLCERT_BLOB, tls.clientCertificate),
            (CURLOPT_SSLKEY_BLOB, tls.clientKey),
        ]
        let texts = [
            (CURLOPT_PINNEDPUBLICKEY, pins(tls.pinnedPublicKeys)), (CURLOPT_KEYPASSWD, tls.clientKeyPassword),
        ]
        var isSet = true
        func check(_ code: CURLcode) { if code != CURLE_OK { isSet = false } }
        for (option, data) in blobs {
            data?.withUnsafeBytes { check(dipper_curl_set_blob(handle, option, $0.baseAddress, $0.count)) }
        }
        for (option, text) in texts { if let text { check(dipper_curl_set_string(handle, option, text)) } }
        // The folder of the system's certificates would count as well.
        if tls.authorities != nil { check(dipper_curl_set_string(handle, CURLOPT_CAPATH, nil)) }
        return isSet
    }

    /// Returns public keys in libcurl's form; `nil` for none.
    private static func pins(_ keys: [String]) -> String? {
        keys.isEmpty ? nil : keys.map { "sha256//" + $0 }.joined(separator: ";")
    }

    /// Sets the transfer that libcurl passes to the callbacks.
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

    /// Refuses name resolution by libcurl, whose resolver thread it would wait for; the pool looks up the names
    /// instead.
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

    /// Tells the transfer that the connection is established, just before libcurl sends the request.
    private static let connected: curl_prereq_callback = { context, peer, _, peerPort, localPort in
        guard let transfer = CurlOptions.transfer(context), let peer,
            transfer.connected(from: .init(local: localPort, peer: peerPort, address: String(cString: peer)))
        else { return CURL_PREREQFUNC_ABORT }
        return CURL_PREREQFUNC_OK
    }
}
