import CCurl
import Foundation
import Synchronization

/// A libcurl multi handle and the thread that drives it.
// The libcurl handles belong to the pool's thread; other threads only post commands, and wake it by the one call
// that libcurl allows from elsewhere.
final class CurlPool: @unchecked Sendable {
    enum Command {
        case start(CurlTransfer)
        case cancel(CurlTransfer)
        case setThrottled(CurlTransfer, Bool)
        case setLane(CurlTransfer, Lane)
        case copyBody(CurlTransfer, @Sendable (Data, Int) -> Void)
        case dropOrphans
        case end
    }

    private struct Inbox {
        var commands: [Command] = []
        /// The thread sleeps, or is about to, and must be woken.
        var isSleeping = false
        var isEnded = false
    }

    let lane: Lane
    let configuration: CurlConfiguration
    let sockets = CurlSockets()
    /// What was learned of the ways to hosts, by host.
    var paths: [String: NetworkPath] = [:]
    private let multi: UnsafeMutableRawPointer
    private let inbox = Mutex(Inbox())
    private let thread = Mutex<JoinableThread?>(nil)
    private var active: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    /// Transfers that have not begun because they may not use the link.
    private var held: [ObjectIdentifier: CurlTransfer] = [:]
    private var idleHandles: [UnsafeMutableRawPointer] = []
    /// When to look again for connections on which nothing will arrive.
    private var nextLook: ContinuousClock.Instant?

