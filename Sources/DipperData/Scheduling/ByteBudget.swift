/// The number of bytes that all pieces of work of one kind together may hold at a time. A value.
///
/// Work under way cannot give back what it holds, so the budget may be overrun; it only tells when no more work should
/// begin. A spent budget stays spent until a quarter of it is free, so that work does not stop and go with every piece.
package struct ByteBudget: Sendable {
    /// A change of the budget: it has been spent, or is free again. Notices may overtake one another: the one with the
    /// highest number holds.
    package struct Notice: Sendable, Hashable {
        package let isSpent: Bool
        package let number: UInt64

        package init(isSpent: Bool, number: UInt64) {
            self.isSpent = isSpent
            self.number = number
        }
    }

    package let limit: Int
    package private(set) var used = 0
    package private(set) var isSpent = false
    private var number: UInt64 = 0

    /// - Parameter limit: the budget, in bytes; at least 1.
    package init(limit: Int) {
        self.limit = max(1, limit)
    }

    /// Whether a piece of work may begin: if there is room, or if nothing is held, so that a piece that is larger than
    /// the whole budget runs alone.
    package var mayStart: Bool { !isSpent || used == 0 }

    /// The latest notice, for a listener that has heard none.
    package var notice: Notice { Notice(isSpent: isSpent, number: number) }

    /// Counts bytes that are held from now on; a negative number gives bytes back.
    /// - Returns: a notice, if this has spent the budget or freed it.
    package mutating func take(_ bytes: Int) -> Notice? {
        used = max(0, used + bytes)
        let isSpent = isSpent ? used > limit - limit / 4 : used >= limit
        guard isSpent != self.isSpent else { return nil }
        self.isSpent = isSpent
        number += 1
        return Notice(isSpent: isSpent, number: number)
    }

    /// Counts bytes that are no longer held.
    package mutating func give(_ bytes: Int) -> Notice? { take(-bytes) }
}
