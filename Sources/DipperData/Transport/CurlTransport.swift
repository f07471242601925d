import CCurl
import Foundation

/// HTTP and HTTPS by libcurl.
///
/// Each lane has a pool of connections and a thread of its own, so that what the slow lane moves never sits in a
/// connection that the fast lane needs. The slow one's connections have a receive window near what the path holds: a
/// transfer that is paused lets go of the link. Redirects are not followed. Bodies with `Content-Encoding` come decoded,
/// as far as the installed libcurl knows the coding.
public final class CurlTransport: Transport {
    private let fast: CurlPool
    private let slow: CurlPool
    private let proxies: ProxySettings

    /// - Parameters:
    ///   - configuration: limits and options, for both lanes.
    ///   - name: begins the names of its threads.
    public init(_ configuration: CurlConfiguration = .init(), name: String = "dipper") {
        CurlLibrary.prepare
        proxies = ProxySettings(fixed: configuration.proxySetting)
        fast = CurlPool(.fast, configuration, name: JoinableThread.name(name, "fast"))
        slow = CurlPool(.slow, configuration, name: JoinableThread.name(name, "slow"))
    }

    deinit {
        fast.post(.end)
        slow.post(.end)
    }

    public func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let pool = request.lane == .fast ? fast : slow
        let transfer = CurlTransfer(request, pool: pool, receive: receive)
        pool.post(.start(transfer))
        return transfer
    }

    public func networkChanged() {
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
    /// libcurl wants to be set up once, before any thread uses it.
    static let prepare: Void = {
        let result = curl_global_init(Int(CURL_GLOBAL_ALL))
        precondition(result == CURLE_OK, "libcurl cannot be set up")
    }()

    static func describe(_ code: CURLcode) -> String {
        curl_easy_strerror(code).map { String(cString: $0) } ?? "code \(code.rawValue)"
    }
}
