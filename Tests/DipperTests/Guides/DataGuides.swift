import Dispatch
import TestSupport

/// The code of DipperData's guides.
enum DataGuides {
    // MARK: Getting started

    static func oneCall(_ folder: URL, _ url: URL) async throws -> Data {
        let cache = DataCache(.init(directory: folder))
        let task = cache.getData(url)
        let data = try await task.value
        return data
    }

    static func calls(_ cache: DataCache, _ url: URL, _ banner: Stage, _ show: @escaping @Sendable (Data) -> Void) {
        cache.getData(url)
            .onProgress { progress in print(progress.fraction) }
            .onRetry { error in print("trying again after", error) }
            .onEnd { result in
                switch result {
                case .success(let response): show(response.data)
                case .failure(let error): print(error)
                }
            }

        cache.slowGetData(url)  // the row is below the screen
        cache.getData(url)  // it came into view: the same fetch, now urgent
        cache.moveTaskToSlowQueue(url)  // it left: still the same fetch

        cache.getData(url)
            .onFail { error, isFatal in if !isFatal { banner.show("Waiting for the network") } }
            .onRetry { banner.hide() }
            .then { data in show(data) }

        cache.getData(url).onRevalidate { result in
            if case .success(let newer) = result { show(newer.data) }
        }
    }

    static func progress(_ cache: DataCache, _ url: URL, _ bar: Stage) {
        cache.getData(url).onProgress { progress in
            let received: Int = progress.received  // bytes of the body so far
            let expected: Int? = progress.expected  // nil if the server does not say how many
            let fraction: Double = progress.fraction  // from 0 to 1; 0 if `expected` is nil
            bar.show(expected == nil ? "\(received) bytes" : "\(Int(fraction * 100)) %")
        }
    }

    static func errors(
        _ cache: DataCache, _ url: URL, _ show: (Data) -> Void, _ print: (Any...) -> Void
    ) async {
        switch await cache.getData(url).result {
        case .success(let data): show(data)
        case .failure(let error) where error.isCancelled: print("stopped")
        case .failure(let error): print(error, error.status ?? 0)  // such as "status 404" and 404
        }
    }

    static func interrupted(_ cache: DataCache, _ url: URL, _ file: URL) async -> Result<DataResponse, any Error> {
        let download = Task { try await cache.getData(url).download(to: file) }
        signal(SIGINT, SIG_IGN)  // the source below gets the signal
        let interrupt = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
        interrupt.setEventHandler { @Sendable in download.cancel() }
        interrupt.resume()
        let result = await download.result
        await cache.shutdown()
        return result
    }

    static func options(_ cache: DataCache, _ url: URL) async throws -> Date {
        struct Report: Decodable { var madeAt: Date }

        let dates = JSONValueDecoder("ISO dates, snake case") { decoder in
            decoder.dateDecodingStrategy = .iso8601
            decoder.keyDecodingStrategy = .convertFromSnakeCase
        }
        let report = try await cache.getValue(Report.self, from: url, decoder: dates).value
        return report.madeAt
    }

    static func values(
        _ cache: DataCache, _ url: URL, _ nextURL: URL, _ menuURL: URL, _ show: @Sendable (any Codable) -> Void
    ) async throws {
        struct Item: Codable {}
        struct Menu: Codable {}
        struct Feed: Codable { var items: [Item] }

        let feed = try await cache.getValue(Feed.self, from: url).value
        cache.slowGetValue(Feed.self, from: nextURL)  // prefetched and decoded
        let menu = try await cache.getValue(Menu.self, from: menuURL, decoder: .propertyList).value
        if let old = await cache.value(Feed.self, for: url) { show(old) }  // what the cache has, without the network
        show(feed)
        show(menu)
    }

    static func request(_ url: URL, _ token: String) -> DataRequest {
        let request = DataRequest(url)
            .with(\.headers, ["Authorization": "Bearer \(token)"])
            .with(\.cachePolicy, .fromMemoryOrRefresh)
            .with(\.timeout, .seconds(20))
        return request
    }

    static func hooks(_ url: URL, _ session: Session, _ mirror: URL) -> DataRequest {
        let credentials = Credentials.provider(identity: session.account) { challenge in
            let token = await session.token(renewing: challenge.demand != nil)
            return "Bearer \(token)"
        }
        let request = DataRequest(url)
            .with(\.credentials, credentials)
            .with(\.validation, .success.and(.init { $0.body.isEmpty ? .rejected : nil }))
            .with(\.alternatives, [mirror])
        return request
    }

    static func testing(_ url: URL) async throws -> Data {
        let transport = ScriptedTransport()
        transport.script(url, [.status(503), .body(Data("here".utf8))])
        let clock = ManualClock()
        var configuration = DataCache.Configuration()
        configuration.transport = transport
        configuration.networkMonitor = ManualNetwork()
        configuration.clock = clock

        let task = DataCache(configuration).getData(url)
        try await clock.waitForSleepers(1)  // refused once: it waits for its back-off
        clock.advance(by: .seconds(60))
        let data = try await task.value
        return data
    }

    // MARK: Being offline

    static func constrained(_ photo: URL, _ thumbnail: URL) -> DataRequest {
        NetlinkMonitor.shared.setConditions(NetworkConditions(isConstrained: true))
        let request = DataRequest(photo).with(\.lowDataURL, thumbnail)
        return request
    }

