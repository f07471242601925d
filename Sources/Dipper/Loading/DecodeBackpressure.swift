import Foundation
import Synchronization

/// The bytes that wait to be decoded, from all data caches together. At the limit all fetches wait for the decoder, and
/// prefetches at half of it, so that there is room for urgent pictures.
final class DecodeBackpressure: Sendable {
    private struct State: Sendable {
        /// For each of ``queues``.
        var budgets: [ByteBudget]
        /// For each of ``queues``, by the number of the data cache.
        var holds: [UInt64: [FetchHold]] = [:]

        var notices: [ByteBudget.Notice] { budgets.map(\.notice) }
    }

    /// A hold of `slow` holds back prefetches, one of `fast` all fetches.
    private static let queues: [FetchQueue] = [.slow, .fast]
    private let state: Mutex<State>

    /// The limit is in bytes.
    init(limit: Int) {
        state = Mutex(State(budgets: [ByteBudget(limit: limit / 2), ByteBudget(limit: limit)]))
    }

    /// Holds back the fetches of a data cache too. Must be called before anything is fetched from that cache.
    func follow(_ originals: DataCache) {
        let number = originals.number
        let present = state.withLock { $0.holds }
        if present[number] != nil { return }
        let holds = Self.queues.map(originals.makeHold)
        // Looking at a data cache may release it, which must not happen under the lock.
        let over = present.filter { $0.value.contains(where: \.isOver) }
        let notices = state.withLock { state -> [ByteBudget.Notice] in
            guard state.holds[number] == nil else { return [] }
            for number in over.keys { state.holds[number] = nil }
            state.holds[number] = holds
            return state.notices
        }
        withExtendedLifetime(over) {}
        Self.tell(notices, to: holds)
    }

    /// Adds bytes that wait to be decoded; a negative number takes away those that wait no longer.
    func take(_ bytes: Int) {
        let (notices, holds) = state.withLock { state -> ([ByteBudget.Notice], [[FetchHold]]) in
            let before = state.notices
            for index in state.budgets.indices { state.budgets[index].take(bytes) }
            let notices = state.notices
            return (notices, notices == before ? [] : Array(state.holds.values))
        }
        for holds in holds { Self.tell(notices, to: holds) }
    }

    private static func tell(_ notices: [ByteBudget.Notice], to holds: [FetchHold]) {
        for (notice, hold) in zip(notices, holds) { hold.tell(notice) }
    }
}
