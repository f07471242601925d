import Synchronization

/// The budget for the bodies of all fetches in memory, in bytes: bodies that are being received, and the partial bodies
/// of parked fetches. A value.
///
/// Parked fetches hold at most a quarter of the budget, because it is not known when they give it back. A spent budget
/// is free again when three quarters of it are in use, so parked bytes never keep other fetches from starting.
struct BodyBudget: Sendable {
    private var budget: ByteBudget
    private var parked = 0
    private let parkedLimit: Int

    init(limit: Int) {
        budget = ByteBudget(limit: limit)
        parkedLimit = max(0, limit / 4)
    }

    var isSpent: Bool { budget.isSpent }
    var used: Int { budget.used }

    // mutant Budget: `t.take(bytes) }` => `t.take(0) }`
    mutating func take(_ bytes: Int) { budget.take(bytes) }

    /// Counts the partial body of a fetch that is being parked, in place of the `held` bytes of its transfer.
    mutating func park(_ bytes: Int, insteadOf held: Int) -> Bool {
        let fits = bytes <= parkedLimit - parked
        if fits { parked += bytes }
        take((fits ? bytes : 0) - held)
        return fits
    }

    mutating func unpark(_ bytes: Int) { parked -= bytes }

    mutating func giveBack(parked bytes: Int) {
        unpark(bytes)
        take(-bytes)
    }
}

/// The number of bytes that all work of one kind together may hold at a time. A value.
///
/// Work under way cannot give back what it holds, so the budget may be overrun; it only tells when no more work should
/// begin. A spent budget stays spent until a quarter of it is free, so that work does not stop and go with every piece.
struct ByteBudget: Sendable {
    private let limit: Int
    private(set) var used = 0
    private(set) var isSpent = false

    init(limit: Int) {
        self.limit = max(1, limit)
    }

    /// Counts bytes that are held from now on; a negative number gives bytes back.
    mutating func take(_ bytes: Int) {
        used = max(0, used + bytes)
        isSpent = isSpent ? used > limit - limit / 4 : used >= limit
    }
}

/// Passes notices of the tiers on to the engine, which owns the tiers and is created after them.
final class EngineRelay: Sendable {
    private final class Target: Sendable {
        weak let engine: Engine?

        init(_ engine: Engine) { self.engine = engine }
    }

    private let target = AtomicLazyReference<Target>()

    func connect(_ engine: Engine) { _ = target.storeIfNil(Target(engine)) }

    var engine: Engine? { target.load()?.engine }

    func post(_ notice: @escaping @Loop (Engine) -> Void) {
        if let engine { engine.post { notice(engine) } }
    }
}
