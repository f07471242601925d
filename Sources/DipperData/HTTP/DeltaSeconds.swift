import Foundation

/// A number of seconds as fields hold it (RFC 9111, section 1.2.2).
enum DeltaSeconds {
    /// What stands for every number too large to hold.
    static let most: TimeInterval = 2_147_483_648

    /// `nil` for anything but digits.
    static func parse(_ text: String) -> TimeInterval? {
        guard !text.isEmpty, text.utf8.allSatisfy(\.isDigit) else { return nil }
        return min(Double(text) ?? most, most)
    }
}
