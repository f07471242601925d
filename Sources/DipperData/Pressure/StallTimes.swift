/// How long tasks have waited for memory, as pressure files tell (Linux, Documentation/accounting/psi.rst).
struct StallTimes: Equatable, Sendable {
    /// Time in which at least one task waited.
    var some: Duration
    /// Time in which all tasks that were not idle waited.
    var full: Duration

    /// `nil` if the text has another form.
    init?(_ text: String) {
        var times: [Substring: Duration] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard let kind = parts.first, let total = parts.first(where: { $0.hasPrefix("total=") }),
                let microseconds = Int64(total.dropFirst(6)), (0...Self.most).contains(microseconds)
            else { continue }
            times[kind] = .microseconds(microseconds)
        }
        guard let some = times["some"] else { return nil }
        self.some = some
        full = times["full"] ?? .zero
    }

    /// In microseconds: some thousand years.
    private static let most: Int64 = 1 << 56

    init(some: Duration, full: Duration) {
        self.some = some
        self.full = full
    }

    /// What the time since an earlier look tells, by the shares that triggers are set to.
    func sign(since earlier: StallTimes, over time: Duration, ofMachine: Bool) -> PressureSign? {
        guard time > .zero else { return nil }
        if (full - earlier.full) / time >= StallTrigger.severe.share { return ofMachine ? .machineBlocked : .blocked }
        if (some - earlier.some) / time >= StallTrigger.moderate.share { return ofMachine ? .machineStalled : .stalled }
        return nil
    }
}

/// What the kernel is asked to tell of: so much waiting within so much time.
struct StallTrigger: Equatable, Sendable {
    var kind: String
    var stall: Duration
    /// Programs without privileges may only use multiples of two seconds.
    var window = Duration.seconds(2)

    /// A tenth of the time some task waits; what systemd takes for its services too.
    static let moderate = StallTrigger(kind: "some", stall: .milliseconds(200))
    /// A fifth of the time nothing gets done.
    static let severe = StallTrigger(kind: "full", stall: .milliseconds(400))

    var share: Double { stall / window }

    /// As it is written into a pressure file.
    var text: String { "\(kind) \(Int(stall / .microseconds(1))) \(Int(window / .microseconds(1)))" }
}
