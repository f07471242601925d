/// The time that tasks have waited for memory, from a pressure file (Linux, Documentation/accounting/psi.rst).
struct StallTimes: Equatable, Sendable {
    /// The time in which at least one task waited.
    var some: Duration
    /// The time in which all tasks that were not idle waited.
    var full: Duration

    /// Parses a pressure file; `nil` if the text has another form.
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

    /// The largest time that is accepted, in microseconds: about two thousand years.
    private static let most: Int64 = 1 << 56

    init(some: Duration, full: Duration) {
        self.some = some
        self.full = full
    }

    /// Returns the sign for the time since an earlier look, by the shares that the triggers use; `nil` if both are
    /// below.
    func sign(since earlier: StallTimes, over time: Duration, ofMachine: Bool) -> PressureSign? {
        guard time > .zero else { return nil }
        if (full - earlier.full) / time >= StallTrigger.severe.share { return ofMachine ? .machineBlocked : .blocked }
        if (some - earlier.some) / time >= StallTrigger.moderate.share { return ofMachine ? .machineStalled : .stalled }
        return nil
    }
}

/// A trigger that the kernel reports: so much waiting within a window of time.
struct StallTrigger: Equatable, Sendable {
    var kind: String
    var stall: Duration
    /// The window; without privileges only multiples of two seconds are allowed.
    var window = Duration.seconds(2)

    /// The trigger for `moderate`: some task waits a tenth of the time. systemd uses this share for its services as
    /// well.
    static let moderate = StallTrigger(kind: "some", stall: .milliseconds(200))
    /// The trigger for `severe`: no task makes progress in a fifth of the time.
    static let severe = StallTrigger(kind: "full", stall: .milliseconds(400))

    /// The share of the window that is spent waiting.
    var share: Double { stall / window }

    /// The text to write into a pressure file.
    var text: String { "\(kind) \(Int(stall / .microseconds(1))) \(Int(window / .microseconds(1)))" }
}
