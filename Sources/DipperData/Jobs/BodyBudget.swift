import Synchronization

/// The budget for the bodies of all fetches in memory, in bytes: of bodies that are being received, and of the partial
/// bodies that parked jobs keep.
///
/// It is not known when a parked job gives its bytes back, so parked jobs hold at most a quarter of the budget. A spent
/// budget is free again when three quarters of it are in use, so that the bytes of parked jobs never keep other jobs
/// from starting.
final class BodyBudget: Sendable {
    typealias Notice = ByteBudget.Notice

    private struct State {
        var budget: ByteBudget
        var parked = 0
    }

    private let state: Mutex<State>
    private let thread: SeparateThread
    private let listener = Mutex<(@Sendable (Notice) -> Void)?>(nil)
    /// The largest number of bytes that parked jobs may keep.
    let parkedLimit: Int

    /// - Parameters:
    ///   - limit: the budget, in bytes.
    ///   - thread: tells the listener what follows from the end of a job.
    init(limit: Int, thread: SeparateThread = SeparateThread()) {
        self.thread = thread
        state = Mutex(State(budget: ByteBudget(limit: limit)))
        parkedLimit = max(0, limit / 4)
    }

    /// The number of bytes that are held, those of parked jobs included.
    var used: Int { state.withLock { $0.budget.used } }
    /// The number of bytes that parked jobs hold.
    var parked: Int { state.withLock { $0.parked } }

    /// Counts bytes that a transfer holds from now on; a negative number gives bytes back.
    func take(_ bytes: Int) -> Notice? { state.withLock { $0.budget.take(bytes) } }

    /// Counts the partial body of a job that is being parked, in place of the bytes of its transfer.
    /// - Parameter held: the bytes that were counted for the transfer.
    /// - Returns: whether the job may keep its bytes.
    func park(_ bytes: Int, insteadOf held: Int) -> (fits: Bool, notice: Notice?) {
        state.withLock { state in
            let fits = bytes <= parkedLimit - state.parked
            if fits { state.parked += bytes }
            return (fits, state.budget.take((fits ? bytes : 0) - held))
        }
    }

    /// Counts the bytes that a parked job has kept as its transfer's, because the job goes on.
    func unpark(_ bytes: Int) { state.withLock { $0.parked -= bytes } }

    // MARK: Jobs that end while parked

    /// Sets the closure that is called with notices that follow from the end of a job.
    func listen(_ listener: @escaping @Sendable (Notice) -> Void) { self.listener.withLock { $0 = listener } }

    /// Gives back the bytes of a job that is being released. The job's last owner may hold locks, so the listener is
    /// called later on another thread.
    func end(held: Int, parked: Int) {
        guard held != 0 || parked != 0 else { return }
        let notice = state.withLock { state in
            state.parked -= parked
            return state.budget.take(-held - parked)
        }
        guard let notice, let listener = listener.withLock({ $0 }) else { return }
        thread.run { listener(notice) }
    }
}
