import Foundation
import Synchronization

/// A loader for the pictures of a list, a grid or anything else that scrolls. The caller tells it which rows are
/// visible, and the loader makes the calls.
///
/// The loader fetches rows on screen urgently, and the next rows in the direction of scrolling by a few prefetches.
/// Calls for rows that have left the screen continue as prefetches until the rows are far away. Rows that pass quickly
/// are shown only if the cache has them, so that they do not delay the rows at which the list comes to rest.
///
/// ```swift
/// let list = ListLoader(cache, count: photos.count) { row in [ImageRequest(photos[row])] }
/// list.update(visible: 120..<140)      // whenever the list scrolls
/// list.attach(binding, to: 125)        // when row 125 gets a display
/// ```
///
/// Releasing the last reference cancels the calls of the loader.
// Safe to share: the plan has a lock, and everything else that changes is used on the queue alone.
public final class ListLoader: @unchecked Sendable {
    private struct Arrangement {
        var window: ListWindow
        var requests: @Sendable (Int) -> [ImageRequest]
        /// Increases when the list's rows are replaced.
        var generation = 0
    }

    private struct Plan {
        var arrangement: Arrangement
        var displays: [ObjectIdentifier: Attached] = [:]
        var isArranging = false
        var cancelRest: (@Sendable () -> Void)?
    }

    private struct Attached {
        weak var binding: ImageBinding?
        let row: Int
    }

    private final class Row: @unchecked Sendable {
        var tasks: [ImageTask] = []
        var isUrgent: Bool
        var hasFailed = false

        init(isUrgent: Bool) { self.isUrgent = isUrgent }

        var isPrefetching: Bool { !isUrgent && !tasks.isEmpty }
    }

    private let cache: ImageCache
    private let maxPrefetches: Int
    private let time: TimeSource
    private let plan: Mutex<Plan>

    private let queue = DispatchQueue(label: "dipper.list")
    private let timers = DispatchQueue(label: "dipper.list.timers")
    private var arrangement: Arrangement
    private var rows: [Int: Row] = [:]
    /// The number of nearby rows that have been looked at since the last arrangement.
    private var cursor = 0

    /// Creates a loader for a list without visible rows.
    ///
    /// The closure returns the requests for the pictures of a row. It is called on a background queue, also for a
    /// moment after ``reload(count:requests:)``, and on the displays' queue: it must hold the data that it reads, and
    /// must not hold the loader. The clock measures the speed of the list.
    public init(
        _ cache: ImageCache = .shared, count: Int, options: ListOptions = ListOptions(),
        clock: any Clock<Duration> = ContinuousClock(), requests: @escaping @Sendable (Int) -> [ImageRequest]
    ) {
        self.cache = cache
        maxPrefetches = options.maxPrefetches
        time = TimeSource(clock)
        arrangement = Arrangement(window: ListWindow(count: count, options), requests: requests)
        plan = Mutex(Plan(arrangement: arrangement))
    }

    deinit {
        plan.withLock { $0.cancelRest }?()
        cancelAll()
    }

    /// Tells the loader that other rows are visible. If the list has displays, this method must be called on their
    /// queue.
    /// - Parameters:
    ///   - rows: the rows on screen, including those that are partly visible. The loader ignores rows outside the list.
    ///   - destination: the rows at which the list will come to rest, if the toolkit knows them.
    public func update(visible rows: Range<Int>, heading destination: Range<Int>? = nil) {
        let now = time.now()
        let cancelOld = plan.withLock { plan -> (@Sendable () -> Void)? in
            plan.arrangement.window.move(to: rows, heading: destination, at: now)
            guard let rest = plan.arrangement.window.restsAt else { return nil }
            return exchange(
                &plan.cancelRest, with: time.wake(at: rest, on: timers) { [weak self] in self?.restIfDue() })
        }
        cancelOld?()
        arrange()
        moveDisplays()
    }

