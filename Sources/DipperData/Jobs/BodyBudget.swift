import Dispatch
import Synchronization

/// How many bytes the bodies of all fetches may hold in memory: those that are on their way, and the beginnings that jobs
/// keep while they wait for the network or their next attempt.
///
/// Nobody can say when a job that waits will give its bytes back, so such jobs hold a quarter of the budget at most. A
/// spent budget is free again with three quarters in use: what waits never keeps the rest from starting.
final class BodyBudget: Sendable {
    typealias Notice = ByteBudget.Notice

    private struct State {
        var budget: ByteBudget
        var parked = 0
    }

    private let state: Mutex<State>
    private let listener = Mutex<(@Sendable (Notice) -> Void)?>(nil)
    /// The most bytes that jobs may keep while they wait.
    let parkedLimit: Int

    /// - Parameter limit: in bytes.
    init(limit: Int) {
        state = Mutex(State(budget: ByteBudget(limit: limit)))
        parkedLimit = max(0, limit / 4)
    }

    /// Bytes that are held, those of jobs that wait among them.
    var used: Int { state.withLock { $0.budget.used } }
    /// Bytes that jobs hold while they wait.
    var parked: Int { state.withLock { $0.parked } }

    /// Counts bytes that a transfer holds from now on; negative ones are given back.
    func take(_ bytes: Int) -> Notice? { state.withLock { $0.budget.take(bytes) } }

    /// A transfer has ended, and its job waits with the beginning of a body.
    /// - Parameter held: what was counted for the transfer.
    /// - Returns: whether the job may keep its bytes.
    func park(_ bytes: Int, insteadOf held: Int) -> (fits: Bool, notice: Notice?) {
        state.withLock { state in
            let fits = bytes <= parkedLimit - state.parked
            if fits { state.parked += bytes }
            return (fits, state.budget.take((fits ? bytes : 0) - held))
        }
    }

    /// A job that kept bytes goes on: they count as its transfer's.
    func unpark(_ bytes: Int) { state.withLock { $0.parked -= bytes } }

    // MARK: Jobs that end while they wait

    /// Sets who hears of changes that follow from the end of a job.
    func listen(_ listener: @escaping @Sendable (Notice) -> Void) { self.listener.withLock { $0 = listener } }

    /// A job is no more. Its last owner may hold locks, so the listener is called later.
    func end(held: Int, parked: Int) {
        guard held != 0 || parked != 0 else { return }
        let notice = state.withLock { state in
            state.parked -= parked
            return state.budget.take(-held - parked)
        }
        guard let notice, let listener = listener.withLock({ $0 }) else { return }
        DispatchQueue.global().async { listener(notice) }
    }
}
