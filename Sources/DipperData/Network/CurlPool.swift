import CCurl
import Foundation
import ProcessShims

/// A libcurl multi handle, the connections of one queue, and the transfers that use them.
@Loop
final class CurlPool: LoopClient {
    /// The number for one transfer: libcurl may forget the addresses before it connects.
    private static let mostLookups = 4
    /// The most rounds of libcurl in one turn of the loop.
    private static let mostRounds = 16

    let queue: FetchQueue
    let configuration: CurlConfiguration
    var proxies: ProxySettings
    let sockets = CurlSockets()
    var paths: [String: ReceiveWindow.Path] = [:]
    private let resolver: HostResolver
    /// `nil` until libcurl gives one; its functions refuse `nil`.
    private var multi: UnsafeMutableRawPointer?
    /// The bodies that are being decoded.
    let decoding = DispatchGroup()
    private var transfers: [ObjectIdentifier: CurlTransfer] = [:]
    private var idleHandles: [UnsafeMutableRawPointer] = []
    private var seat: LoopSeat?
    private var curlDue: ContinuousClock.Instant?
    /// When to look for connections on which nothing can arrive.
    private var nextLook: ContinuousClock.Instant?
    private var nextCheck = ContinuousClock.now
    private var isClosed = false

    nonisolated init(
        _ queue: FetchQueue, _ configuration: CurlConfiguration, proxies: ProxySettings, resolver: HostResolver
    ) {
        self.queue = queue
        self.configuration = configuration
        self.proxies = proxies
        self.resolver = resolver
        post { self.seat = Loop.add(self) }
    }

