/// A check that a transfer keeps a least average rate and a longest duration. Only time in which the transfer may use
/// the link counts. A value; the owner of the transfer asks it from time to time.
struct SpeedLimit: Sendable {
    enum Verdict: Equatable {
        case fine
        /// The average rate over the whole window is lower than allowed.
        case tooSlow
        /// The transfer takes longer than allowed.
        case tooLong
    }

    private let rate: Int
    private let window: Duration
    private let longest: Duration?
    /// The time that counts, without the current run.
    private var counted = Duration.zero
    /// The start of the current run; `nil` while the transfer is held back.
    private var runningSince: Duration?
    /// Bytes moved at times of ``counted``, the oldest first. All marks but the first lie within the window.
    private var marks: [(time: Duration, bytes: Int)] = []

    /// Creates a limit.
    /// - Parameters:
    ///   - rate: the least rate in bytes a second; zero for no limit.
    ///   - window: the time over which the average is taken.
    ///   - longest: the longest duration of the transfer; `nil` for no limit.
    init(rate: Int, window: Duration, longest: Duration?) {
        self.rate = rate
        self.window = window
        self.longest = longest
    }

    /// Starts the time: the transfer may use the link.
    mutating func run(at now: Duration) {
        if runningSince == nil { runningSince = now }
    }

    /// Stops the time: the transfer is held back.
    mutating func hold(at now: Duration) {
        if let runningSince { counted += now - runningSince }
        runningSince = nil
    }

    /// Returns whether the transfer keeps to the limits.
    /// - Parameter bytes: the bytes moved so far, in both directions.
    mutating func check(at now: Duration, bytes: Int) -> Verdict {
        guard let runningSince else { return .fine }
        let time = counted + (now - runningSince)
        if let longest, time >= longest { return .tooLong }
        guard rate > 0 else { return .fine }
        while marks.count > 1, time - marks[1].time >= window { marks.removeFirst() }
        if let mark = marks.first, time - mark.time >= window {
            let least = Double(rate) * (time - mark.time).timeInterval
            // mutant TimeLimit|Hostile: `< least { retu` => `< least, bytes == 0 { retu`
            if Double(bytes - mark.bytes) < least { return .tooSlow }
        }
        if marks.last.map({ time - $0.time >= window / Self.marksPerWindow }) ?? true { marks.append((time, bytes)) }
        return .fine
    }

    private static let marksPerWindow = 16
}
