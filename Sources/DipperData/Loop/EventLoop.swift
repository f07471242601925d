import Foundation
import ProcessShims
import Synchronization

/// One thread that waits in the kernel for messages, descriptors and times.
///
/// A turn of the loop runs the posted messages, tells clients which descriptors are ready, and gives each client its
/// turn. A client never blocks, never runs code of the program, and does nothing that grows with a body, a file or the
/// number of calls.
// The clients are used on the loop's thread only. Everything else that changes is behind a lock.
final class EventLoop: SerialExecutor, @unchecked Sendable {
    typealias Message = @Sendable () -> Void

    private struct Inbox {
        var messages: [Message] = []
        var isAsleep = false
        var isRunning = false
        var isEnded = false
    }

    private let inbox = Mutex(Inbox())
    private let thread = AtomicLazyReference<JoinableThread>()
    private let number = Atomic<UInt>(0)
    private let name: String
    // Both change before the thread starts, and not afterwards.
    private var epoll: Int32 = -1
    private var wakeup: Int32 = -1
    private var clients: [UInt32: any LoopClient] = [:]
    private var lastClient: UInt32 = 0
    private var isEnding = false

    /// Runs until ``end()``, even if nothing refers to it.
    init(name: String) {
        self.name = name
        begin()
    }

    /// Starts the thread unless it runs. While the system gives no descriptor or no thread, returns `false`, and messages
    /// wait.
    @discardableResult
    private func begin() -> Bool {
        inbox.withLock { inbox in
            if inbox.isRunning || inbox.isEnded { return inbox.isRunning }
            (epoll, wakeup) = (epoll_create1(Int32(EPOLL_CLOEXEC)), dipper_event())
            if epoll >= 0, wakeup >= 0 {
                set(EPOLL_CTL_ADD, wakeup, EPOLLIN.rawValue, client: 0)
                // The thread waits for the lock.
                if let started = JoinableThread(name: name, { self.run() }) {
                    _ = thread.storeIfNil(started)
                    inbox.isRunning = true
                }
            }
            if !inbox.isRunning { closeFiles() }
            return inbox.isRunning
        }
    }

    private static let observers = AtomicLazyReference<EventLoop>()

    /// Shared by the program's observers; `nil` while the system gives no descriptor.
    static var forObservers: EventLoop? {
        if let present = observers.load() { return present }
        let made = EventLoop(name: "dipper-observe")
        guard made.begin() else { return nil }
        let loop = observers.storeIfNil(made)
        if loop !== made { made.end() }
        return loop
    }

    deinit { closeFiles() }

    private func closeFiles() {
        for descriptor in [epoll, wakeup] where descriptor >= 0 { close(descriptor) }
        (epoll, wakeup) = (-1, -1)
    }

    // MARK: Any thread

    /// Runs a message on the loop's thread, in the order of posting; returns `false` if the loop has ended.
    /// - Parameter waits: whether the message may wait until the system gives a thread; otherwise `false` is returned as
    ///   if the loop had ended.
    @discardableResult
    func post(waits: Bool = true, _ message: @escaping Message) -> Bool {
        let (isTaken, isRunning, wakes) = inbox.withLock { inbox in
            if inbox.isEnded || !(inbox.isRunning || waits) { return (false, inbox.isEnded, false) }
            inbox.messages.append(message)
            return (true, inbox.isRunning, exchange(&inbox.isAsleep, with: false))
        }
        if wakes { eventfd_write(wakeup, 1) }
        if isRunning || !begin() { return isTaken }
        return isTaken || post(message)
    }

    var isEnded: Bool { inbox.withLock { $0.isEnded } }

    var isCurrent: Bool { number.load(ordering: .relaxed) == UInt(pthread_self()) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        post { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func checkIsolated() { precondition(isCurrent, "not on the thread of the loop") }

    func end() {
        if post(waits: false, { [self] in isEnding = true }) { return }
        let dropped = inbox.withLock { inbox in
            inbox.isEnded = true
            return exchange(&inbox.messages, with: [])
        }
        withExtendedLifetime(dropped) {}
    }

    func join() async { await thread.load()?.join() }

    // MARK: The loop's thread

    func add(_ client: some LoopClient) -> UInt32 {
        lastClient += 1
        clients[lastClient] = client
        return lastClient
    }

    func remove(client: UInt32) { clients[client] = nil }

    /// - Parameter old: the present events of epoll(7); zero, as for `events`, if the descriptor is not watched.
    func watch(_ descriptor: Int32, for events: UInt32, insteadOf old: UInt32, client: UInt32) {
        guard events != old else { return }
        set(
            events == 0 ? EPOLL_CTL_DEL : old == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, events, client: client)
    }

    private func set(_ operation: Int32, _ descriptor: Int32, _ events: UInt32, client: UInt32) {
        var event = epoll_event(
            events: events, data: epoll_data_t(u64: UInt64(client) << 32 | UInt64(UInt32(bitPattern: descriptor))))
        epoll_ctl(epoll, operation, descriptor, &event)
    }

    private func run() {
        let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 256)
        defer { events.deallocate() }
        number.store(UInt(pthread_self()), ordering: .relaxed)
        var messages: [Message] = []
        var due: ContinuousClock.Instant?
        var round = 0
        while true {
            let (isIdle, isEnded) = inbox.withLock { inbox in
                swap(&inbox.messages, &messages)
                inbox.isAsleep = messages.isEmpty
                inbox.isEnded = isEnding
                return (inbox.isAsleep, inbox.isEnded)
            }
            if isEnded { break }
            // Messages that follow from messages come first, for a few rounds.
            round = isIdle ? 0 : (round + 1) % 4
            var count: Int32 = 0
            if round == 0 {
                count = epoll_wait(epoll, events.baseAddress, Int32(events.count), isIdle ? Self.patience(due) : 0)
            }
            if isIdle { inbox.withLock { $0.isAsleep = false } }
            for message in messages { message() }
            messages.removeAll(keepingCapacity: true)
            for event in events.prefix(Int(max(0, count))) {
                let descriptor = Int32(bitPattern: UInt32(truncatingIfNeeded: event.data.u64))
                if descriptor == wakeup {
                    var number: UInt64 = 0
                    eventfd_read(wakeup, &number)
                } else {
                    clients[UInt32(event.data.u64 >> 32)]?.ready(descriptor, event.events)
                }
            }
            due = nil
            for client in clients.values {
                if let next = client.turn() { due = min(due ?? next, next) }
            }
        }
        for message in messages { message() }
        clients = [:]
        // A later thread may have the number.
        number.store(0, ordering: .relaxed)
    }

    /// In milliseconds.
    private static func patience(_ due: ContinuousClock.Instant?) -> Int32 {
        due.map { Int32(clamping: max(0, ContinuousClock.now.duration(to: $0).milliseconds)) } ?? -1
    }
}

/// Used on the loop's thread only.
protocol LoopClient: AnyObject {
    func ready(_ descriptor: Int32, _ events: UInt32)
    /// Does what is due, once in each turn of the loop; returns the time of the next turn at the latest.
    func turn() -> ContinuousClock.Instant?
}
