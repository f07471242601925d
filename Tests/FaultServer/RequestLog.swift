import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// What the server was asked and how far it has answered; wakes those who wait for it.
final class RequestLog: Sendable {
    enum Event: Sendable { case arrival, end, stall }

    private struct Waiter: Sendable {
        var event: Event
        var count: Int
        var path: String?
        var continuation: CheckedContinuation<Void, Never>
    }

    /// What is served beside what the server makes itself, by path.
    let files: [String: Data]

    private struct State: Sendable {
        var requests: [FaultServer.Request] = []
        /// The id that the first of `requests` has: what was logged before a reset has a lower one.
        var firstID = 1
        var nextID = 1
        var connections = 0
        var perTarget: [String: Int] = [:]
        var arrivals = Tally()
        var ends = Tally()
        var stalls = Tally()
        var waiters: [Int: Waiter] = [:]
        var nextWaiter = 0
        var isClosed = false
        /// Connections on which nothing more is sent.
        var stalled: [any Channel] = []

        func reached(_ event: Event, _ count: Int, _ path: String?) -> Bool {
            switch event {
            case .arrival: arrivals.count(path: path) >= count
            case .end: ends.count(path: path) >= count
            case .stall: stalls.count(path: path) >= count
            }
        }

        /// Removes the waiters who have what they wait for; the caller resumes them unlocked.
        mutating func takeSatisfied() -> [Waiter] {
            guard !waiters.isEmpty else { return [] }
            let ready = waiters.filter {
                isClosed || reached($0.value.event, $0.value.count, $0.value.path)
            }
            for id in ready.keys { waiters[id] = nil }
            return Array(ready.values)
        }

        mutating func update(_ id: Int, _ change: (inout FaultServer.Request) -> Void) {
            guard id >= firstID else { return }
            change(&requests[id - firstID])
        }
    }

    init(files: [String: Data]) {
        self.files = files
    }

    private let state = Mutex(State())

    /// When the server started: the zero of the times in `/log`.
    let epoch = ContinuousClock.now

    var requests: [FaultServer.Request] { state.withLock { $0.requests } }

    /// The number of a new connection.
    func newConnection() -> Int {
        state.withLock {
            $0.connections += 1
            return $0.connections
        }
    }

    /// Records a request whose head has arrived.
    ///
    /// - Returns: its id, and how many requests its target has had with it.
    func begin(_ head: HTTPRequestHead, path: String, connection: Int) -> (id: Int, ordinal: Int) {
        let start = ContinuousClock.now
        return change { state in
            let id = state.nextID
            state.nextID += 1
            state.requests.append(
                FaultServer.Request(
                    id: id, method: head.method.rawValue, target: head.uri, path: path,
                    headers: head.headers.map { ($0.name, $0.value) }, connection: connection,
                    start: start, end: nil, bytesSent: 0, status: 0))
            state.perTarget[head.uri, default: 0] += 1
            state.arrivals.add(path: path)
            return (id, state.perTarget[head.uri, default: 0])
        }
    }

    func answered(_ id: Int, status: Int) {
        state.withLock { $0.update(id) { $0.status = status } }
    }

    func sent(_ id: Int, bytes: Int) {
        state.withLock { $0.update(id) { $0.bytesSent += bytes } }
    }

    /// Keeps the connection of a response that goes no further, for ``takeStalled()``.
    func stalled(_ channel: any Channel, path: String) {
        change { state in
            state.stalled.append(channel)
            state.stalls.add(path: path)
        }
    }

    func takeStalled() -> [any Channel] {
        state.withLock { state in
            defer { state.stalled = [] }
            return state.stalled
        }
    }

    func end(_ id: Int) {
        let now = ContinuousClock.now
        change { state in
            var path: String?
            state.update(id) { request in
                guard request.end == nil else { return }
                request.end = now
                path = request.path
            }
            if let path { state.ends.add(path: path) }
        }
    }

    func reset() {
        state.withLock {
            $0.requests = []
            $0.firstID = $0.nextID
            $0.perTarget = [:]
            $0.arrivals = Tally()
            $0.ends = Tally()
            $0.stalls = Tally()
        }
    }

    /// Lets everybody go who waits or will wait: nothing more comes.
    func close() {
        change { $0.isClosed = true }
    }

    /// Returns when the event has happened `count` times, the task is cancelled or the log closed.
    func wait(for event: Event, count: Int, path: String?) async {
        let id = state.withLock {
            $0.nextWaiter += 1
            return $0.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = state.withLock { state in
                    // A cancellation before this line is seen here; a later one finds the waiter.
                    if state.isClosed || Task.isCancelled || state.reached(event, count, path) {
                        return true
                    }
                    state.waiters[id] = Waiter(
                        event: event, count: count, path: path, continuation: continuation)
                    return false
                }
                if isDone { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.continuation.resume()
        }
    }

    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, ready) = state.withLock { state in
            let result = body(&state)
            return (result, state.takeSatisfied())
        }
        for waiter in ready { waiter.continuation.resume() }
        return result
    }
}
