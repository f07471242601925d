import CCurl
import Foundation
import Synchronization

/// A transport for HTTP and HTTPS that uses libcurl.
///
/// One thread of the process serves all transports. Each queue has its own connections, and those of `slowQueue` have a receive window
/// close to the bandwidth-delay product of the path, so that a paused transfer frees the link. Host names are resolved
/// on separate threads: a name server that does not answer delays only the transfers that wait for it. The transport
/// does not follow redirects. It decodes the content codings gzip, deflate, br
/// and zstd.
public final class CurlTransport: Transport {
    private let fast: CurlPool
    private let slow: CurlPool
    private let proxies: ProxySettings
    private let resolver: HostResolver
    fileprivate let configuration: CurlConfiguration

    /// Creates a transport.
    /// - Parameter configuration: the limits and options of both queues.
    public init(_ configuration: CurlConfiguration = .init()) {
        _ = Self.prepare()
        let proxies = ProxySettings(fixed: configuration.proxySetting)
        let resolver = HostResolver()
        func pool(_ queue: FetchQueue) -> CurlPool {
            CurlPool(queue, configuration, proxies: proxies, resolver: resolver)
        }
        (self.proxies, self.resolver, self.configuration) = (proxies, resolver, configuration)
        (fast, slow) = (pool(.fast), pool(.slow))
    }

    deinit { end() }

    private static let isPrepared = Mutex(false)

    /// libcurl requires this before any thread uses it. Returns `false` while the system lacks what libcurl needs.
    static func prepare() -> Bool {
        isPrepared.withLock { isPrepared in
            if !isPrepared { isPrepared = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK }
            return isPrepared
        }
    }

    public func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let transfer = CurlTransfer(request, pool: request.queue == .fast ? fast : slow, receive: receive)
        transfer.start()
        return transfer
    }

    public func networkChanged() {
        Loop.post { [resolver] in resolver.networkChanged() }
        for pool in [fast, slow] { pool.post { pool.dropOrphans() } }
    }

    public func firstHop(to url: URL) -> String {
        proxies.proxyURL(for: url)?.host(percentEncoded: false) ?? url.host(percentEncoded: false) ?? ""
    }

    public func proxy(for url: URL) -> URL? { proxies.httpProxy(for: url) }

    public func shutdown() async {
        end()
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            if !Loop.post(waits: false, { continuation.resume() }) { continuation.resume() }
        }
        for pool in [fast, slow] {
            await withCheckedContinuation { continuation in
                pool.decoding.notify(queue: .global()) { continuation.resume() }
            }
        }
    }

    private func end() {
        for pool in [fast, slow] { pool.post { pool.close() } }
    }
}

