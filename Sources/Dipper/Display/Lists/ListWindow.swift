/// Which rows of a list are to be fetched, and how: decides from what can be seen and how the list moves, and does
/// nothing.
struct ListWindow {
    enum Rank: Sendable, Hashable {
        /// Someone looks at it, or will in a moment.
        case visible
        /// On screen, but gone before it could be fetched.
        case passing
        /// Soon on screen, or just gone.
        case near
        /// Of no interest.
        case far
    }

    /// Where the list was.
    private struct Place {
        let time: Duration
        let first: Int
    }

    private let options: ListOptions
    private(set) var count: Int
    private(set) var visible = 0..<0
    /// Where it moved last: 1 towards the end, -1 towards the beginning, 0 if it has not moved.
    private(set) var direction = 0
    /// Where the list will come to rest, if that is known.
    private var destination: Range<Int>?
    /// The places since it was at rest, the first being that of one dwell ago if it has moved for so long.
    private var trail: [Place] = []

    init(count: Int, _ options: ListOptions) {
        self.options = options
        self.count = max(0, count)
    }

    // MARK: Events

    /// Other rows can be seen.
    mutating func move(to rows: Range<Int>, heading destination: Range<Int>?, at time: Duration) {
        let rows = rows.clamped(to: 0..<count)
        let distance = rows.lowerBound - visible.lowerBound
        if distance != 0, !visible.isEmpty { direction = distance.signum() }
        // A list that was at rest has no past, and may have jumped.
        if let last = trail.last, time < last.time || time - last.time > options.restsAfter { trail = [] }
        trail.append(Place(time: time, first: rows.lowerBound))
        while trail.count > 1, trail[1].time <= time - options.minimumDwell || trail.count > Self.longestTrail {
            trail.removeFirst()
        }
        visible = rows
        self.destination = destination?.clamped(to: 0..<count)
    }

    /// Nothing has been heard of the list for a while.
    mutating func rest() {
        trail = Array(trail.suffix(1))
        destination = nil
    }

    /// The list has other rows.
    mutating func reload(count: Int) {
        self.count = max(0, count)
        visible = visible.clamped(to: 0..<self.count)
        direction = 0
        trail = []
        destination = nil
    }

    private static var longestTrail: Int { 500 }

    // MARK: Decisions

    /// Whether rows are on screen for less than the shortest dwell.
    var isRushing: Bool {
        guard let past = trail.first else { return false }
        return (visible.lowerBound - past.first).magnitude > visible.count
    }

    /// When the list counts as at rest unless something is heard of it; `nil` if it is.
    var restsAt: Duration? {
        guard let last = trail.last, trail.count > 1 || destination != nil else { return nil }
        return last.time + options.restsAfter
    }

    func rank(of row: Int) -> Rank {
        if let destination, destination.contains(row) { return .visible }
        if visible.contains(row) { return isRushing ? .passing : .visible }
        return !isRushing && window.contains(row) ? .near : .far
    }

    /// Rows whose pictures may be fetched or kept on their way, and those that can be seen.
    var window: Range<Int> {
        let ahead = rows(options.screensAhead), behind = rows(options.screensBehind)
        let (before, after) =
            if direction > 0 { (behind, ahead) } else if direction < 0 { (ahead, behind) } else {
                (max(ahead / 2, behind), max(ahead / 2, behind))
            }
        let start = visible.lowerBound - min(before, visible.lowerBound)
        let end = visible.upperBound + min(after, count - visible.upperBound)
        return start..<end
    }

    /// Rows to be fetched at once: those that can be seen, from the first, and those the list will come to rest at.
    var wanted: [Int] {
        let destination = destination.map(Array.init) ?? []
        if isRushing { return destination }
        return Array(visible) + destination.filter { !visible.contains($0) }
    }

    /// Rows to be fetched next, the most likely one first: in the direction of travel, then behind; in turns on both
    /// sides of a list that has not moved.
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

    /// So many screens, in rows, if that can be counted.
    private func rows(_ screens: Double) -> Int {
        let rows = (screens * Double(visible.count)).rounded(.up)
        return rows > 0 ? (rows < Double(count) ? Int(rows) : count) : 0
    }
}
