import Foundation
import ProcessShims
import Synchronization

/// The thread on which the library decides and transfers: one for the process.
///
/// What is isolated to this actor is touched on its thread alone, as the compiler checks. It never blocks, never runs
/// code of the program, and does nothing that grows with a body, a file or the number of calls.
@globalActor
package actor Loop {
    package static let shared = Loop()
    fileprivate static let events = EventLoop()

    package nonisolated var unownedExecutor: UnownedSerialExecutor { Loop.events.asUnownedSerialExecutor() }

    /// Runs a message on the loop, in the order of posting.
    /// - Parameters:
    ///   - client: runs the message; `nil` for the loop itself.
    ///   - waits: whether the message may wait until the system gives a thread.
    ///   - handsOver: whether the calling thread will probably sleep now. Then the loop may go on in its place, which takes a
    ///     twentieth of the time of waking another processor.
    /// - Returns: `false`, and nothing runs, if the message may not wait and there is no thread.
    @discardableResult
    package nonisolated static func post(
        to client: (any LoopClient)? = nil, waits: Bool = true, handsOver: Bool = false,
        _ message: @escaping @Loop () -> Void
    ) -> Bool {
        events.post(EventLoop.Message(client: client, body: message), waits: waits, handsOver: handsOver)
    }

    nonisolated static var isCurrent: Bool { events.isCurrent }

    /// Runs a closure in place, on the loop's thread: for callbacks from C, and code that may be called on any thread.
    package nonisolated static func run(_ body: @Loop () -> Void) {
        events.checkIsolated()
        withoutActuallyEscaping(body) { unsafeBitCast($0, to: (() -> Void).self)() }
    }

    @Loop package static func add(_ client: some LoopClient) -> LoopSeat { events.add(client) }
}

/// One thread that waits in the kernel for messages, descriptors and times.
///
/// A round runs the posted messages, tells clients which descriptors are ready, and gives a turn to each client that has
/// been woken or is due.
private final class EventLoop: SerialExecutor {
    struct Message {
        let client: (any LoopClient)?
        let body: @Loop () -> Void
    }

    private struct Inbox {
        var messages: [Message] = []
        var isAsleep = false
        /// Once the thread runs.
        var wakeup: Wakeup?
    }

    /// The loop wakes when a file is written to: an event descriptor, or a pipe. The kernel takes who writes to a pipe
    /// to be about to sleep, and prefers to run the reader on the same processor.
    private struct Wakeup {
        let event: Int32
        let pipe: (end: Int32, start: Int32)

        /// `nil` while the system gives no descriptor.
        init?() {
            event = dipper_event()
            guard event >= 0 else { return nil }
            var ends: [Int32] = [event, event]
            pipe = dipper_pipe(&ends) == 0 ? (ends[0], ends[1]) : (event, event)
        }

        /// The descriptors to read from.
        var all: [Int32] { pipe.end == event ? [event] : [event, pipe.end] }

        func wake(handsOver: Bool) {
            var one: UInt64 = 1
            _ = write(handsOver ? pipe.start : event, &one, 8)
        }

        func end() { for descriptor in Set([event, pipe.end, pipe.start]) { close(descriptor) } }
    }

    private let inbox = Mutex(Inbox())
    private let number = Atomic<UInt>(0)
    @Loop private var epoll: Int32 = -1
    @Loop private var seats: [UInt32: LoopSeat] = [:]
    @Loop private var awake: [LoopSeat] = []
    /// The messages that the loop's own thread has posted, then those of others.
    @Loop private var messages: [Message] = []
    @Loop private var delivered: [Message] = []
    /// A list of more messages gives its memory back.
    private static let mostKept = 1_024
    @Loop private var lastSeat: UInt32 = 0

    // MARK: Any thread

    /// Starts the thread unless it runs; returns `false`, and messages wait, while the system gives no descriptor or no
    /// thread.
    private func begin() -> Bool {
        inbox.withLock { inbox in
            if inbox.wakeup != nil { return true }
            let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
            guard epoll >= 0 else { return false }
            // The thread waits for the lock.
            if let wakeup = Wakeup() {
                if wakeup.all.allSatisfy({ Self.add($0, to: epoll) }),
                    JoinableThread(name: "dipper-loop", { self.start(epoll) }) != nil
                {
                    inbox.wakeup = wakeup
                    return true
                }
                wakeup.end()
            }
            close(epoll)
            return false
        }
    }

    func post(_ message: Message, waits: Bool, handsOver: Bool = false) -> Bool {
        if isCurrent {
            Loop.run { messages.append(message) }
            return true
        }
        let (isTaken, wakeup, isRunning) = inbox.withLock { inbox -> (Bool, Wakeup?, Bool) in
            if inbox.wakeup == nil, !waits { return (false, nil, false) }
            inbox.messages.append(message)
            return (true, exchange(&inbox.isAsleep, with: false) ? inbox.wakeup : nil, inbox.wakeup != nil)
        }
        wakeup?.wake(handsOver: handsOver)
        if isRunning || !begin() { return isTaken }
        return isTaken || post(message, waits: waits)
    }

    var isCurrent: Bool { number.load(ordering: .relaxed) == UInt(pthread_self()) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let run = { @Loop in job.runSynchronously(on: self.asUnownedSerialExecutor()) }
        _ = post(Message(client: nil, body: run), waits: true)
    }

