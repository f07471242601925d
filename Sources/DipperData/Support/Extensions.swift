import CXXHash
import Foundation
import Logging

extension Duration {
    /// Rounded up.
    var milliseconds: Int {
        let (seconds, attoseconds) = components
        let whole = seconds.multipliedReportingOverflow(by: 1_000)
        guard !whole.overflow else { return seconds > 0 ? Int.max / 2 : 0 }
        return Int(whole.partialValue) + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    /// Rounded towards zero; at most three hundred years.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return min(max(seconds, -9_000_000_000), 9_000_000_000) * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    var timeInterval: Double {
        Double(components.seconds) + Double(components.attoseconds) * 1e-18
    }
}

extension Data {
    /// Distinguishes bytes. It is the same in every process.
    var digest: UInt64 { withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, 0) } }
}

extension Logger {
    static let silent = Logger(label: "dipper") { _ in SwiftLogNoOpLogHandler() }

    func category(_ name: String) -> Logger {
        var copy = self
        copy[metadataKey: "category"] = "\(name)"
        return copy
    }
}
