/// Whether a transfer keeps to a least average rate and to a longest time. Only time in which it may use the link counts. A
/// value; whoever owns the transfer asks it now and then.
struct SpeedLimit: Sendable {
    enum Verdict: Equatable {
        case fine
        /// Slower than allowed, on average over the whole window.
        case tooSlow
        /// Longer under way than allowed.
        case tooLong
    }

    private let rate: Int
    private let window: Duration
    private let longest: Duration?
    /// Time that counts, and when it was last added to; `nil` while the transfer is held back.
    private var counted = Duration.zero
    private var runningSince: Duration?
    /// How far it had come at moments of the time that counts, the oldest first. All but the first are within the window.
    private var marks: [(time: Duration, bytes: Int)] = []

    /// - Parameters:
    ///   - rate: bytes a second; zero for any.
    ///   - window: over which the average is taken.
    ///   - longest: of the whole transfer; `nil` for no limit.
    init(rate: Int, window: Duration, longest: Duration?) {
        self.rate = rate
        self.window = window
        self.longest = longest
    }

    /// The transfer may use the link from now on.
    mutating func run(at now: Duration) {
        if runningSince == nil { runningSince = now }
    }

    /// The transfer is held back from now on.
    mutating func hold(at now: Duration) {
        if let runningSince { counted += now - runningSince }
        runningSince = nil
    }

    /// - Parameter bytes: moved so far, in both directions.
    mutating func check(at now: Duration, bytes: Int) -> Verdict {
        guard let runningSince else { return .fine }
        let time = counted + (now - runningSince)
        if let longest, time >= longest { return .tooLong }
        guard rate > 0 else { return .fine }
        while marks.count > 1, time - marks[1].time >= window { marks.removeFirst() }
        if let mark = marks.first, time - mark.time >= window {
            let least = Double(rate) * (time - mark.time).timeInterval
            if Double(bytes - mark.bytes) < least { return .tooSlow }
        }
        if marks.last.map({ time - $0.time >= window / Self.marksPerWindow }) ?? true { marks.append((time, bytes)) }
        return .fine
    }

    private static let marksPerWindow = 16
}
