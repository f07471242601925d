/// The pacing of reports: at most one per interval, the latest one last. A value that the reporter asks before each
/// report.
struct Pacing: Sendable {
    enum Answer: Equatable {
        /// Report now, and call ``told()`` afterwards.
        case now
        /// Ask again after this time.
        case later(Duration)
        /// Do nothing: another caller will report.
        case no
    }

    private var last: Duration?
    private var isTelling = false
    private var isAskedAgain = false
    private var willAsk = false

    /// Returns what the reporter should do about news.
    /// - Parameters:
    ///   - isLast: whether nothing follows, so that it is reported whatever the interval.
    ///   - isAgain: whether the reporter asks because an earlier answer told it to ask later.
    mutating func ask(at time: Duration, interval: Duration, isLast: Bool = false, isAgain: Bool = false) -> Answer {
        if isAgain { willAsk = false }
        if let last, time - last < interval, !isLast {
            if willAsk { return .no }
            willAsk = true
            return .later(last + interval - time)
        }
        // One report at a time: otherwise older news might be reported after newer news.
        if isTelling {
            isAskedAgain = true
            return .no
        }
        last = time
        isTelling = true
        return .now
    }

    /// Notes that a report has been made.
    /// - Returns: whether there was news meanwhile, so that the reporter must report once more, at once and without asking.
    mutating func told() -> Bool {
        isTelling = isAskedAgain
        isAskedAgain = false
        return isTelling
    }
}
