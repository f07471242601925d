import CCurl
import Foundation
import ProcessShims

/// A libcurl multi handle, the connections of one queue, and the transfers that use them.
// Only the thread of the loop uses it. Others post messages to the loop.
final class CurlPool: LoopClient, @unchecked Sendable {
    let queue: FetchQueue
    let configuration: CurlConfiguration
    let proxies: ProxySettings
    let resolver: HostResolver
    let sockets = CurlSockets()
    var paths: [String: NetworkPath] = [:]
    /// Routes on which there has been a connection, which may have been kept.
    private var connected: Set<[NetworkRoute.Name]> = []
    let multi: UnsafeMutableRawPointer
    var active: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    private var held: [ObjectIdentifier: CurlTransfer] = [:]
    var looking: [ObjectIdentifier: CurlTransfer] = [:]
    var idleHandles: [UnsafeMutableRawPointer] = []
    private let loop: EventLoop
    private var client: UInt32 = 0
    private var curlDue: ContinuousClock.Instant?
    /// When to look for connections on which nothing can arrive.
    private var nextLook: ContinuousClock.Instant?
    /// When to look for transfers that are too slow or take too long.
    private var nextCheck = ContinuousClock.now
    private let start = ContinuousClock.now
    private var isClosed = false

    init(
        _ queue: FetchQueue, _ configuration: CurlConfiguration, proxies: ProxySettings, resolver: HostResolver,
        loop: EventLoop
    ) {
        self.queue = queue
        self.configuration = configuration
        self.proxies = proxies
        self.resolver = resolver
        self.loop = loop
        guard let multi = curl_multi_init() else { preconditionFailure("no memory for libcurl") }
        self.multi = multi
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, configuration.keptConnections)
        // A slow transfer has a connection of its own, so that pausing it delays no other transfer.
        let multiplexing = Int(queue == .fast ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING)
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_PIPELINING, multiplexing)
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = dipper_curl_multi_set_socket_fn(multi, Self.watch, context)
        _ = dipper_curl_multi_set_timer_fn(multi, Self.schedule, context)
        post { pool in pool.client = pool.loop.add(pool) }
    }

    // MARK: Any thread

    /// Runs a closure on the loop's thread.
    /// - Returns: `false`, and nothing runs, if the loop has ended.
    @discardableResult
    func post(_ body: @escaping @Sendable (CurlPool) -> Void) -> Bool { loop.post { body(self) } }

    // MARK: The loop

    private static func pool(_ context: UnsafeMutableRawPointer?) -> CurlPool? {
        context.map { Unmanaged<CurlPool>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let schedule: curl_multi_timer_callback = { _, delay, context in
        CurlPool.pool(context)?.curlDue = delay < 0 ? nil : .now + .milliseconds(delay)
        return 0
    }

    private static let watch: curl_socket_callback = { _, socket, what, context, _ in
        guard let pool = CurlPool.pool(context) else { return 0 }
        let waitsToRead = what == CURL_POLL_IN || what == CURL_POLL_INOUT
        let waitsToWrite = what == CURL_POLL_OUT || what == CURL_POLL_INOUT
        let events = (waitsToRead ? EPOLLIN.rawValue : 0) | (waitsToWrite ? EPOLLOUT.rawValue : 0)
        if let old = pool.sockets.wait(for: events, on: socket) {
            pool.loop.watch(socket, for: events, insteadOf: old, client: pool.client)
        }
        return 0
    }

    func ready(_ socket: Int32, _ events: UInt32) {
        if let old = sockets.idleEvents(of: socket) {
            return loop.watch(socket, for: 0, insteadOf: old, client: client)
        }
        var what: Int32 = 0
        if events & EPOLLIN.rawValue != 0 { what |= CURL_CSELECT_IN }
        if events & EPOLLOUT.rawValue != 0 { what |= CURL_CSELECT_OUT }
        if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { what |= CURL_CSELECT_ERR }
        var running: Int32 = 0
        curl_multi_socket_action(multi, socket, what, &running)
    }

    func turn() -> ContinuousClock.Instant? {
        // The end of a transfer may begin another.
        while takeEnded() || isCurlDue {
            guard isCurlDue else { continue }
            curlDue = nil
            var running: Int32 = 0
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running)
        }
        checkTimes()
        if let nextLook, nextLook <= .now { self.nextLook = sockets.dropOrphans() }
        var next = active.isEmpty && looking.isEmpty ? nil : nextCheck
        if let curlDue { next = min(next ?? curlDue, curlDue) }
        if let nextLook { next = min(next ?? nextLook, nextLook) }
        return next
    }

    private var isCurlDue: Bool { curlDue.map { $0 <= .now } ?? false }

    var time: Duration { ContinuousClock.now - start }

    private func checkTimes() {
        let now = ContinuousClock.now
        guard now >= nextCheck else { return }
        nextCheck = now + min(.seconds(1), max(.milliseconds(10), configuration.minimumRateWindow / 8))
        for transfer in Array(active.values) {
            if let error = transfer.tooSlow(at: now - start) { stop(transfer, error) }
        }
        for transfer in Array(looking.values) where !transfer.isThrottled {
            guard let deadline = transfer.connectDeadline else { continue }
            if now >= deadline {
                stop(transfer, .timedOut.with(detail: "looking up the name of the host"))
            } else {
                nextCheck = min(nextCheck, deadline)
            }
        }
    }

    // MARK: Kept connections

    func noteConnection(on route: NetworkRoute) {
        if route.names.isEmpty { return }
        if connected.count > 1_000 { connected = [] }
        connected.insert(route.names)
    }

    /// Whether libcurl may have kept a connection, which needs no addresses.
    func mayHaveConnection(on route: NetworkRoute) -> Bool { connected.contains(route.names) }

    // MARK: Messages

    func begin(_ transfer: CurlTransfer) {
        if isClosed { return transfer.end(.failure(.shutDown)) }
        // A throttled transfer sends nothing before it may use the link.
        if transfer.isThrottled { held[ObjectIdentifier(transfer)] = transfer } else { send(transfer) }
    }

    func cancel(_ transfer: CurlTransfer) {
        held[ObjectIdentifier(transfer)] = nil
        stop(transfer, .cancelled)
    }

    func setThrottled(_ transfer: CurlTransfer, _ isThrottled: Bool) {
        guard !transfer.isOver, transfer.isThrottled != isThrottled else { return }
        transfer.throttle(isThrottled)
        if let handle = transfer.handle {
            if isThrottled, queue == .fast, transfer.isMultiplexed, transfer.canBeContinued {
                // On a shared connection, its bytes would keep arriving beside the urgent ones. A later request asks
                // for the rest.
                stop(transfer, .connectionLost.with(detail: "gave way to urgent work"))
            } else {
                pause(transfer, handle, isThrottled)
            }
        } else if !isThrottled {
            transfer.connectDeadline = .now + configuration.connectTimeout
            if held.removeValue(forKey: ObjectIdentifier(transfer)) != nil { send(transfer) }
        }
    }

    func dropOrphans() { nextLook = sockets.dropOrphans() }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        for transfer in Array(active.values) + Array(held.values) + Array(looking.values) {
            stop(transfer, .cancelled)
        }
        held = [:]
        for handle in idleHandles { curl_easy_cleanup(handle) }
        idleHandles = []
        curl_multi_cleanup(multi)
        loop.remove(client: client)
    }
}

