import Synchronization

/// A record of the connections of a ``RawServer``: their requests, bytes sent, and ends.
final class RawLog: Sendable {
    private struct Waiter {
        let count: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var connections: [RawServer.Connection] = []
        var left = 0
        var isClosed = false
        var waiters: [Waiter] = []
    }

    private let state = Mutex(State())

    var connections: [RawServer.Connection] { state.withLock { $0.connections } }

    func newConnection() -> Int {
        state.withLock { state in
            state.connections.append(RawServer.Connection())
            return state.connections.count - 1
        }
    }

    func asked(_ request: RawServer.Request) {
        state.withLock { $0.connections[request.connection].requests.append(request) }
    }

    func sent(_ bytes: Int, on connection: Int) {
        state.withLock { $0.connections[connection].bytesSent += bytes }
    }

    func left(_ connection: Int) {
        change { state in
            state.connections[connection].wasLeft = true
            state.left += 1
        }
    }

    /// Closes the log: present and future waits return at once.
    func close() {
        change { $0.isClosed = true }
    }

    func waitUntilLeft(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if state.isClosed || state.left >= count { return true }
                state.waiters.append(Waiter(count: count, continuation: continuation))
                return false
            }
            if isDone { continuation.resume() }
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let ready = state.withLock { state in
            body(&state)
            let (left, isClosed) = (state.left, state.isClosed)
            let ready = state.waiters.filter { isClosed || left >= $0.count }
            state.waiters.removeAll { isClosed || left >= $0.count }
            return ready
        }
        for waiter in ready { waiter.continuation.resume() }
    }
}