    static func permitted(_ configuration: inout DataCache.Configuration, _ url: URL) -> DataRequest {
        configuration.slowQueue.allowsConstrainedNetwork = false  // no prefetches there
        let film = DataRequest(url).with(\.allowsConstrainedNetwork, false)
        return film
    }

    static func remembered(
        _ configuration: inout DataCache.Configuration, _ cache: DataCache, _ photo: URL
    ) -> DataRequest {
        configuration.failureLifetime = .seconds(600)  // .zero remembers nothing
        let avatar = DataRequest(photo).with(\.failureLifetime, .seconds(3_600))
        cache.getRemoteData(photo)  // asks the server in any case
        return avatar
    }

    static func signed(_ configuration: inout DataCache.Configuration) {
        configuration.keyRule = .signatures.leavingOut("token", "session-*")
    }

    static func stored(_ cache: DataCache) async throws -> Bool {
        struct Feed: Codable { var items = [1] }
        let feed = Feed()
        try cache.addValue(feed, for: "draft")
        let draft = await cache.value(Feed.self, for: "draft")
        return draft?.items == feed.items
    }

    static func downloaded(_ cache: DataCache, _ url: URL, _ file: URL) async throws {
        let film = DataRequest(url).with(\.timeout, .seconds(3_600))
        let response = try await cache.slowGetData(film)
            .onProgress { progress in print(progress.fraction) }
            .download(to: file)
        print(response.source, response.data.count)
    }

    static func compared(_ cache: DataCache, _ url: URL, _ banner: Stage) {
        cache.getData(url).onFail { error, isFatal in
            if error.isCancelled { return }  // by the program itself
            if isFatal { return banner.show(error) }
            banner.show(error == .unreachable ? "No network" : error == .connectionFailed ? "Refused" : "Trying again")
        }
    }

    // MARK: HTTP rules

    static func response(_ cache: DataCache, _ url: URL) async throws -> (ResponseSource, Int, URL?, String?) {
        let response = try await cache.getData(url).response
        let source: ResponseSource = response.source  // .network, .disk and so on
        let status: Int = response.status  // of the server's answer; 200 for other bytes
        let address: URL? = response.url  // after redirects; nil if no http server sent the bytes
        let type: String? = response.headers["Content-Type"]
        return (source, status, address, type)
    }

    static func asking(_ configuration: inout DataCache.Configuration) {
        configuration.freshness = .http(defaultFreshness: .expired)
    }

    static func shared(_ configuration: inout DataCache.Configuration) {
        configuration.freshness = .shared()
    }

    static func awaited(_ cache: DataCache, _ key: CacheKey) async throws -> CachedEntry? {
        let entry = await cache.read { $0.entry(for: key) }
        try await cache.write { $0.clearDisk() }  // the files are gone
        return entry
    }

    static func cookies(_ cache: DataCache, _ url: URL) async throws -> Data {
        let cookies = RedirectHandler { redirection, request in
            let (from, to) = (redirection.url, request.url)
            if from.scheme == "https", to.scheme != "https" { return nil }  // refused, as without a handler
            guard from.host() == to.host() else { return request }  // no cookie for another host
            var request = request
            for field in redirection.headers where field.name.lowercased() == "set-cookie" {
                let cookie = field.value.prefix { $0 != ";" }
                request.headers["Cookie"] = request.headers["Cookie"].map { "\($0); \(cookie)" } ?? "\(cookie)"
            }
            return request
        }
        let data = try await cache.getData(DataRequest(url).with(\.redirectHandler, cookies)).value
        return data
    }

    static func cookie(_ url: URL, _ session: String) -> DataRequest {
        let request = DataRequest(url).with(\.headers, ["Cookie": "session=\(session)"])
        return request
    }

    // MARK: Settings

    static func settings(_ configuration: inout DataCache.Configuration, _ key: [UInt8], _ loop: Loop) {
        configuration.callbackQueue = .custom { work in loop.runWhenIdle(work) }

        configuration.recordCodec = AESCodec(key: key, identifier: "aes-gcm, key of 2026")

        configuration.redaction = Redaction(secretNames: ["ticket", "invitation"])

        configuration.network.addressPolicy = .publicOnly
        configuration.network.maximumBodySize = 20 << 20
    }

    static func trust(
        _ configuration: inout DataCache.Configuration, _ house: Data, _ certificate: Data, _ key: Data,
        _ password: String
    ) {
        configuration.answerTLSChallenge = { origin in
            switch origin.host() {
            case "nas.local": return TLSAnswer(authorities: house)
            case "api.example.org": return TLSAnswer(clientCertificate: certificate, clientKey: key)
            default: return nil
            }
        }
        configuration.proxyCredentials = .basic(user: "kiosk", password: password)
    }

    static func decrypted(_ cache: DataCache, _ url: URL, _ key: [UInt8]) async throws -> Data {
        let vault = AESCodec(key: key, identifier: "")
        let decrypting = BodyTransform(identifier: "vault 1") { bytes in try vault.decode(bytes) }
        let report = try await cache.getData(DataRequest(url).with(\.bodyTransform, decrypting)).value
        return report
    }
}