    private func restIfDue() {
        let now = time.now()
        let isDue = plan.withLock { plan in
            guard let rest = plan.arrangement.window.restsAt, rest <= now else { return false }
            plan.arrangement.window.rest()
            return true
        }
        guard isDue else { return }
        arrange()
        bindings().first?.onQueue { [weak self] in self?.moveDisplays() }
    }

    /// Tells the loader that the list has other rows, replacing all calls. Displays must be attached again or detached.
    public func reload(count: Int, requests: @escaping @Sendable (Int) -> [ImageRequest]) {
        let old = plan.withLock { plan in
            let old = (plan.displays, plan.arrangement)
            plan.displays = [:]
            plan.arrangement.requests = requests
            plan.arrangement.generation += 1
            plan.arrangement.window.reload(count: count)
            return old
        }
        withExtendedLifetime(old) {}
        arrange()
    }

    // MARK: Calls

    /// Starts, moves and cancels calls, on the queue, so that they match the latest plan.
    private func arrange() {
        let isArranging = plan.withLock { exchange(&$0.isArranging, with: true) }
        if !isArranging { queue.async { [weak self] in self?.applyPlan() } }
    }

    private func applyPlan() {
        let latest = plan.withLock { plan in
            plan.isArranging = false
            return plan.arrangement
        }
        if arrangement.generation != latest.generation { cancelAll() }
        arrangement = latest
        cursor = 0
        demoteHiddenRows()
        for number in latest.window.wanted where rows[number]?.isUrgent != true { fetch(number, isUrgent: true) }
        prefetch()
    }

    private func cancelAll() {
        cancelTogether(exchange(&rows, with: [:]).values.flatMap(\.tasks))
    }

    private func demoteHiddenRows() {
        var ended: [ImageTask] = []
        for (number, row) in rows {
            switch arrangement.window.rank(of: number) {
            case .visible: break
            case .passing, .near:
                guard row.isUrgent else { break }
                // A row whose calls have not begun is requested again in its turn among the next rows.
                if !row.tasks.isEmpty, row.tasks.allSatisfy({ $0.state == .waiting }) {
                    ended += rows.removeValue(forKey: number)?.tasks ?? []
                } else {
                    row.isUrgent = false
                    for task in row.tasks { task.moveToSlowQueue() }
                }
            case .far: ended += rows.removeValue(forKey: number)?.tasks ?? []
            }
        }
        cancelTogether(ended)
    }

    private func fetch(_ number: Int, isUrgent: Bool) {
        let old = rows[number]
        if let old, old.tasks.isEmpty, !old.hasFailed {
            old.isUrgent = isUrgent
            return
        }
        let requests = arrangement.requests(number).map { $0.with(\.callbackQueue, .inPlace) }
        let row = Row(isUrgent: isUrgent)
        for task in requests.map({ isUrgent ? cache.getImage($0) : cache.slowGetImage($0) }) {
            switch task.outcome {
            case .success: break
            case .failure: row.hasFailed = true
            case nil: row.tasks.append(task)
            }
        }
        rows[number] = row
        for task in row.tasks {
            task.onEnd { [weak self, weak row, weak task] result in
                let hasFailed = if case .failure = result { true } else { false }
                self?.queue.async { [weak self, weak row, weak task] in self?.ended(number, row, task, hasFailed) }
            }
        }
        // The new calls have joined the work that the old calls waited for.
        for task in old?.tasks ?? [] { task.cancel() }
    }

    private func ended(_ number: Int, _ row: Row?, _ task: ImageTask?, _ hasFailed: Bool) {
        guard let row, rows[number] === row else { return }
        // A call that has ended still holds its picture.
        row.tasks.removeAll { $0 === task }
        if hasFailed { row.hasFailed = true }
        prefetch()
    }

