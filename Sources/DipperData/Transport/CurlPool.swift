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
        case end
    }

    private struct Inbox {
        var commands: [Command] = []
        /// The thread sleeps, or is about to, and must be woken.
        var isSleeping = false
        var isEnded = false
    }

    let configuration: CurlConfiguration
    private let multi: UnsafeMutableRawPointer
    private let inbox = Mutex(Inbox())
    private let thread = Mutex<JoinableThread?>(nil)
    private var active: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    /// Transfers that have not begun because they may not use the link.
    private var held: [ObjectIdentifier: CurlTransfer] = [:]
    private var idleHandles: [UnsafeMutableRawPointer] = []

    init(_ configuration: CurlConfiguration, name: String) {
        self.configuration = configuration
        guard let multi = curl_multi_init() else { preconditionFailure("no memory for libcurl") }
        self.multi = multi
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, configuration.keptConnections)
        _ = dipper_curl_multi_set_long(multi, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX))
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
                curl_multi_poll(multi, nil, 0, 60_000, nil)
                inbox.withLock { $0.isSleeping = false }
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
            guard !transfer.isOver, transfer.isThrottled != isThrottled else { break }
            transfer.isThrottled = isThrottled
            if let handle = transfer.handle {
                curl_easy_pause(handle, isThrottled ? CURLPAUSE_RECV : CURLPAUSE_CONT)
            } else if !isThrottled {
                held[ObjectIdentifier(transfer)] = nil
                begin(transfer)
            }
        case .end:
            return true
        }
        return false
    }

    private func begin(_ transfer: CurlTransfer) {
        guard !transfer.isOver else { return }
        guard let handle = idleHandles.popLast() ?? makeHandle() else {
            transfer.end(.failure(.transport.with(detail: "no memory for libcurl")))
            return
        }
        let context = Unmanaged.passUnretained(transfer).toOpaque()
        _ = dipper_curl_set_string(handle, CURLOPT_URL, transfer.request.url.absoluteString)
        // Over TLS wait for the first connection, which HTTP/2 may let all share. Without TLS it never does.
        let isTLS = transfer.request.url.scheme?.lowercased() == "https"
        _ = dipper_curl_set_long(handle, CURLOPT_PIPEWAIT, isTLS ? 1 : 0)
        for field in transfer.request.headers.fields {
            // libcurl drops a field without a value unless it is written with a semicolon.
            let line = field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
            transfer.headerList = curl_slist_append(transfer.headerList, line)
        }
        _ = dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, transfer.headerList)
        _ = dipper_curl_set_pointer(handle, CURLOPT_WRITEDATA, context)
        _ = dipper_curl_set_pointer(handle, CURLOPT_HEADERDATA, context)
        transfer.handle = handle
        active[handle] = transfer
        if curl_multi_add_handle(multi, handle) != CURLM_OK {
            release(transfer)
            transfer.end(.failure(.transport.with(detail: "libcurl takes no more transfers")))
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
            let metrics = CurlMetrics.read(handle)
            let isDone = code == CURLE_OK || transfer.hasSaidEnough
            let error =
                isDone ? nil : CurlErrors.error(code, handle, isTooLarge: transfer.isTooLarge)
            if let error {
                release(transfer)
                transfer.end(.failure(error))
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
        transfer.handle = nil
        active[handle] = nil
        curl_multi_remove_handle(multi, handle)
        if transfer.headerList != nil {
            _ = dipper_curl_set_list(handle, CURLOPT_HTTPHEADER, nil)
            curl_slist_free_all(transfer.headerList)
            transfer.headerList = nil
        }
        _ = dipper_curl_set_pointer(handle, CURLOPT_WRITEDATA, nil)
        _ = dipper_curl_set_pointer(handle, CURLOPT_HEADERDATA, nil)
        if idleHandles.count < 64 { idleHandles.append(handle) } else { curl_easy_cleanup(handle) }
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
        CurlOptions.set(configuration, on: handle)
        return handle
    }
}

/// Puts a new value in the place of an old one and returns the old one.
func exchange<Value>(_ place: inout Value, with value: Value) -> Value {
    let old = place
    place = value
    return old
}
