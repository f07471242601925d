import Synchronization

/// Bytes that were fetched and wait to be made pictures. Where the network is faster than the decoder, prefetches wait
/// until it has caught up.
final class DecodeBacklog: Sendable {
    private struct State: Sendable {
        var bytes = 0
        var reservation: FastReservation?
    }

    private let state = Mutex(State())
    private let limit: Int

    /// - Parameter limit: in bytes.
    init(limit: Int = 32 << 20) {
        self.limit = limit
    }

    func add(_ bytes: Int, _ originals: DataCache) {
        let isHigh = state.withLock { state in
            state.bytes += bytes
            return state.bytes > limit && state.reservation == nil
        }
        guard isHigh else { return }
        let reservation = originals.reserveFast()
        let unused = state.withLock { state -> FastReservation? in
            guard state.bytes > limit, state.reservation == nil else { return reservation }
            state.reservation = reservation
            return nil
        }
        unused?.release()
    }

    func remove(_ bytes: Int) {
        let reservation = state.withLock { state -> FastReservation? in
            state.bytes -= bytes
            return state.bytes <= limit / 2 ? exchange(&state.reservation, with: nil) : nil
        }
        reservation?.release()
    }
}
