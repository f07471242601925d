import ArgumentParser
import Foundation

/// A number of bytes, such as `100MB`, `1.5GiB`, `4096`.
struct ByteCount: ExpressibleByArgument {
    let bytes: Int

    init?(argument: String) {
        let units: [(String, Double)] = [
            ("KiB", 1_024), ("MiB", 1_048_576), ("GiB", 1_073_741_824), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9),
            ("K", 1_024), ("M", 1_048_576), ("G", 1_073_741_824), ("B", 1),
        ]
        let text = argument.trimmingCharacters(in: .whitespaces)
        let unit = units.first { text.lowercased().hasSuffix($0.0.lowercased()) }
        guard let number = Double(text.dropLast(unit?.0.count ?? 0)), number >= 0, number * (unit?.1 ?? 1) < 9e18
        else { return nil }
        bytes = Int(number * (unit?.1 ?? 1))
    }

    static func describe(_ bytes: Int) -> String {
        switch bytes {
        case ..<1_000: "\(bytes) B"
        case ..<1_000_000: String(format: "%.1f kB", Double(bytes) / 1e3)
        case ..<1_000_000_000: String(format: "%.1f MB", Double(bytes) / 1e6)
        default: String(format: "%.2f GB", Double(bytes) / 1e9)
        }
    }
}

/// A span of time, such as `7d`, `12h`, `30m`, `45s`.
struct Age: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800]
        guard let last = argument.last else { return nil }
        let unit = units[last]
        guard let number = Double(unit == nil ? argument : String(argument.dropLast())), number >= 0, number < 1e9
        else { return nil }
        duration = .seconds(number * (unit ?? 1))
    }

    static func describe(since date: Date) -> String {
        let seconds = Int(min(1e12, max(0, Date().timeIntervalSince(date))))
        return switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7_200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3_600) h"
        default: "\(seconds / 86_400) d"
        }
    }
}