    func isIsolatingCurrentContext() -> Bool? { isCurrent }

    func checkIsolated() { precondition(isCurrent, "not on the thread of the loop") }

    // MARK: The loop's thread

    private func start(_ epoll: Int32) {
        inbox.withLock { _ in number.store(UInt(pthread_self()), ordering: .relaxed) }
        Loop.run {
            self.epoll = epoll
            run()
        }
    }

    @Loop private func run() {
        let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 256)
        var round = 0
        while true {
            let isIdle = inbox.withLock { inbox in
                if messages.isEmpty { swap(&inbox.messages, &messages) }
                messages += inbox.messages
                inbox.messages.removeAll(keepingCapacity: inbox.messages.count <= Self.mostKept)
                inbox.isAsleep = messages.isEmpty && awake.isEmpty
                return inbox.isAsleep
            }
            // Messages come before descriptors, for a few rounds.
            round = isIdle ? 0 : (round + 1) % 4
            var count: Int32 = 0
            if round == 0 { count = epoll_wait(epoll, events.baseAddress, Int32(events.count), isIdle ? patience : 0) }
            if isIdle { inbox.withLock { $0.isAsleep = false } }
            deliver()
            for event in events.prefix(Int(max(0, count))) {
                let descriptor = Int32(bitPattern: UInt32(truncatingIfNeeded: event.data.u64))
                if event.data.u64 >> 32 == 0 {
                    var number: UInt64 = 0
                    _ = read(descriptor, &number, 8)
                } else if let seat = seats[UInt32(event.data.u64 >> 32)] {
                    seat.wake()
                    seat.client?.ready(descriptor, event.events)
                }
            }
            deliver()
            wakeDue()
            // Those woken meanwhile have their turn in the next round.
            for seat in exchange(&awake, with: []) { seat.takeTurn() }
        }
    }

    /// Messages that follow from messages come first, a few times.
    @Loop private func deliver() {
        for _ in 0..<4 where !messages.isEmpty {
            swap(&messages, &delivered)
            for message in delivered {
                if let client = message.client { client.take(message.body) } else { message.body() }
            }
            delivered.removeAll(keepingCapacity: delivered.count <= Self.mostKept)
        }
    }

    @Loop private func wakeDue() {
        var now: ContinuousClock.Instant?
        for seat in seats.values {
            guard let due = seat.due else { continue }
            let moment = now ?? .now
            now = moment
            if due <= moment { seat.wake() }
        }
    }

    /// In milliseconds.
    @Loop private var patience: Int32 {
        guard let due = seats.values.lazy.compactMap(\.due).min() else { return -1 }
        return Int32(clamping: max(0, ContinuousClock.now.duration(to: due).milliseconds))
    }

    // MARK: Clients

    @Loop func add(_ client: some LoopClient) -> LoopSeat {
        lastSeat += 1
        let seat = LoopSeat(client, lastSeat)
        seats[lastSeat] = seat
        return seat
    }

    @Loop fileprivate func remove(_ seat: LoopSeat) { seats[seat.number] = nil }

    @Loop fileprivate func wake(_ seat: LoopSeat) { awake.append(seat) }

    /// Adds a descriptor that wakes the loop.
    private static func add(_ descriptor: Int32, to epoll: Int32) -> Bool {
        var event = epoll_event(
            events: EPOLLIN.rawValue, data: epoll_data_t(u64: UInt64(UInt32(bitPattern: descriptor))))
        return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0
    }

    @Loop fileprivate func control(_ operation: Int32, _ descriptor: Int32, _ events: UInt32, seat: UInt32) {
        var event = epoll_event(
            events: events, data: epoll_data_t(u64: UInt64(seat) << 32 | UInt64(UInt32(bitPattern: descriptor))))
        epoll_ctl(epoll, operation, descriptor, &event)
    }
}

/// The place of a client on the loop.
@Loop
package final class LoopSeat {
    fileprivate let number: UInt32
    fileprivate private(set) var client: (any LoopClient)?
    fileprivate private(set) var due: ContinuousClock.Instant?
    private var isAwake = false

    fileprivate init(_ client: some LoopClient, _ number: UInt32) { (self.client, self.number) = (client, number) }

    /// Gives the client a turn in this round or the next.
    package func wake() {
        if client == nil || exchange(&isAwake, with: true) { return }
        Loop.events.wake(self)
    }

    /// - Parameter old: the present events of epoll(7); zero, as for `events`, if the descriptor is not watched.
    package func watch(_ descriptor: Int32, for events: UInt32, insteadOf old: UInt32) {
        guard events != old else { return }
        let operation = events == 0 ? EPOLL_CTL_DEL : old == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
        Loop.events.control(operation, descriptor, events, seat: number)
    }

    fileprivate func takeTurn() {
        isAwake = false
        due = client?.turn()
    }

    /// Lets go of the client.
    package func leave() {
        (client, due) = (nil, nil)
        Loop.events.remove(self)
    }
}

@Loop
package protocol LoopClient: AnyObject, Sendable {
    /// Runs a message that was posted to the client.
    func take(_ message: @escaping @Loop () -> Void)
    func ready(_ descriptor: Int32, _ events: UInt32)
    /// Does what is due, after the client was woken or its time has come; returns the time of the next turn.
    func turn() -> ContinuousClock.Instant?
}

extension LoopClient {
    package func take(_ message: @escaping @Loop () -> Void) { message() }
}
