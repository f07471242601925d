/// Spaces out what is told now and then: at most once per interval, the latest last. A value; who tells asks it.
struct Pacing: Sendable {
    enum Answer: Equatable {
        /// Tell it now, and call ``told()`` afterwards.
        case now
        /// Ask again after so long.
        case later(Duration)
        /// Somebody else will.
        case no
    }

    private var last: Duration?
    private var isTelling = false
    private var isAskedAgain = false
    private var willAsk = false

    /// - Parameters:
    ///   - isLast: nothing follows, so that it is told whatever the interval.
    ///   - isAgain: asked as the last answer said.
    mutating func ask(at time: Duration, interval: Duration, isLast: Bool = false, isAgain: Bool = false) -> Answer {
        if isAgain { willAsk = false }
        if let last, time - last < interval, !isLast {
            if willAsk { return .no }
            willAsk = true
            return .later(last + interval - time)
        }
        // One at a time: else what is older might be told after what is newer.
        if isTelling {
            isAskedAgain = true
            return .no
        }
        last = time
        isTelling = true
        return .now
    }

    /// True if it must be told once more, at once and without asking: there was news meanwhile.
    mutating func told() -> Bool {
        isTelling = isAskedAgain
        isAskedAgain = false
        return isTelling
    }
}