    private func makeMulti() -> Bool {
        if multi != nil { return true }
        guard CurlTransport.prepare(), let multi = curl_multi_init() else { return false }
        self.multi = multi
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, configuration.keptConnections)
        // A slow transfer does not share its connection, so that pausing it delays no other.
        let multiplexing = Int(queue == .fast ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING)
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_PIPELINING, multiplexing)
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = dipper_curl_multi_set_socket_fn(multi, Self.watch, context)
        _ = dipper_curl_multi_set_timer_fn(multi, Self.schedule, context)
        return true
    }

    // MARK: Any thread

    @discardableResult
    nonisolated func post(waits: Bool = true, _ body: @escaping @Loop () -> Void) -> Bool {
        Loop.post(to: self, waits: waits, body)
    }

    // MARK: The loop

    func take(_ message: @escaping @Loop () -> Void) {
        message()
        seat?.wake()
    }

    private nonisolated static func pool(_ context: UnsafeMutableRawPointer?) -> CurlPool? {
        context.map { Unmanaged<CurlPool>.fromOpaque($0).takeUnretainedValue() }
    }

    private nonisolated static let schedule: curl_multi_timer_callback = { _, delay, context in
        let pool = CurlPool.pool(context)
        Loop.run { pool?.curlDue = delay < 0 ? nil : .now + .milliseconds(delay) }
        return 0
    }

    private nonisolated static let watch: curl_socket_callback = { _, socket, what, context, _ in
        let pool = CurlPool.pool(context)
        Loop.run { pool?.watch(socket, what) }
        return 0
    }

    private func watch(_ socket: Int32, _ what: Int32) {
        let waitsToRead = what == CURL_POLL_IN || what == CURL_POLL_INOUT
        let waitsToWrite = what == CURL_POLL_OUT || what == CURL_POLL_INOUT
        let events = (waitsToRead ? EPOLLIN.rawValue : 0) | (waitsToWrite ? EPOLLOUT.rawValue : 0)
        if let old = sockets.wait(for: events, on: socket) {
            seat?.watch(socket, for: events, insteadOf: old)
        }
    }

    func ready(_ socket: Int32, _ events: UInt32) {
        if let old = sockets.idleEvents(of: socket) {
            seat?.watch(socket, for: 0, insteadOf: old)
            return
        }
        var what: Int32 = 0
        if events & EPOLLIN.rawValue != 0 { what |= CURL_CSELECT_IN }
        if events & EPOLLOUT.rawValue != 0 { what |= CURL_CSELECT_OUT }
        if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { what |= CURL_CSELECT_ERR }
        var running: Int32 = 0
        curl_multi_socket_action(multi, socket, what, &running)
    }

    func turn() -> ContinuousClock.Instant? {
        // The end of a transfer may begin another. Other clients have their turn even if libcurl always has more to do.
        var rounds = 0
        while rounds < Self.mostRounds, takeEnded() || isCurlDue {
            rounds += 1
            guard isCurlDue else { continue }
            curlDue = nil
            var running: Int32 = 0
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running)
        }
        if !transfers.isEmpty { checkTimes() }
        if let nextLook, nextLook <= .now { self.nextLook = sockets.dropOrphans() }
        let isTimed = transfers.values.contains { $0.handle != nil || $0.lookup != nil }
        var next = rounds == Self.mostRounds ? .now : isTimed ? nextCheck : nil
        if let curlDue { next = min(next ?? curlDue, curlDue) }
        if let nextLook { next = min(next ?? nextLook, nextLook) }
        return next
    }

    private var isCurlDue: Bool { curlDue.map { $0 <= .now } ?? false }

    private func checkTimes() {
        let now = ContinuousClock.now
        guard now >= nextCheck else { return }
        nextCheck = now + min(.seconds(1), max(.milliseconds(10), configuration.minimumRateWindow / 8))
        for transfer in transfers.values {
            if let end = transfer.drainsUntil {
                if now >= end { self.end(transfer, nil) }
            } else if let handle = transfer.handle {
                if let error = transfer.speedError(handle) { end(transfer, error) }
            } else if transfer.lookup != nil, !transfer.request.isThrottled, let deadline = transfer.connectDeadline {
                if now >= deadline {
                    end(transfer, .timedOut.with(detail: "looking up the name of the host"))
                } else {
                    nextCheck = min(nextCheck, deadline)
                }
            }
        }
    }

    func begin(_ transfer: CurlTransfer) {
        if isClosed { return transfer.end(.shutDown) }
        transfers[ObjectIdentifier(transfer)] = transfer
        // A throttled transfer sends nothing yet.
        if !transfer.request.isThrottled { send(transfer) }
    }

    func setThrottled(_ transfer: CurlTransfer, _ isThrottled: Bool) {
        guard !transfer.isOver, transfer.request.isThrottled != isThrottled else { return }
        transfer.throttle(isThrottled)
        guard let handle = transfer.handle else {
            if isThrottled { return }
            transfer.connectDeadline = .now + configuration.connectTimeout
            if transfer.lookup == nil { send(transfer) }
            return
        }
        if isThrottled, queue == .fast, transfer.isMultiplexed, transfer.canBeContinued {
            // Its bytes would keep arriving on the shared connection. A later request asks for the rest.
            return end(transfer, .connectionLost.with(detail: "gave way to urgent work"))
        }
        let code = curl_easy_pause(handle, isThrottled ? CURLPAUSE_RECV : CURLPAUSE_CONT)
        // When a transfer resumes, libcurl delivers the bytes it has kept. Only this code says that the transfer
        // refused them and is over. Before there is a connection libcurl has nothing to pause
        // (CURLE_BAD_FUNCTION_ARGUMENT): `CurlOptions` pauses the transfer at its first byte.
        if code != CURLE_OK, code != CURLE_BAD_FUNCTION_ARGUMENT { ended(transfer, handle, code) }
    }

    func dropOrphans() { nextLook = sockets.dropOrphans() }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        for transfer in transfers.values { end(transfer, .cancelled) }
        for handle in idleHandles { curl_easy_cleanup(handle) }
        idleHandles = []
        curl_multi_cleanup(multi)
        seat?.leave()
        seat = nil
    }
}