    private func prefetch() {
        // Under severe pressure nothing is kept in memory, so fetching ahead is of no use.
        guard cache.memoryPressure < .severe else { return }
        let nearby = arrangement.window.nearby
        var free = maxPrefetches - rows.values.count(where: \.isPrefetching)
        while cursor < nearby.count, free > 0 {
            let number = nearby[nearby.index(nearby.startIndex, offsetBy: cursor)]
            cursor += 1
            guard rows[number] == nil else { continue }
            fetch(number, isUrgent: false)
            if rows[number]?.isPrefetching == true { free -= 1 }
        }
    }

    // MARK: Displays

    /// Shows a row's picture in a display, and tells the display's binding whether the row is on screen, until the
    /// display is attached to another row, or detached. Must be called on the displays' queue.
    ///
    /// Without a request, the picture is that of the row's first request; without options, those of the binding apply.
    /// The completion is called as by ``ImageBinding/setImage(_:placeholder:options:then:)-(ImageRequest?,_,_,_)``.
    public func attach(
        _ binding: ImageBinding, to row: Int, request: ImageRequest? = nil,
        placeholder: DisplayOptions.Placeholder? = nil,
        options: DisplayOptions? = nil, @_inheritActorContext then completion: ImageBinding.Completion? = nil
    ) {
        let (presence, requests, isRow) = plan.withLock { plan in
            plan.displays[ObjectIdentifier(binding)] = Attached(binding: binding, row: row)
            let isRow = (0..<plan.arrangement.window.count).contains(row)
            return (Self.presence(of: row, plan.arrangement.window), plan.arrangement.requests, isRow)
        }
        let options = (options ?? binding.options).with(\.loadsOffScreen, false).with(\.abandonment, .cancel)
        let wanted = request ?? (isRow ? requests(row).first : nil)
        binding.set(wanted, placeholder, options, presence, completion.map(onItsActor))
    }

    /// Tells the loader that a display no longer shows a row. Must be called on the display's queue.
    public func detach(_ binding: ImageBinding) {
        _ = plan.withLock { $0.displays.removeValue(forKey: ObjectIdentifier(binding)) }
        binding.move(to: .away)
    }

    /// Must be called on the displays' queue.
    private func moveDisplays() {
        for binding in bindings() {
            // Moving one display may change which rows the others show.
            let presence = plan.withLock { plan in
                plan.displays[ObjectIdentifier(binding)].map { Self.presence(of: $0.row, plan.arrangement.window) }
            }
            if let presence { binding.move(to: presence) }
        }
    }

    private func bindings() -> [ImageBinding] {
        let all = plan.withLock { plan in
            // A binding whose last reference is this one must end after the lock.
            let all = plan.displays.compactMapValues { $0.binding }
            plan.displays = plan.displays.filter { all[$0.key] != nil }
            return all
        }
        return Array(all.values)
    }

    private static func presence(of row: Int, _ window: ListWindow) -> DisplayState.Presence {
        switch window.rank(of: row) {
        case .visible: .visible
        case .passing: .passing
        // The loader fetches nearby rows itself, in its own order.
        case .near, .far: .away
        }
    }
}

/// The options with which a ``ListLoader`` fetches ahead. Every option has a default.
public struct ListOptions: Sendable, Hashable {
    /// The distance that is prefetched in the direction of the last movement, in screens: in numbers of visible rows.
    /// Until the list has moved, it is half of this on each side, or ``screensBehind`` if that is more.
    public var screensAhead = 2.0
    /// The distance behind the visible rows in which rows are still fetched, in screens.
    public var screensBehind = 1.0
    /// The shortest time for which rows of a fast list must be on screen to be fetched. Rows that pass faster are shown
    /// only if the cache has them: fetching them would delay the rows at which the list comes to rest.
    public var minimumDwell = Duration.milliseconds(250)
    /// The time after which a list that has not been updated counts as at rest.
    public var restsAfter = Duration.milliseconds(50)
    /// The number of rows with prefetches in progress from which on no further row is prefetched. A small number lets
    /// later prefetches begin where the list is by then.
    public var maxPrefetches = 2

    /// Creates the default options.
    public init() {}
}
