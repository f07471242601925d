import CCurl
import Foundation
import Synchronization

/// A libcurl multi handle and the thread that drives it.
// The libcurl handles belong to the pool's thread. Other threads only post commands and wake that thread with
// `curl_multi_wakeup`, the one call that libcurl allows from other threads.
final class CurlPool: @unchecked Sendable {
    enum Command {
        case start(CurlTransfer)
        case cancel(CurlTransfer)
        case setThrottled(CurlTransfer, Bool)
        case setQueue(CurlTransfer, FetchQueue)
        case copyBody(CurlTransfer, @Sendable (Data, Int) -> Void)
        case lookedUp(CurlTransfer, String, HostLookups.Answer)
        case dropOrphans
        case end
    }

    private struct Inbox {
        var commands: [Command] = []
        /// Whether the thread sleeps, or is about to, and must be woken.
        var isSleeping = false
        var isEnded = false
    }

    let queue: FetchQueue
    let configuration: CurlConfiguration
    let proxies: ProxySettings
    let resolver: HostResolver
    let sockets = CurlSockets()
    /// The measured properties of the paths to hosts, by host.
    var paths: [String: NetworkPath] = [:]
    let multi: UnsafeMutableRawPointer
    private let inbox = Mutex(Inbox())
    private let thread = AtomicLazyReference<JoinableThread>()
    var active: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    /// Throttled transfers that have not begun.
    private var held: [ObjectIdentifier: CurlTransfer] = [:]
    /// Transfers that wait for the addresses of a name.
    var looking: [ObjectIdentifier: CurlTransfer] = [:]
    var idleHandles: [UnsafeMutableRawPointer] = []
    /// The time of the next check for connections on which nothing can arrive.
    private var nextLook: ContinuousClock.Instant?
    /// The time of the next check for transfers that are too slow or take too long.
    private var nextCheck = ContinuousClock.now
    private let start = ContinuousClock.now

    init(
        _ queue: FetchQueue, _ configuration: CurlConfiguration, proxies: ProxySettings, resolver: HostResolver,
        name: String
    ) {
        self.queue = queue
        self.configuration = configuration
        self.proxies = proxies
        self.resolver = resolver
        guard let multi = curl_multi_init() else { preconditionFailure("no memory for libcurl") }
        self.multi = multi
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, configuration.keptConnections)
        // A slow transfer has a connection of its own, so that pausing it delays no other transfer.
        let multiplexing = Int(queue == .fast ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING)
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_PIPELINING, multiplexing)
        _ = thread.storeIfNil(JoinableThread(name: name) { self.run() })
    }

    deinit {
        // Not earlier: until here another thread may be about to wake the pool's thread.
        curl_multi_cleanup(multi)
    }

    func post(_ command: Command) {
        let (isEnded, wakes) = inbox.withLock { inbox in
            if inbox.isEnded { return (true, false) }
            inbox.commands.append(command)
            defer { inbox.isSleeping = false }
            return (false, inbox.isSleeping)
        }
        if wakes { curl_multi_wakeup(multi) }
        if isEnded, case .start(let transfer) = command { transfer.end(.failure(.shutDown)) }
    }

    func shutdown() async {
        post(.end)
        await thread.load()?.join()
    }

    // MARK: Thread

    private func run() {
        var isEnding = false
        while !isEnding {
            var running: Int32 = 0
            for command in takeCommands(sleeping: false) {
                isEnding = carryOut(command) || isEnding
            }
            curl_multi_perform(multi, &running)
            let ended = takeEnded()
            checkTimes()
            // The commands that the end of a transfer causes are carried out before the thread sleeps.
            if ended || isEnding { continue }
            let commands = takeCommands(sleeping: true)
            if commands.isEmpty {
                curl_multi_poll(multi, nil, 0, patience, nil)
                inbox.withLock { $0.isSleeping = false }
                if let nextLook, nextLook <= .now { self.nextLook = sockets.dropOrphans() }
            } else {
                for command in commands { isEnding = carryOut(command) || isEnding }
            }
        }
        close()
    }

    /// The longest time that the thread may sleep, in milliseconds.
    private var patience: Int32 {
        let isTimed = !active.isEmpty || !looking.isEmpty
        guard let due = [nextLook, isTimed ? nextCheck : nil].compactMap({ $0 }).min() else { return 60_000 }
        return Int32(clamping: max(0, ContinuousClock.now.duration(to: due).milliseconds))
    }

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

    private func takeCommands(sleeping: Bool) -> [Command] {
        inbox.withLock { inbox in
            if inbox.commands.isEmpty {
                inbox.isSleeping = sleeping
                return []
            }
            return exchange(&inbox.commands, with: [])
        }
    }

    /// Carries out a command. Returns `true` if the thread must end.
    private func carryOut(_ command: Command) -> Bool {
        switch command {
        case .start(let transfer):
            // A throttled transfer sends nothing before it may use the link.
            beginIfAllowed(transfer)
        case .cancel(let transfer):
            held[ObjectIdentifier(transfer)] = nil
            stop(transfer, .cancelled)
        case .lookedUp(let transfer, let name, let answer):
            if lookedUp(transfer, name, answer) { beginIfAllowed(transfer) }
        case .setThrottled(let transfer, let isThrottled):
            setThrottled(transfer, isThrottled)
        case .setQueue(let transfer, let queue):
            transfer.move(to: queue)
        case .copyBody(let transfer, let reply):
            if let body = transfer.bodySoFar { reply(body.bytes, body.offset) }
        case .dropOrphans:
            nextLook = sockets.dropOrphans()
        case .end:
            return true
        }
        return false
    }

    private func setThrottled(_ transfer: CurlTransfer, _ isThrottled: Bool) {
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
            if held.removeValue(forKey: ObjectIdentifier(transfer)) != nil { begin(transfer) }
        }
    }

    private func beginIfAllowed(_ transfer: CurlTransfer) {
        if transfer.isThrottled { held[ObjectIdentifier(transfer)] = transfer } else { begin(transfer) }
    }

    private func close() {
        for transfer in Array(active.values) + Array(held.values) + Array(looking.values) {
            stop(transfer, .cancelled)
        }
        held = [:]
        let left = inbox.withLock { inbox in
            inbox.isEnded = true
            return exchange(&inbox.commands, with: [])
        }
        for case .start(let transfer) in left { transfer.end(.failure(.shutDown)) }
        for handle in idleHandles { curl_easy_cleanup(handle) }
        idleHandles = []
    }
}
