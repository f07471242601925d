import CCurl
import Foundation

/// A transport for HTTP and HTTPS that uses libcurl.
///
/// Each queue has its own connection pool and thread, so that slow transfers never share a connection with fast ones.
/// Connections of `slowQueue` have a receive window close to the bandwidth-delay product of the path, so that a
/// paused transfer frees the link. Host names are resolved on separate threads: a name server that does not answer
/// delays only the transfers that wait for it. This transport does not follow redirects. It decodes bodies with a
/// `Content-Encoding` that the installed libcurl supports.
///
/// ```swift
/// let transport = CurlTransport()
/// let transfer = transport.start(TransferRequest(url: url)) { event in
///     if case .finished(let result) = event { print(result) }
/// }
/// ```
public final class CurlTransport: Transport {
    private let fast: CurlPool
    private let slow: CurlPool
    private let proxies: ProxySettings
    private let resolver: HostResolver

    /// Creates a transport and starts its threads.
    /// - Parameters:
    ///   - configuration: the limits and options, for both queues.
    ///   - name: the prefix of the names of the transport's threads.
    public convenience init(_ configuration: CurlConfiguration = .init(), name: String = "dipper") {
        self.init(configuration, name: name, resolver: HostResolver())
    }

    /// Creates a transport with a resolver of the caller's.
    /// - Parameter resolver: looks up the names of hosts.
    init(_ configuration: CurlConfiguration, name: String = "dipper", resolver: HostResolver) {
        CurlLibrary.prepare
        let proxies = ProxySettings(fixed: configuration.proxySetting)
        func pool(_ queue: FetchQueue, _ role: String) -> CurlPool {
            CurlPool(
                queue, configuration, proxies: proxies, resolver: resolver, name: JoinableThread.name(name, role))
        }
        self.proxies = proxies
        self.resolver = resolver
        fast = pool(.fast, "fast")
        slow = pool(.slow, "slow")
    }

    deinit {
        fast.post(.end)
        slow.post(.end)
    }

    public func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let pool = request.queue == .fast ? fast : slow
        let transfer = CurlTransfer(request, pool: pool, receive: receive)
        pool.post(.start(transfer))
        return transfer
    }

    public func networkChanged() {
        resolver.networkChanged()
        fast.post(.dropOrphans)
        slow.post(.dropOrphans)
    }

    public func firstHop(to url: URL) -> String {
        proxies.host(for: url) ?? url.host(percentEncoded: false) ?? ""
    }

    public func shutdown() async {
        async let fastEnd: Void = fast.shutdown()
        async let slowEnd: Void = slow.shutdown()
        _ = await (fastEnd, slowEnd)
    }
}

enum CurlLibrary {
    /// Sets up libcurl, once. libcurl requires this before any thread uses it.
    static let prepare: Void = {
        let result = curl_global_init(Int(CURL_GLOBAL_ALL))
        precondition(result == CURLE_OK, "libcurl cannot be set up")
    }()

    static func describe(_ code: CURLcode) -> String {
        curl_easy_strerror(code).map { String(cString: $0) } ?? "code \(code.rawValue)"
    }
}
