/// A value that numbered notices set. Notices may overtake one another: the one with the highest number holds.
struct Latest<Value: Sendable>: Sendable {
    private(set) var value: Value
    private var number: UInt64 = 0

    init(_ value: Value) {
        self.value = value
    }

    /// Takes the value of a notice, unless a notice with a higher number has been taken.
    /// - Returns: whether the value was taken.
    mutating func take(_ value: Value, number: UInt64) -> Bool {
        guard number > self.number else { return false }
        self.number = number
        self.value = value
        return true
    }
}
