/// The `Priority` field (RFC 9218): an urgency from 0, the first, to 7; 3 is what a request without it has.
enum PriorityField {
    /// - Parameter level: 0 to 100; 50 is normal.
    static func text(isUrgent: Bool, level: Int) -> String {
        let normal = isUrgent ? 2 : 6
        return "u=\(level > 50 ? normal - 1 : level < 50 ? normal + 1 : normal)"
    }
}
