/// The number of tasks of a job at each priority level. Nearly always all tasks have the same level, which is kept
/// without an array.
struct LevelCounts: Sendable {
    private var level: UInt8 = 0
    private var count: Int32 = 0
    /// The other levels and their counts. There are at most as many as there are levels.
    private var others: [(level: UInt8, count: Int32)] = []

    var highest: UInt8 { others.reduce(level) { max($0, $1.level) } }

    mutating func add(_ level: UInt8) {
        if count == 0 || level == self.level {
            self.level = level
            count += 1
        } else if let place = others.firstIndex(where: { $0.level == level }) {
            others[place].count += 1
        } else {
            others.append((level, 1))
        }
    }

    mutating func remove(_ level: UInt8) {
        if level == self.level {
            count -= 1
            if count == 0 { (self.level, count) = others.popLast() ?? (0, 0) }
        } else if let place = others.firstIndex(where: { $0.level == level }) {
            others[place].count -= 1
            if others[place].count == 0 { others.remove(at: place) }
        }
    }
}