extension CurlPool {
    func send(_ transfer: CurlTransfer) {
        guard !transfer.isOver else { return }
        let request = transfer.request
        // These names and values would break out of their line in the request.
        guard request.method.isHeaderName, request.headers.isWellFormed,
            request.proxyAuthorization?.isHeaderValue != false
        else {
            return transfer.end(.failure(.invalidHeader))
        }
        let now = ContinuousClock.now
        let deadline = transfer.connectDeadline ?? now + configuration.connectTimeout
        transfer.connectDeadline = deadline
        transfer.firstBegun = transfer.firstBegun ?? now
        // Without a kept connection and without addresses libcurl would be set up in vain.
        let lacksAddresses = transfer.missingNames.contains { resolver.addresses(of: $0.host) == nil }
        if lacksAddresses, !mayHaveConnection(on: transfer.route) { return lookUp(transfer) }
        guard let handle = idleHandles.popLast() ?? makeHandle() else {
            return transfer.end(.failure(.transport.with(detail: "libcurl lacks memory or an option")))
        }
        transfer.begun = now
        transfer.handle = handle
        active[handle] = transfer
        guard setUp(handle, for: transfer, connectTimeout: now.duration(to: deadline)),
            curl_multi_add_handle(multi, handle) == CURLM_OK
        else { return stop(transfer, .transport.with(detail: "libcurl refuses the transfer")) }
    }

