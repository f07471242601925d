extension Duration {
    /// Whole milliseconds, rounded up.
    var milliseconds: Int {
        let (seconds, attoseconds) = components
        let whole = seconds.multipliedReportingOverflow(by: 1_000)
        guard !whole.overflow else { return seconds > 0 ? Int.max / 2 : 0 }
        return Int(whole.partialValue) + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    /// Whole nanoseconds, rounded towards zero; at most three hundred years.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return min(max(seconds, -9_000_000_000), 9_000_000_000) * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    /// Seconds.
    var timeInterval: Double {
        Double(components.seconds) + Double(components.attoseconds) * 1e-18
    }
}
