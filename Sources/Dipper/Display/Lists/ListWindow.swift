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

    private let options: ListOptions
    private(set) var count: Int
    private(set) var visible = 0..<0
    /// Where the list will come to rest, if that is known.
    private var destination: Range<Int>?
    /// In rows a second; negative towards the beginning.
    private(set) var speed = 0.0
    /// Where it moved last: 1 towards the end, -1 towards the beginning, 0 if it has not moved.
    private(set) var direction = 0
    private var movedAt: Duration?

    init(count: Int, _ options: ListOptions) {
        self.options = options
        self.count = max(0, count)
    }

    // MARK: Events

    /// Other rows can be seen.
    mutating func move(to rows: Range<Int>, heading destination: Range<Int>?, at time: Duration) {
        let rows = rows.clamped(to: 0..<count)
        let distance = rows.lowerBound - visible.lowerBound
        if let movedAt, !visible.isEmpty {
            // Calls that come in one go say nothing of how fast it was.
            let elapsed = max((time - movedAt) / .seconds(1), 1 / 240)
            let present = Double(distance) / elapsed
            // The last few calls count. A list that was at rest has no past, and may have jumped: it does not rush yet.
            let limit = Double(rows.count) / (options.minimumDwell / .seconds(1))
            speed =
                elapsed > options.restsAfter / .seconds(1)
                ? min(max(present, -limit), limit) : (speed + present) / 2
            if distance != 0 { direction = distance.signum() }
        }
        movedAt = time
        visible = rows
        self.destination = destination?.clamped(to: 0..<count)
    }

    /// Nothing has been heard of the list for a while.
    mutating func rest() {
        speed = 0
        destination = nil
    }

    /// The list has other rows.
    mutating func reload(count: Int) {
        self.count = max(0, count)
        visible = visible.clamped(to: 0..<self.count)
        direction = 0
        rest()
    }

    // MARK: Decisions

    /// Whether rows go by before they could be fetched.
    var isRushing: Bool {
        Double(visible.count) < abs(speed) * (options.minimumDwell / .seconds(1))
    }

    /// When the list counts as at rest unless something is heard of it; `nil` if it is.
    var restsAt: Duration? { speed == 0 && destination == nil ? nil : movedAt.map { $0 + options.restsAfter } }

    func rank(of row: Int) -> Rank {
        if let destination, destination.contains(row) { return .visible }
        if visible.contains(row) { return isRushing ? .passing : .visible }
        return window.contains(row) && !isRushing ? .near : .far
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

    /// Rows to be fetched next, the most likely one first: in the direction of travel, then behind.
    var nearby: [Int] {
        guard !isRushing, !visible.isEmpty else { return [] }
        let window = window
        let after = Array(visible.upperBound..<window.upperBound)
        let before = Array((window.lowerBound..<visible.lowerBound).reversed())
        if direction > 0 { return after + before }
        if direction < 0 { return before + after }
        let pairs = zip(after, before).flatMap { [$0, $1] }
        let rest = after.count > before.count ? after.dropFirst(before.count) : before.dropFirst(after.count)
        return pairs + rest
    }

    /// So many screens, in rows, if that can be counted.
    private func rows(_ screens: Double) -> Int {
        let rows = (screens * Double(visible.count)).rounded(.up)
        return rows > 0 ? (rows < Double(count) ? Int(rows) : count) : 0
    }
}