    private func setUp(
        _ handle: UnsafeMutableRawPointer, for transfer: CurlTransfer, connectTimeout: Duration
    ) -> Bool {
        let request = transfer.request
        // With TLS, libcurl waits for the first connection, which all transfers share if it speaks HTTP/2. Without TLS
        // there is no HTTP/2.
        let shares = queue == .fast && request.url.scheme?.lowercased() == "https"
        addFields(of: request, to: transfer)
        addAddresses(to: transfer)
        CurlOptions.setContext(Unmanaged.passUnretained(transfer).toOpaque(), on: handle)
        _ = dipper_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, transfer.errorBuffer)
        let codes = [
            // By hand: an optional text would be copied first.
            request.url.absoluteString.withCString { dipper_curl_set_string(handle, CURLOPT_URL, $0) },
            transfer.route.proxy.withCString { dipper_curl_set_string(handle, CURLOPT_PROXY, $0) },
            // Zero would select libcurl's default of five minutes.
            dipper_curl_set_long(handle, CURLOPT_CONNECTTIMEOUT_MS, max(1, connectTimeout.milliseconds)),
            dipper_curl_set_long(handle, CURLOPT_PIPEWAIT, shares ? 1 : 0),
            dipper_curl_set_long(handle, CURLOPT_FRESH_CONNECT, transfer.needsNewConnection ? 1 : 0),
            dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, transfer.headerList),
            dipper_curl_set_list(handle, CURLOPT_PROXYHEADER, transfer.proxyHeaderList),
            dipper_curl_set_list(handle, CURLOPT_RESOLVE, transfer.addressList),
        ]
        return codes.allSatisfy { $0 == CURLE_OK } && setMethod(request, on: handle)
            && CurlOptions.setIdentity(
                configuration, isOffered: configuration.offersIdentity(to: request), on: handle)
            && (request.tls.map { CurlOptions.setTLS($0, inPlaceOf: configuration, on: handle) } ?? true)
    }

    private func addFields(of request: TransferRequest, to transfer: CurlTransfer) {
        for field in request.headers.fields {
            // libcurl drops a field without a value unless it is written with a semicolon.
            let line = field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
            transfer.headerList = line.withCString { curl_slist_append(transfer.headerList, $0) }
        }
        if let value = request.proxyAuthorization {
            transfer.proxyHeaderList = curl_slist_append(nil, "Proxy-Authorization: \(value)")
        }
    }

    /// libcurl asks for missing addresses: see ``CurlTransfer/mayResolve()``.
    private func addAddresses(to transfer: CurlTransfer) {
        for name in transfer.route.names {
            guard let addresses = transfer.addresses[name.host] ?? resolver.addresses(of: name.host) else { continue }
            transfer.addresses[name.host] = addresses
            let list = addresses.map { $0.text.contains(":") ? "[\($0.text)]" : $0.text }.joined(separator: ",")
            transfer.addressList = curl_slist_append(transfer.addressList, "+\(name.host):\(name.port):\(list)")
        }
    }

    private func setMethod(_ request: TransferRequest, on handle: UnsafeMutableRawPointer) -> Bool {
        let isPlain = request.method == "GET" && request.body == nil
        // HTTPGET resets what the previous request has left on the handle.
        var codes = [
            dipper_curl_set_long(handle, CURLOPT_HTTPGET, 1),
            dipper_curl_set_string(handle, CURLOPT_CUSTOMREQUEST, isPlain ? nil : request.method),
        ]
        if let body = request.body {
            codes.append(dipper_curl_set_off(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)))
            body.withUnsafeBytes { bytes in
                let start = bytes.bindMemory(to: CChar.self).baseAddress
                codes.append(dipper_curl_set_string(handle, CURLOPT_COPYPOSTFIELDS, start))
            }
        } else if request.method == "HEAD" {
            codes.append(dipper_curl_set_long(handle, CURLOPT_NOBODY, 1))
        }
        return codes.allSatisfy { $0 == CURLE_OK }
    }

    private func makeHandle() -> UnsafeMutableRawPointer? {
        guard let handle = curl_easy_init() else { return nil }
        if CurlOptions.set(configuration, sockets: sockets, on: handle) { return handle }
        curl_easy_cleanup(handle)
        return nil
    }

    // MARK: Name look-ups

    /// The transfer begins again when the addresses are known.
    private func lookUp(_ transfer: CurlTransfer) {
        guard transfer.beginLookup() else {
            return transfer.end(.failure(.hostNotFound.with(detail: "libcurl does not take the addresses")))
        }
        looking[ObjectIdentifier(transfer)] = transfer
        lookUpNext(transfer)
    }

    private func lookUpNext(_ transfer: CurlTransfer) {
        guard let name = transfer.missingNames.first?.host else { return }
        transfer.ticket = resolver.resolve(name) { [weak self, weak transfer] answer in
            guard let self, let transfer else { return }
            self.post { if $0.lookedUp(transfer, name, answer) { $0.begin(transfer) } }
        }
    }

    /// Returns `true` if all names are known and the transfer may begin.
    private func lookedUp(_ transfer: CurlTransfer, _ name: String, _ answer: HostLookups.Answer) -> Bool {
        guard looking[ObjectIdentifier(transfer)] != nil, transfer.missingNames.first?.host == name else {
            return false
        }
        transfer.ticket = nil
        switch answer {
        case .failure(let error):
            stop(transfer, error)
            return false
        case .success(let addresses):
            transfer.addresses[name] = addresses
            guard transfer.missingNames.isEmpty else {
                lookUpNext(transfer)
                return false
            }
            looking[ObjectIdentifier(transfer)] = nil
            return true
        }
    }

    // MARK: Pausing

    func pause(_ transfer: CurlTransfer, _ handle: UnsafeMutableRawPointer, _ isThrottled: Bool) {
        let code = curl_easy_pause(handle, isThrottled ? CURLPAUSE_RECV : CURLPAUSE_CONT)
        // When a transfer resumes, libcurl delivers the bytes it has kept. If the transfer refuses them it is over, and
        // only this return code says so. Before there is a connection libcurl has nothing to pause
        // (CURLE_BAD_FUNCTION_ARGUMENT): `CurlOptions` pauses the transfer at its first byte.
        if code != CURLE_OK, code != CURLE_BAD_FUNCTION_ARGUMENT { ended(transfer, handle, code) }
    }

    // MARK: Completion

    func takeEnded() -> Bool {
        var any = false
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = active[handle]
            else { continue }
            any = true
            ended(transfer, handle, message.pointee.data.result)
        }
        return any
    }

    private func ended(_ transfer: CurlTransfer, _ handle: UnsafeMutableRawPointer, _ code: CURLcode) {
        if transfer.needsAddresses {
            release(transfer)
            return lookUp(transfer)
        }
        if code == CURLE_ABORTED_BY_CALLBACK, transfer.needsNewConnection {
            release(transfer)
            return send(transfer)
        }
        let metrics = metrics(of: transfer)
        transfer.readStatus()
        if code == CURLE_OK || transfer.hasSaidEnough {
            // `end` still reads the status from the handle, so the handle is released afterwards.
            transfer.end(.success(()), metrics: metrics)
            release(transfer)
        } else {
            let error = CurlErrors.error(code, handle, of: transfer)
            release(transfer)
            transfer.end(.failure(error), metrics: metrics)
        }
    }

    func stop(_ transfer: CurlTransfer, _ error: DipperError) {
        let metrics = metrics(of: transfer)
        looking[ObjectIdentifier(transfer)] = nil
        if let ticket = transfer.ticket { resolver.forget(ticket) }
        transfer.ticket = nil
        release(transfer)
        transfer.end(.failure(error), metrics: metrics)
    }

    private func metrics(of transfer: CurlTransfer) -> TransferMetrics {
        guard let handle = transfer.handle, let first = transfer.firstBegun, let last = transfer.begun else {
            return TransferMetrics()
        }
        return CurlMetrics.read(handle, earlier: last - first)
    }

    private func release(_ transfer: CurlTransfer) {
        guard let handle = transfer.handle else { return }
        transfer.disconnect()
        transfer.handle = nil
        active[handle] = nil
        curl_multi_remove_handle(multi, handle)
        _ = dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, nil)
        _ = dipper_curl_set_list(handle, CURLOPT_PROXYHEADER, nil)
        _ = dipper_curl_set_list(handle, CURLOPT_RESOLVE, nil)
        _ = dipper_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, nil)
        for list in [transfer.headerList, transfer.proxyHeaderList, transfer.addressList] { curl_slist_free_all(list) }
        transfer.headerList = nil
        transfer.proxyHeaderList = nil
        transfer.addressList = nil
        CurlOptions.setContext(nil, on: handle)
        // A handle keeps the body it has sent, and the keys of an origin, so it is freed.
        let isKept = idleHandles.count < 64 && transfer.request.body == nil && transfer.request.tls == nil
        if isKept { idleHandles.append(handle) } else { curl_easy_cleanup(handle) }
    }
}
