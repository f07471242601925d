import DipperData
import Dispatch
import Synchronization

/// The rows and requests of a list at one time.
struct ListArrangement: Sendable {
    var window: ListWindow
    var requests: @Sendable (Int) -> [ImageRequest]
    /// Increases when the list's rows are replaced.
    var generation = 0
}

/// The calls of a ``ListLoader``, which follow its window.
final class ListCalls: Sendable {
    private struct Row {
        /// Calls that have not ended.
        var tasks: [ImageTask] = []
        var isUrgent: Bool
        var hasFailed = false
        /// Distinguishes these calls from later calls for the row.
        let number: Int
    }

    // Safe to share, because it is used on the queue alone.
    private final class Work: @unchecked Sendable {
        var rows: [Int: Row] = [:]
        var prefetching: Set<Int> = []
        var arrangement: ListArrangement?
        /// The number of nearby rows that have been looked at since the last arrangement.
        var cursor = 0
        var number = 0
        var hasEnded = false
    }

    private let cache: ImageCache
    private let maxPrefetches: Int
    private let work = Work()
    private let queue = DispatchQueue(label: "dipper.list")

    init(_ cache: ImageCache, maxPrefetches: Int) {
        self.cache = cache
        self.maxPrefetches = maxPrefetches
    }

    /// Starts, moves and cancels calls, on the queue, so that they match the latest arrangement.
    func arrange(_ latest: @escaping @Sendable () -> ListArrangement?) {
        queue.async { [self] in
            guard let latest = latest(), !work.hasEnded else { return }
            if let old = work.arrangement, old.generation != latest.generation { cancelAll() }
            work.arrangement = latest
            work.cursor = 0
            letGo(latest.window)
            for row in latest.window.wanted where work.rows[row]?.isUrgent != true {
                ask(for: row, isUrgent: true, latest)
            }
            prefetch(latest)
        }
    }

    func end() {
        queue.async { [self] in
            work.hasEnded = true
            cancelAll()
        }
    }

    private func cancelAll() {
        let rows = exchange(&work.rows, with: [:])
        work.prefetching = []
        for row in rows.values { for task in row.tasks { task.cancel() } }
    }

    private func letGo(_ window: ListWindow) {
        for (number, row) in work.rows {
            switch window.rank(of: number) {
            case .visible: break
            case .passing, .near:
                guard row.isUrgent else { break }
                // A row whose calls have not begun is requested again in its turn among the next rows.
                if !row.tasks.isEmpty, row.tasks.allSatisfy({ $0.state == .waiting }) {
                    forget(number)
                } else {
                    work.rows[number]?.isUrgent = false
                    if !row.tasks.isEmpty { work.prefetching.insert(number) }
                    for task in row.tasks { task.moveToSlowQueue() }
                }
            case .far: forget(number)
            }
        }
    }

    private func forget(_ number: Int) {
        work.prefetching.remove(number)
        for task in work.rows.removeValue(forKey: number)?.tasks ?? [] { task.cancel() }
    }

    private func ask(for number: Int, isUrgent: Bool, _ arrangement: ListArrangement) {
        let old = work.rows[number]
        if let old, old.tasks.isEmpty, !old.hasFailed {
            work.rows[number]?.isUrgent = isUrgent
            return
        }
        let requests = arrangement.requests(number).map { $0.with(\.callbackQueue, .inPlace) }
        work.number += 1
        let id = work.number
        var row = Row(isUrgent: isUrgent, number: id)
        for task in requests.map({ isUrgent ? cache.getImage($0) : cache.slowGetImage($0) }) {
            switch task.answer {
            case .success: break
            case .failure: row.hasFailed = true
            case nil: row.tasks.append(task)
            }
        }
        work.rows[number] = row
        if isUrgent || row.tasks.isEmpty { work.prefetching.remove(number) } else { work.prefetching.insert(number) }
        for task in row.tasks { task.onEnd { [weak self, weak task] in self?.end(of: number, id, task, $0) } }
        // The new calls have joined the work that the old calls waited for.
        for task in old?.tasks ?? [] { task.cancel() }
    }

    private func end(
        of row: Int, _ id: Int, _ task: ImageTask?, _ result: Result<ImageResponse, DipperError>
    ) {
        let hasFailed = if case .failure = result { true } else { false }
        queue.async { [weak self, weak task] in self?.ended(row, id, task, hasFailed) }
    }

    private func ended(_ number: Int, _ id: Int, _ task: ImageTask?, _ hasFailed: Bool) {
        guard work.rows[number]?.number == id else { return }
        // A call that has ended still holds its picture.
        work.rows[number]?.tasks.removeAll { $0 === task }
        if hasFailed { work.rows[number]?.hasFailed = true }
        if work.rows[number]?.tasks.isEmpty == true { work.prefetching.remove(number) }
        if let arrangement = work.arrangement, !work.hasEnded { prefetch(arrangement) }
    }

    private func prefetch(_ arrangement: ListArrangement) {
        // Under severe pressure nothing is kept in memory, so fetching ahead is of no use.
        guard cache.memoryPressure < .severe else { return }
        let nearby = arrangement.window.nearby
        while work.cursor < nearby.count, work.prefetching.count < maxPrefetches {
            let row = nearby[nearby.index(nearby.startIndex, offsetBy: work.cursor)]
            work.cursor += 1
            if work.rows[row] == nil { ask(for: row, isUrgent: false, arrangement) }
        }
    }
}
