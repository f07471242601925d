import DipperData
import Dispatch
import Synchronization

/// The calls of a ``ListLoader``: makes those that a window wants, and no others.
final class ListCalls: Sendable {
    /// The calls for one row.
    private struct Row {
        var tasks: [ImageTask]
        var isUrgent: Bool
        /// Those that have not ended.
        var open: Int
        /// Tells these calls from others for the row.
        let number: Int
    }

    // Touched on the queue alone.
    private final class Work: @unchecked Sendable {
        var rows: [Int: Row] = [:]
        var window: ListWindow?
        var number = 0
        var hasEnded = false
    }

    private let cache: ImageCache
    private let maxPrefetches: Int
    private let requests: @Sendable (Int) -> [ImageRequest]
    private let work = Work()
    private let queue = DispatchQueue(label: "dipper.list")

    init(_ cache: ImageCache, maxPrefetches: Int, _ requests: @escaping @Sendable (Int) -> [ImageRequest]) {
        self.cache = cache
        self.maxPrefetches = maxPrefetches
        self.requests = requests
    }

    /// Brings the calls into line with a window, soon.
    func arrange(_ window: @escaping @Sendable () -> ListWindow?) {
        queue.async { [self] in
            guard let window = window(), !work.hasEnded else { return }
            work.window = window
            letGo(window)
            for row in window.wanted where work.rows[row]?.isUrgent != true { ask(for: row, isUrgent: true) }
            prefetch(window)
        }
    }

    func cancelAll() {
        queue.async { [self] in
            for row in work.rows.values { for task in row.tasks { task.cancel() } }
            work.rows = [:]
        }
    }

    func end() {
        queue.async { [self] in work.hasEnded = true }
        cancelAll()
    }

    /// Demotes what can no longer be seen, and cancels what is far away.
    private func letGo(_ window: ListWindow) {
        for (number, row) in work.rows {
            switch window.rank(of: number) {
            case .visible: break
            case .passing, .near:
                guard row.isUrgent else { break }
                work.rows[number]?.isUrgent = false
                for task in row.tasks { task.moveToSlowQueue() }
            case .far:
                work.rows[number] = nil
                for task in row.tasks { task.cancel() }
            }
        }
    }

    private func ask(for number: Int, isUrgent: Bool) {
        let old = work.rows[number]
        if let old, old.open == 0 {
            work.rows[number]?.isUrgent = isUrgent
            return
        }
        let requests = requests(number).map { $0.with(\.callbackQueue, .inPlace) }
        work.number += 1
        let id = work.number
        let tasks = requests.map { isUrgent ? cache.getImage($0) : cache.slowGetImage($0) }
        work.rows[number] = Row(tasks: tasks, isUrgent: isUrgent, open: tasks.count, number: id)
        for task in tasks {
            task.onEnd { [weak self] _ in self?.end(of: number, id) }
        }
        // They have joined what the old ones were waiting for.
        for task in old?.tasks ?? [] { task.cancel() }
    }

    private func end(of row: Int, _ id: Int) {
        queue.async { [weak self] in self?.ended(row, id) }
    }

    private func ended(_ number: Int, _ id: Int) {
        guard work.rows[number]?.number == id else { return }
        work.rows[number]?.open -= 1
        if let window = work.window, !work.hasEnded { prefetch(window) }
    }

    private func prefetch(_ window: ListWindow) {
        var open = work.rows.values.count { !$0.isUrgent && $0.open > 0 }
        for row in window.nearby where work.rows[row] == nil {
            guard open < maxPrefetches else { return }
            ask(for: row, isUrgent: false)
            open += 1
        }
    }
}
