import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// A record of the requests and the state of their responses, which tests can wait for.
final class RequestLog: Sendable {
    enum Event: Sendable { case arrival, end, stall }

    private struct Waiter: Sendable {
        var event: Event
        var count: Int
        var path: String?
        var continuation: CheckedContinuation<Void, Never>
    }

    /// The files to serve, by path, besides the generated resources.
    let files: [String: Data]

    private struct State: Sendable {
        var requests: [FaultServer.Request] = []
        /// The id of the first of `requests`; requests logged before a reset have lower ones.
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

        /// Removes and returns the waiters whose condition holds; the caller resumes them without the lock.
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

    /// The time at which the server started; times in `/log` count from it.
    let epoch = ContinuousClock.now

    var requests: [FaultServer.Request] { state.withLock { $0.requests } }

    /// Returns the number of a new connection, from 1.
    func newConnection() -> Int {
        state.withLock {
            $0.connections += 1
            return $0.connections
        }
    }

    /// Records a request whose head has arrived.
    ///
    /// - Returns: the id of the request, and the number of requests of its target so far, including this one.
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

    /// Keeps the connection of a stalled response for ``takeStalled()``.
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

    /// Closes the log: present and future waits return at once.
    func close() {
        change { $0.isClosed = true }
    }

    /// Waits until the event has happened `count` times, the task is cancelled, or the log is closed.
    func wait(for event: Event, count: Int, path: String?) async {
        let id = state.withLock {
            $0.nextWaiter += 1
            return $0.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = state.withLock { state in
                    // A cancellation before this line is detected here; a later one finds the waiter.
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
