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
package struct ByteBudget: Sendable {
    /// A budget is spent, or free again. See ``Latest``.
    package struct Notice: Sendable, Hashable {
        let isSpent: Bool
        let number: UInt64
    }

    private let limit: Int
    package private(set) var used = 0
    private(set) var isSpent = false
    private var number: UInt64 = 0

    package init(limit: Int) {
        self.limit = max(1, limit)
    }

    package var notice: Notice { Notice(isSpent: isSpent, number: number) }

    /// Counts bytes that are held from now on; a negative number gives bytes back.
    package mutating func take(_ bytes: Int) {
        used = max(0, used + bytes)
        let isSpent = isSpent ? used > limit - limit / 4 : used >= limit
        if isSpent != self.isSpent { number += 1 }
        self.isSpent = isSpent
    }
}

/// Holds back fetches that have not begun, until its last reference is released. Does not keep the cache alive.
package final class FetchHold: Sendable {
    private weak let engine: Engine?
    private let number: UInt64
    private static let numbers = Atomic<UInt64>(0)

    init(_ engine: Engine, of queue: FetchQueue) {
        self.engine = engine
        number = Self.numbers.add(1, ordering: .relaxed).newValue
        engine.post { [number] in $0.addHolder(number, of: queue) }
    }

    deinit { engine?.post { [number] in $0.removeHolder(number) } }

    package var isOver: Bool { engine == nil }

    package func tell(_ notice: ByteBudget.Notice) {
        engine?.perform { [number] in $0.hold(notice, by: number) }
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

    func post(_ notice: @escaping @Sendable (isolated Engine) -> Void) { target.load()?.engine?.post(notice) }
}

/// The value of the notice with the highest number, because notices may overtake one another.
struct Latest<Value: Sendable>: Sendable {
    private(set) var value: Value
    private var number: UInt64 = 0

    init(_ value: Value) {
        self.value = value
    }

    mutating func take(_ value: Value, number: UInt64) -> Bool {
        guard number > self.number else { return false }
        self.number = number
        self.value = value
        return true
    }
}