    init(_ lane: Lane, _ configuration: CurlConfiguration, name: String) {
        self.lane = lane
        self.configuration = configuration
        guard let multi = curl_multi_init() else { preconditionFailure("no memory for libcurl") }
        self.multi = multi
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, configuration.keptConnections)
        // A slow transfer has its connection to itself: pausing one holds no other up.
        let multiplexing = Int(lane == .fast ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING)
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_PIPELINING, multiplexing)
        thread.withLock { $0 = JoinableThread(name: name) { self.run() } }
    }

    deinit {
        // Not before: until here somebody may be about to wake the thread.
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
        let thread = thread.withLock { thread in
            defer { thread = nil }
            return thread
        }
        await thread?.join()
    }

    // MARK: The thread

    private func run() {
        var isEnding = false
        while !isEnding {
            var running: Int32 = 0
            for command in takeCommands(sleeping: false) {
                isEnding = carryOut(command) || isEnding
            }
            curl_multi_perform(multi, &running)
            let ended = takeEnded()
            // What an end brings about is started before the thread sleeps.
            if ended || isEnding { continue }
            let commands = takeCommands(sleeping: true)
            if commands.isEmpty {
                let patience = nextLook.map { max(0, ContinuousClock.now.duration(to: $0).milliseconds) } ?? 60_000
                curl_multi_poll(multi, nil, 0, Int32(clamping: patience), nil)
                inbox.withLock { $0.isSleeping = false }
                if let nextLook, nextLook <= .now { self.nextLook = sockets.dropOrphans() }
            } else {
                for command in commands { isEnding = carryOut(command) || isEnding }
            }
        }
        close()
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

    /// True if the thread is to end.
    private func carryOut(_ command: Command) -> Bool {
        switch command {
        case .start(let transfer):
            // A throttled transfer does not even ask before it may.
            if transfer.isThrottled { held[ObjectIdentifier(transfer)] = transfer } else { begin(transfer) }
        case .cancel(let transfer):
            held[ObjectIdentifier(transfer)] = nil
            release(transfer)
            transfer.end(.failure(.cancelled))
        case .setThrottled(let transfer, let isThrottled):
            setThrottled(transfer, isThrottled)
        case .setLane(let transfer, let lane):
            transfer.move(to: lane)
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
            if isThrottled, lane == .fast, transfer.isMultiplexed, transfer.canBeContinued {
                // Its bytes would go on coming beside the urgent ones; the rest is asked for later.
                let metrics = CurlMetrics.read(handle)
                release(transfer)
                transfer.end(.failure(.connectionLost.with(detail: "gave way to urgent work")), metrics: metrics)
            } else {
                curl_easy_pause(handle, isThrottled ? CURLPAUSE_RECV : CURLPAUSE_CONT)
            }
        } else if !isThrottled {
            held[ObjectIdentifier(transfer)] = nil
            begin(transfer)
        }
    }

    private func begin(_ transfer: CurlTransfer) {
        guard !transfer.isOver else { return }
        guard let handle = idleHandles.popLast() ?? makeHandle() else {
            transfer.end(.failure(.transport.with(detail: "no memory for libcurl")))
            return
        }
        let request = transfer.request
        let context = Unmanaged.passUnretained(transfer).toOpaque()
        _ = dipper_curl_set_string(handle, CURLOPT_URL, request.url.absoluteString)
        // Over TLS wait for the first connection, which HTTP/2 may let all share. Without TLS it never does.
        let shares = lane == .fast && request.url.scheme?.lowercased() == "https"
        _ = dipper_curl_set_long(handle, CURLOPT_PIPEWAIT, shares ? 1 : 0)
        _ = dipper_curl_set_long(handle, CURLOPT_FRESH_CONNECT, transfer.needsNewConnection ? 1 : 0)
        setMethod(request, on: handle)
        for field in request.headers.fields {
            // libcurl drops a field without a value unless it is written with a semicolon.
            let line = field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
            transfer.headerList = curl_slist_append(transfer.headerList, line)
        }
        _ = dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, transfer.headerList)
        CurlOptions.setContext(context, on: handle)
        transfer.handle = handle
        active[handle] = transfer
        if curl_multi_add_handle(multi, handle) != CURLM_OK {
            release(transfer)
            transfer.end(.failure(.transport.with(detail: "libcurl takes no more transfers")))
        }
    }

    private func setMethod(_ request: TransferRequest, on handle: UnsafeMutableRawPointer) {
        // Undoes what the handle's last request has left.
        _ = dipper_curl_set_long(handle, CURLOPT_HTTPGET, 1)
        let isPlain = request.method == "GET" && request.body == nil
        _ = dipper_curl_set_string(handle, CURLOPT_CUSTOMREQUEST, isPlain ? nil : request.method)
        if let body = request.body {
            _ = dipper_curl_set_off(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count))
            body.withUnsafeBytes { bytes in
                let start = bytes.bindMemory(to: CChar.self).baseAddress
                _ = dipper_curl_set_string(handle, CURLOPT_COPYPOSTFIELDS, start)
            }
        } else if request.method == "HEAD" {
            _ = dipper_curl_set_long(handle, CURLOPT_NOBODY, 1)
        }
    }

    private func takeEnded() -> Bool {
        var any = false
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = active[handle]
            else { continue }
            any = true
            let code = message.pointee.data.result
            if code == CURLE_ABORTED_BY_CALLBACK, transfer.needsNewConnection {
                release(transfer)
                begin(transfer)
                continue
            }
            let metrics = CurlMetrics.read(handle)
            transfer.readStatus()
            let isDone = code == CURLE_OK || transfer.hasSaidEnough
            if !isDone {
                let error = CurlErrors.error(code, handle, of: transfer)
                release(transfer)
                transfer.end(.failure(error), metrics: metrics)
            } else {
                // The status is still to be read from the handle.
                transfer.end(.success(()), metrics: metrics)
                release(transfer)
            }
        }
        return any
    }

    private func release(_ transfer: CurlTransfer) {
        guard let handle = transfer.handle else { return }
        transfer.disconnect()
        transfer.handle = nil
        active[handle] = nil
        curl_multi_remove_handle(multi, handle)
        if transfer.headerList != nil {
            _ = dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, nil)
            curl_slist_free_all(transfer.headerList)
            transfer.headerList = nil
        }
        CurlOptions.setContext(nil, on: handle)
        // A handle keeps the body that it has sent.
        let isKept = idleHandles.count < 64 && transfer.request.body == nil
        if isKept { idleHandles.append(handle) } else { curl_easy_cleanup(handle) }
    }

    private func close() {
        for transfer in Array(active.values) + Array(held.values) {
            release(transfer)
            transfer.end(.failure(.cancelled))
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

    private func makeHandle() -> UnsafeMutableRawPointer? {
        guard let handle = curl_easy_init() else { return nil }
        CurlOptions.set(configuration, sockets: sockets, on: handle)
        return handle
    }
}

/// Puts a new value in the place of an old one and returns the old one.
package func exchange<Value>(_ place: inout Value, with value: Value) -> Value {
    let old = place
    place = value
    return old
}