extension CurlPool {
    private func send(_ transfer: CurlTransfer) {
        let request = transfer.request
        // Such names and values would break out of their line.
        guard request.method.isHeaderName, request.headers.isWellFormed,
            request.proxyAuthorization?.isHeaderValue != false
        else { return end(transfer, .invalidHeader) }
        let now = ContinuousClock.now
        let deadline = transfer.connectDeadline ?? now + configuration.connectTimeout
        transfer.connectDeadline = deadline
        let firstBegun = transfer.firstBegun ?? now
        transfer.firstBegun = firstBegun
        transfer.timeBefore = now - firstBegun
        guard makeMulti() else { return end(transfer, .noThread) }
        guard let handle = idleHandles.popLast() ?? makeHandle() else {
            return end(transfer, .transport.with(detail: "libcurl lacks memory or an option"))
        }
        transfer.handle = handle
        guard setUp(handle, for: transfer, connectTimeout: now.duration(to: deadline)),
            curl_multi_add_handle(multi, handle) == CURLM_OK
        else { return end(transfer, .transport.with(detail: "libcurl refuses the transfer")) }
    }

    private func makeHandle() -> UnsafeMutableRawPointer? {
        guard let handle = curl_easy_init() else { return nil }
        var options = CurlOptions(handle)
        options.set(configuration, sockets: sockets)
        if options.areSet { return handle }
        curl_easy_cleanup(handle)
        return nil
    }

    private func setUp(
        _ handle: UnsafeMutableRawPointer, for transfer: CurlTransfer, connectTimeout: Duration
    ) -> Bool {
        let request = transfer.request
        var headers = request.headers
        if configuration.decodesContent, headers["Accept-Encoding"] == nil {
            headers.append("Accept-Encoding", ContentCoding.accepted)
        }
        let fields = Self.list(of: headers)
        let proxyFields = Self.list(request.proxyAuthorization.map { ["Proxy-Authorization: \($0)"] } ?? [])
        let names = Self.list(resolved(transfer))
        transfer.lists = [fields, proxyFields, names]
        // libcurl waits for the first connection, which transfers over TLS can share if it speaks HTTP/2.
        let shares = queue == .fast && request.url.scheme?.lowercased() == "https"
        var options = CurlOptions(handle)
        options.setContext(transfer)
        options.set(CURLOPT_URL, request.url.absoluteString)
        options.set(CURLOPT_PROXY, transfer.route.proxy)
        // Zero would select libcurl's default of five minutes.
        options.set(CURLOPT_CONNECTTIMEOUT_MS, max(1, connectTimeout.milliseconds))
        options.set(CURLOPT_PIPEWAIT, shares ? 1 : 0)
        options.set(CURLOPT_FRESH_CONNECT, request.needsNewConnection ? 1 : 0)
        options.set(CURLOPT_HTTPHEADER, list: fields)
        options.set(CURLOPT_PROXYHEADER, list: proxyFields)
        options.set(CURLOPT_RESOLVE, list: names)
        options.setMethod(of: request)
        options.setIdentity(configuration, isOffered: configuration.offersIdentity(to: request))
        if let tls = request.tls { options.set(tls, inPlaceOf: configuration) }
        return options.areSet
    }

    /// One body at a time, because a few bytes can become many.
    private static let decoder = DispatchQueue(label: "dipper.decoding")

    func decode(
        _ response: TransferResponse, _ codings: [ContentCoding]?, atMost limit: Int,
        then receive: @escaping @Sendable (TransferEvent) -> Void
    ) {
        Self.decoder.async(group: decoding) {
            var response = response
            do throws(DipperError) {
                guard let codings else { throw .malformedResponse.with(detail: "an unknown content coding") }
                response.body = try ContentDecoder.decode(response.body, codings, atMost: limit)
                receive(.finished(.success(response)))
            } catch {
                receive(.finished(.failure(error)))
            }
        }
    }

    private nonisolated static func list(of headers: HTTPHeaders) -> UnsafeMutablePointer<curl_slist>? {
        list(
            headers.fields.lazy.map { field in
                // libcurl drops a field without a value unless it ends with a semicolon.
                field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
            })
    }