/// The limits and options of ``CurlTransport``.
public struct CurlConfiguration: Sendable, RedactedStringConvertible {
    /// The longest time to connect, including name resolution and the TLS handshake.
    public var connectTimeout: Duration = .seconds(15)
    /// The lowest speed of a transfer, in bytes a second. A transfer below it for ``lowSpeedTime`` without a break is
    /// aborted, also if no answer comes.
    public var lowSpeedLimit = 64
    /// The time after which a transfer below ``lowSpeedLimit`` is aborted, in whole seconds.
    public var lowSpeedTime: Duration = .seconds(30)
    /// The lowest average speed of a transfer over any ``minimumRateWindow``, in bytes a second; zero for no limit.
    ///
    /// A slower transfer is aborted with a transient failure; the next attempt asks for the rest. So a server that
    /// sends a few bytes now and then does not occupy a slot forever; by default eight transfers can share a link of 1
    /// KB/s.
    public var minimumRate = 128
    /// The time over which ``minimumRate`` is averaged, without pauses of the transfer.
    public var minimumRateWindow: Duration = .seconds(120)
    /// The longest duration of a transfer, without its pauses; `nil` for no limit. A longer one is aborted with a
    /// transient failure.
    public var transferTimeLimit: Duration? = .seconds(3_600)
    /// The largest accepted body, in bytes after content decoding.
    public var maximumBodySize = 1 << 30
    /// The largest accepted body of a compressed answer, in bytes after decoding. A few kilobytes can decode to
    /// gigabytes.
    public var maximumDecodedSize = 64 << 20
    /// Whether the transport asks for content codings and decodes them. If not, bodies arrive as sent, and the
    /// request's `Accept-Encoding` names the codings.
    public var decodesContent = true
    /// The largest accepted header section, in bytes, with those of informational answers.
    public var maximumHeaderSize = 256 << 10
    /// The addresses that may be connected to.
    public var addressPolicy = AddressPolicy.any
    /// The path of a PEM file with certificates to trust in place of the system's.
    public var caBundle: String?
    /// The only public keys that a server may have: base64 of the key's SHA-256, as in RFC 7469; empty for any. A
    /// certificate authority must have signed a pinned key as well.
    public var pinnedPublicKeys: [String] = []
    /// The path of a PEM file with the client certificate, which is offered to the origin of the request. Other
    /// origins, such as those of a redirect or an alternative, get it only if ``clientCertificateOrigins`` lists them.
    public var clientCertificate: String?
    /// The only origins to which ``clientCertificate`` is offered, such as `https://api.example.com`; `nil` for the
    /// origin of each request.
    public var clientCertificateOrigins: [URL]?
    /// The path of a PEM file with the private key of ``clientCertificate``.
    public var clientKey: String?
    /// The password of ``clientKey``, if it has one.
    public var clientKeyPassword: String?
    /// The URL of a proxy, such as `http://proxy:3128`. `nil` for those of the environment (`http_proxy` and so on),
    /// but only if ``addressPolicy`` is ``AddressPolicy/any``. Hosts in `no_proxy` are exempt in either case.
    public var proxy: String?
    /// The value of the `User-Agent` field, unless a request has its own.
    public var userAgent = "Dipper"
    /// The number of connections that each queue keeps for reuse.
    public var keptConnections = 64

    /// Creates a configuration with limits for the open web.
    public init() {}

    func offersIdentity(to request: TransferRequest) -> Bool {
        if request.tls?.clientCertificate != nil { return false }
        guard let clientCertificateOrigins else { return request.isForOwnOrigin }
        return clientCertificateOrigins.contains { Redirect.isSameOrigin($0, request.url) }
    }

    /// Proxies of the environment could connect to addresses that a policy forbids.
    var proxySetting: String? { proxy ?? (addressPolicy.isAny ? nil : "") }

    /// The name of the type, without proxies, keys and passwords.
    public var description: String { "CurlConfiguration" }
}

struct CurlOptions {
    private let handle: UnsafeMutableRawPointer
    /// Whether libcurl has taken all options: a pinned key must not be dropped silently.
    private(set) var areSet = true

    init(_ handle: UnsafeMutableRawPointer) {
        self.handle = handle
    }

    private mutating func check(_ code: CURLcode) {
        if code != CURLE_OK { areSet = false }
    }

    mutating func set(_ option: CURLoption, _ number: Int) { check(dipper_curl_set_long(handle, option, number)) }

    mutating func set(_ option: CURLoption, _ text: String?) {
        guard let text else { return check(dipper_curl_set_string(handle, option, nil)) }
        // By hand: an argument for a pointer would be copied first.
        let code = text.withCString { [handle] in dipper_curl_set_string(handle, option, $0) }
        check(code)
    }

    /// - Parameter list: must live as long as the handle uses it.
    mutating func set(_ option: CURLoption, list: UnsafeMutablePointer<curl_slist>?) {
        check(dipper_curl_set_list(handle, option, list))
    }

    mutating func set(_ option: CURLoption, pointer: UnsafeMutableRawPointer?) {
        check(dipper_curl_set_pointer(handle, option, pointer))
    }

