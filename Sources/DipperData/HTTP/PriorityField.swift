/// The `Priority` field (RFC 9218), whose urgency runs from 0, the most urgent, to 7. A request without the field has
/// urgency 3.
enum PriorityField {
    /// Returns the value of the field.
    /// - Parameter level: the priority within the queue from 0 to 100; 50 is normal.
    static func text(isUrgent: Bool, level: Int) -> String {
        let normal = isUrgent ? 2 : 6
        return "u=\(level > 50 ? normal - 1 : level < 50 ? normal + 1 : normal)"
    }
}
