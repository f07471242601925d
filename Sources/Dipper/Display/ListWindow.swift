/// Decides which rows of a list are fetched, and how urgently, from the visible rows and the movement of the list.
struct ListWindow {
    enum Rank: Sendable, Hashable {
        /// The user sees the row, or will in a moment.
        case visible
        /// The row is on screen, but will be gone before its pictures could be fetched.
        case passing
        /// The row will soon be on screen, or has just left it.
        case near
        case far
    }

    private struct Place {
        let time: Duration
        let first: Int
    }

    private let options: ListOptions
    private(set) var count: Int
    private(set) var visible = 0..<0
    /// 1 towards the end, -1 towards the beginning, 0 if the list has not moved.
    private(set) var direction = 0
    private var destination: Range<Int>?
    /// The positions since the list was at rest. The first one is as old as the shortest dwell, if the list has moved
    /// for so long.
    private var trail: [Place] = []

    init(count: Int, _ options: ListOptions) {
        self.options = options
        self.count = max(0, count)
    }

    mutating func move(to rows: Range<Int>, heading destination: Range<Int>?, at time: Duration) {
        let rows = rows.clamped(to: 0..<count)
        let distance = rows.lowerBound - visible.lowerBound
        if distance != 0, !visible.isEmpty { direction = distance.signum() }
        // After a rest the list may have jumped, so its earlier positions do not count.
        if let last = trail.last, time < last.time || time - last.time > options.restsAfter { trail = [] }
        trail.append(Place(time: time, first: rows.lowerBound))
        while trail.count > 1, trail[1].time <= time - options.minimumDwell || trail.count > Self.longestTrail {
            trail.removeFirst()
        }
        visible = rows
        self.destination = destination?.clamped(to: 0..<count)
    }

    mutating func rest() {
        trail = Array(trail.suffix(1))
        destination = nil
    }

    mutating func reload(count: Int) {
        self.count = max(0, count)
        visible = visible.clamped(to: 0..<self.count)
        direction = 0
        trail = []
        destination = nil
    }

    private static var longestTrail: Int { 500 }

    /// Whether rows stay on screen for less than the shortest dwell.
    var isRushing: Bool {
        guard let past = trail.first else { return false }
        // mutant ListWindow: `e.count` => `e.count * 100`
        return (visible.lowerBound - past.first).magnitude > visible.count
    }

    /// The time at which the list counts as at rest unless it is updated; `nil` if it is at rest.
    var restsAt: Duration? {
        guard let last = trail.last, trail.count > 1 || destination != nil else { return nil }
        return last.time + options.restsAfter
    }

    func rank(of row: Int) -> Rank {
        if let destination, destination.contains(row) { return .visible }
        if visible.contains(row) { return isRushing ? .passing : .visible }
        return !isRushing && window.contains(row) ? .near : .far
    }

    /// The rows whose calls may be made or continue, including the visible rows.
    var window: Range<Int> {
        let ahead = rows(options.screensAhead), behind = rows(options.screensBehind)
        let (before, after) =
            // mutant ListWindow: `> 0 { (behind, ahead) } el` => `> 0 { (ahead, behind) } el`
            if direction > 0 { (behind, ahead) } else if direction < 0 { (ahead, behind) } else {
                (max(ahead / 2, behind), max(ahead / 2, behind))
            }
        let start = visible.lowerBound - min(before, visible.lowerBound)
        let end = visible.upperBound + min(after, count - visible.upperBound)
        return start..<end
    }

    /// The rows to fetch urgently: the visible ones, unless the list rushes by, and those at which it will rest.
    var wanted: [Int] {
        let destination = destination.map(Array.init) ?? []
        if isRushing { return destination }
        return Array(visible) + destination.filter { !visible.contains($0) }
    }

    /// The rows to prefetch, the most likely one first: in the direction of scrolling, then behind; alternating between
    /// both sides if the list has not moved.
    var nearby: some RandomAccessCollection<Int> {
        let window = isRushing || visible.isEmpty ? visible : window
        let after = visible.upperBound..<window.upperBound, before = window.lowerBound..<visible.lowerBound
        let (first, second) = direction < 0 ? (before.count, after.count) : (after.count, before.count)
        let pairs = direction == 0 ? min(first, second) : 0
        let isBack = direction < 0
        return (0..<first + second).lazy.map { index in
            let (isSecond, offset) =
                if index < 2 * pairs {
                    (index % 2 == 1, index / 2)
                } else if index - pairs < first {
                    (false, index - pairs)
                } else {
                    (true, index - first)
                }
            return isSecond != isBack ? before.upperBound - 1 - offset : after.lowerBound + offset
        }
    }

    /// At most all rows of the list.
    private func rows(_ screens: Double) -> Int {
        let rows = (screens * Double(visible.count)).rounded(.up)
        return rows > 0 ? (rows < Double(count) ? Int(rows) : count) : 0
    }
}