    private nonisolated static func list(_ lines: some Sequence<String>) -> UnsafeMutablePointer<curl_slist>? {
        var list: UnsafeMutablePointer<curl_slist>?
        for line in lines {
            list =
                line.isOfText
                ? curl_slist_append(list, line)
                : curl_slist_append(list, line.fieldBytes.map { CChar(bitPattern: $0) } + [0])
        }
        return list
    }

    /// The known addresses, in libcurl's form. libcurl forgets the others, which may be those of an earlier network,
    /// and asks for them: see ``CurlTransfer/mayResolve()``.
    private func resolved(_ transfer: CurlTransfer) -> [String] {
        transfer.route.names.map { name in
            guard let addresses = addresses(of: name.host, for: transfer) else { return "-\(name.host):\(name.port)" }
            return "+\(name.host):\(name.port):\(addresses.map(\.text).joined(separator: ","))"
        }
    }

    private func addresses(of host: String, for transfer: CurlTransfer) -> [HostAddress]? {
        let known = transfer.addresses[host] ?? resolver.addresses(of: host)
        transfer.addresses[host] = known
        return known
    }

    /// Looks up the names of a route one after the other, then begins the transfer again.
    private func lookUp(_ transfer: CurlTransfer) {
        let hosts = transfer.route.names.map(\.host)
        guard let host = hosts.first(where: { addresses(of: $0, for: transfer) == nil }) else { return begin(transfer) }
        transfer.lookup = resolver.lookUp(host, for: transfer) { answer in
            self.seat?.wake()
            transfer.lookup = nil
            switch answer {
            case .failure(let error): self.end(transfer, error)
            case .success(let addresses):
                transfer.addresses[host] = addresses
                self.lookUp(transfer)
            }
        }
    }

    private func takeEnded() -> Bool {
        var any = false
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = CurlOptions.transfer(dipper_curl_private(handle))
            else { continue }
            any = true
            ended(transfer, handle, message.pointee.data.result)
        }
        return any
    }

    private func ended(_ transfer: CurlTransfer, _ handle: UnsafeMutableRawPointer, _ code: CURLcode) {
        if exchange(&transfer.needsAddresses, with: false) {
            release(transfer)
            transfer.addresses = [:]
            transfer.lookups += 1
            if transfer.lookups <= Self.mostLookups { return lookUp(transfer) }
            return end(transfer, .hostNotFound.with(detail: "libcurl does not take the addresses"))
        }
        if code == CURLE_ABORTED_BY_CALLBACK, transfer.request.needsNewConnection {
            release(transfer)
            return send(transfer)
        }
        transfer.readStatus()
        let isDone = code == CURLE_OK || transfer.hasSaidEnough
        end(transfer, isDone ? nil : CurlErrors.error(code, handle, of: transfer))
    }

    /// - Parameter error: `nil` after a complete answer.
    func end(_ transfer: CurlTransfer, _ error: DipperError?) {
        let metrics = transfer.handle.map { CurlMetrics.read($0, earlier: transfer.timeBefore) }
        transfer.lookup?.forget(transfer)
        transfer.lookup = nil
        release(transfer)
        transfers[ObjectIdentifier(transfer)] = nil
        transfer.end(error, metrics ?? TransferMetrics())
    }

    private func release(_ transfer: CurlTransfer) {
        guard let handle = transfer.handle else { return }
        transfer.disconnect()
        transfer.handle = nil
        curl_multi_remove_handle(multi, handle)
        var options = CurlOptions(handle)
        for option in [CURLOPT_HTTPHEADER, CURLOPT_PROXYHEADER, CURLOPT_RESOLVE] { options.set(option, list: nil) }
        options.setContext(nil)
        for list in transfer.lists { curl_slist_free_all(list) }
        transfer.lists = []
        // A handle keeps the body that it has sent, and the keys of an origin.
        let isKept = idleHandles.count < 64 && transfer.request.body == nil && transfer.request.tls == nil
        if isKept { idleHandles.append(handle) } else { curl_easy_cleanup(handle) }
    }
}
