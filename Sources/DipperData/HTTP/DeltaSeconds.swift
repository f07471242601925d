import Foundation

/// A number of seconds in a field (RFC 9111, section 1.2.2).
enum DeltaSeconds {
    /// The value that stands for every number too large to represent.
    static let most: TimeInterval = 2_147_483_648

    /// Parses a number of seconds; `nil` for anything but digits.
    static func parse(_ text: String) -> TimeInterval? {
        guard !text.isEmpty, text.utf8.allSatisfy(\.isDigit) else { return nil }
        return min(Double(text) ?? most, most)
    }
}
