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
    /// The measured properties of the paths to hosts, by host.
    var paths: [String: NetworkPath] = [:]
    /// The routes on which there has been a connection, which may have been kept.
    private var connected: Set<[NetworkRoute.Name]> = []
    let multi: UnsafeMutableRawPointer
    var active: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    /// Throttled transfers that have not begun.
    private var held: [ObjectIdentifier: CurlTransfer] = [:]
    /// Transfers that wait for the addresses of a name.
    var looking: [ObjectIdentifier: CurlTransfer] = [:]
    var idleHandles: [UnsafeMutableRawPointer] = []
    private let loop: EventLoop
    private var client: UInt32 = 0
    /// The time at which libcurl wants to be called.
    private var curlDue: ContinuousClock.Instant?
    /// The time of the next check for connections on which nothing can arrive.
    private var nextLook: ContinuousClock.Instant?
    /// The time of the next check for transfers that are too slow or take too long.
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

    /// Lets the pool do something on the loop's thread.
    /// - Returns: `false`, and nothing is done, if the loop has ended.
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

    /// The time since the pool was created.
    var time: Duration { ContinuousClock.now - start }

    /// Ends transfers that are too slow or take too long, and look-ups that take too long.
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
                // On a shared connection its bytes would keep arriving beside the urgent ones. A later request asks for
                // the rest.
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

    /// Ends all transfers as cancelled, and lets go of the loop.
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
