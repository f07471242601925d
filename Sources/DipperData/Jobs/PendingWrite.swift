import Synchronization

/// The write of an answer, and the calls that wait for its end.
final class PendingWrite: Sendable {
    private struct State {
        /// Whether the answer is on disk; `nil` until the write has ended.
        var isOnDisk: Bool?
        var waiting: [@Sendable (Bool) -> Void] = []
    }

    private let state = Mutex(State())

    /// Ends the write, or says that there is none.
    func end(isOnDisk: Bool) {
        let waiting = state.withLock { state in
            state.isOnDisk = isOnDisk
            return exchange(&state.waiting, with: [])
        }
        for tell in waiting { tell(isOnDisk) }
    }

    /// Calls a closure with whether the answer is on disk: when the write has ended, or at once if it has.
    func whenEnded(_ tell: @escaping @Sendable (Bool) -> Void) {
        let isOnDisk = state.withLock { state in
            if state.isOnDisk == nil { state.waiting.append(tell) }
            return state.isOnDisk
        }
        if let isOnDisk { tell(isOnDisk) }
    }
}
