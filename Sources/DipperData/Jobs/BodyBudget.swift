/// The budget for the bodies of all fetches in memory, in bytes: of bodies that are being received, and of the partial
/// bodies that parked jobs keep. A value.
///
/// It is not known when a parked job gives its bytes back, so parked jobs hold at most a quarter of the budget. A spent
/// budget is free again when three quarters of it are in use, so that the bytes of parked jobs never keep other jobs
/// from starting.
struct BodyBudget: Sendable {
    private var budget: ByteBudget
    /// The number of bytes that parked jobs hold.
    private(set) var parked = 0
    /// The largest number of bytes that parked jobs may keep.
    let parkedLimit: Int

    /// - Parameter limit: the budget, in bytes.
    init(limit: Int) {
        budget = ByteBudget(limit: limit)
        parkedLimit = max(0, limit / 4)
    }

    /// The number of bytes that are held, those of parked jobs included.
    var used: Int { budget.used }

    /// The latest change of the budget.
    var notice: ByteBudget.Notice { budget.notice }

    /// Counts bytes that a transfer holds from now on; a negative number gives bytes back.
    // mutant Budget: `t.take(bytes) }` => `t.take(0) }`
    mutating func take(_ bytes: Int) { _ = budget.take(bytes) }

    /// Counts the partial body of a job that is being parked, in place of the bytes of its transfer.
    /// - Parameter held: the bytes that were counted for the transfer.
    /// - Returns: whether the job may keep its bytes.
    mutating func park(_ bytes: Int, insteadOf held: Int) -> Bool {
        let fits = bytes <= parkedLimit - parked
        if fits { parked += bytes }
        take((fits ? bytes : 0) - held)
        return fits
    }

    /// Counts the bytes that a parked job has kept as its transfer's, because the job goes on.
    mutating func unpark(_ bytes: Int) { parked -= bytes }

    /// Gives back the bytes of a job that has ended.
    mutating func end(held: Int, parked: Int) {
        unpark(parked)
        take(-held - parked)
    }
}
