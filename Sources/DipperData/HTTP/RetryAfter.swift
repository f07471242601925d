import Foundation

/// The `Retry-After` field (RFC 9110, section 10.2.3): a number of seconds or a date.
enum RetryAfter {
    /// Returns the wait that a server asks for, never negative; `nil` if the value is neither seconds nor a date.
    static func delay(from value: String, now: Date) -> Duration? {
        let text = value.trimmingCharacters(in: .whitespaces)
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            // A number too large for an Int means "very long".
            return .seconds(min(Int(text) ?? .max, 1_000_000_000))
        }
        guard let date = HTTPDate.parse(text, now: now) else { return nil }
        return .seconds(max(0, min(date.timeIntervalSince(now), 1_000_000_000)))
    }
}