    mutating func set(_ configuration: CurlConfiguration, sockets: CurlSockets) {
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_NOPROGRESS, 1)
        set(CURLOPT_BUFFERSIZE, 64 << 10)
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_LOW_SPEED_LIMIT, max(0, configuration.lowSpeedLimit))
        set(CURLOPT_LOW_SPEED_TIME, max(1, configuration.lowSpeedTime.milliseconds / 1_000))
        // HostResolver keeps the addresses; libcurl needs them only while it connects.
        set(CURLOPT_DNS_CACHE_TIMEOUT, 5)
        _ = dipper_curl_set_long(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS)
        // Even if the system's configuration allows older versions.
        // mutant TLS: `_TLSv1_2)` => `_TLSv1_0)`
        set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_PROXY_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_USERAGENT, configuration.userAgent.isHeaderValue ? configuration.userAgent : nil)
        if let bundle = configuration.caBundle {
            set(CURLOPT_CAINFO, bundle)
            // Otherwise the system's certificates would count as well.
            set(CURLOPT_CAPATH, nil)
        }
        if let pins = Self.pins(configuration.pinnedPublicKeys) { set(CURLOPT_PINNEDPUBLICKEY, pins) }
        // ProxySettings decides; libcurl must not apply the environment's exceptions again.
        set(CURLOPT_NOPROXY, "")
        // The answer to CONNECT is not the server's.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        check(dipper_curl_set_off(handle, CURLOPT_MAXFILESIZE_LARGE, curl_off_t(configuration.maximumBodySize)))
        check(dipper_curl_set_data_fn(handle, CURLOPT_WRITEFUNCTION, Self.takeBody))
        check(dipper_curl_set_data_fn(handle, CURLOPT_HEADERFUNCTION, Self.takeHeader))
        check(dipper_curl_set_open_fn(handle, Self.openSocket))
        check(dipper_curl_set_close_fn(handle, Self.closeSocket))
        set(CURLOPT_CLOSESOCKETDATA, pointer: Unmanaged.passUnretained(sockets).toOpaque())
        check(dipper_curl_set_ready_fn(handle, Self.connected))
        check(dipper_curl_set_resolver_fn(handle, Self.mayResolve))
    }

    mutating func setMethod(of request: TransferRequest) {
        let isPlain = request.method == "GET" && request.body == nil
        // Resets what the previous request has left.
        set(CURLOPT_HTTPGET, 1)
        set(CURLOPT_CUSTOMREQUEST, isPlain ? nil : request.method)
        if let body = request.body {
            check(dipper_curl_set_off(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)))
            let code = body.withUnsafeBytes { [handle] bytes in
                dipper_curl_set_string(handle, CURLOPT_COPYPOSTFIELDS, bytes.bindMemory(to: CChar.self).baseAddress)
            }
            check(code)
        } else if request.method == "HEAD" {
            set(CURLOPT_NOBODY, 1)
        }
    }

    mutating func setIdentity(_ configuration: CurlConfiguration, isOffered: Bool) {
        guard configuration.clientCertificate != nil || configuration.clientKey != nil else { return }
        set(CURLOPT_SSLCERT, isOffered ? configuration.clientCertificate : nil)
        set(CURLOPT_SSLKEY, isOffered ? configuration.clientKey : nil)
        set(CURLOPT_KEYPASSWD, isOffered ? configuration.clientKeyPassword ?? "" : nil)
    }

    /// Sets options that stay: the handle must not be used for another origin.
    mutating func set(_ tls: TLSAnswer, inPlaceOf configuration: CurlConfiguration) {
        let blobs = [
            (CURLOPT_CAINFO_BLOB, tls.authorities), (CURLOPT_SSLCERT_BLOB, tls.clientCertificate),
            (CURLOPT_SSLKEY_BLOB, tls.clientKey),
        ]
        for case let (option, data?) in blobs {
            let code = data.withUnsafeBytes { [handle] bytes in
                dipper_curl_set_blob(handle, option, bytes.baseAddress, bytes.count)
            }
            check(code)
        }
        if tls.authorities != nil { set(CURLOPT_CAPATH, nil) }
        if let pins = Self.pins(tls.pinnedPublicKeys) { set(CURLOPT_PINNEDPUBLICKEY, pins) }
        // Without a password, libcurl 7.88 crashes at an encrypted key in memory, and OpenSSL asks for a file's at the
        // terminal.
        let isWithoutPassword =
            tls.clientCertificate != nil || tls.clientKey != nil && configuration.clientKeyPassword == nil
        if let password = tls.clientKeyPassword ?? (isWithoutPassword ? "" : nil) { set(CURLOPT_KEYPASSWD, password) }
    }

    private static func pins(_ keys: [String]) -> String? {
        keys.isEmpty ? nil : keys.map { "sha256//" + $0 }.joined(separator: ";")
    }

    mutating func setContext(_ transfer: CurlTransfer?) {
        let context = transfer.map { Unmanaged.passUnretained($0).toOpaque() }
        let options = [
            CURLOPT_PRIVATE, CURLOPT_WRITEDATA, CURLOPT_HEADERDATA, CURLOPT_OPENSOCKETDATA, CURLOPT_PREREQDATA,
            CURLOPT_RESOLVER_START_DATA,
        ]
        for option in options { set(option, pointer: context) }
        set(CURLOPT_ERRORBUFFER, pointer: transfer.map { UnsafeMutableRawPointer($0.errorText.bytes) })
    }

    static func transfer(_ context: UnsafeMutableRawPointer?) -> CurlTransfer? {
        context.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Callbacks

    private static let takeBody: dipper_curl_data_fn = { data, size, count, context in
        let length = size * count
        guard let data, let transfer = CurlOptions.transfer(context) else { return 0 }
        let place = UInt(bitPattern: data)
        var taken = Int(CURL_WRITEFUNC_PAUSE)
        Loop.run {
            if transfer.request.isThrottled { return }
            let bytes = UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: place), count: length)
            taken = transfer.take(bytes) ? length : 0
        }
        return taken
    }

    private static let takeHeader: dipper_curl_data_fn = { data, size, count, context in
        let length = size * count
        guard let data, let transfer = CurlOptions.transfer(context) else { return 0 }
        let place = UInt(bitPattern: data)
        var isTaken = false
        Loop.run {
            let line = UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: place), count: length)
            isTaken = transfer.takeHeaderLine(line)
        }
        return isTaken ? length : 0
    }

    /// libcurl would wait for its resolver thread, so the pool looks up the names.
    private static let mayResolve: curl_resolver_start_callback = { _, _, context in
        guard let transfer = CurlOptions.transfer(context) else { return 1 }
        var mayResolve = false
        Loop.run { mayResolve = transfer.mayResolve() }
        return mayResolve ? 0 : 1
    }

    private static let openSocket: curl_opensocket_callback = { context, _, address in
        guard let address, let transfer = CurlOptions.transfer(context) else { return CURL_SOCKET_BAD }
        let place = UInt(bitPattern: address)
        var socket = CURL_SOCKET_BAD
        Loop.run {
            if let address = UnsafeMutablePointer<curl_sockaddr>(bitPattern: place) {
                socket = transfer.openSocket(to: address)
            }
        }
        return socket
    }

    private static let closeSocket: curl_closesocket_callback = { context, socket in
        if let context {
            let sockets = Unmanaged<CurlSockets>.fromOpaque(context).takeUnretainedValue()
            Loop.run { sockets.remove(socket) }
        }
        return close(socket)
    }

    private static let connected: curl_prereq_callback = { context, peer, _, peerPort, localPort in
        guard let transfer = CurlOptions.transfer(context), let peer else { return CURL_PREREQFUNC_ABORT }
        let ports = CurlSockets.Ports(local: localPort, peer: peerPort, address: String(cString: peer))
        var mayGoOn = false
        Loop.run { mayGoOn = transfer.connected(from: ports) }
        return mayGoOn ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
    }
}

extension Transport {
    /// Whether the server may ask for a certificate of the client, and so tell clients apart.
    func offersCertificate(to request: TransferRequest) -> Bool {
        if request.tls?.clientCertificate != nil { return true }
        guard let curl = self as? CurlTransport, request.url.scheme?.asciiLowercased == "https" else { return false }
        return curl.configuration.clientCertificate != nil && curl.configuration.offersIdentity(to: request)
    }
}
