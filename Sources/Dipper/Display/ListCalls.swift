import DipperData
import Dispatch

struct ListArrangement: Sendable {
    var window: ListWindow
    var requests: @Sendable (Int) -> [ImageRequest]
    /// Increases when the list's rows are replaced.
    var generation = 0
}

/// The calls of a ``ListLoader``, which follow its window.
// Safe to share, because everything that changes is used on the queue alone.
final class ListCalls: @unchecked Sendable {
    private final class Row: @unchecked Sendable {
        var tasks: [ImageTask] = []
        var isUrgent: Bool
        var hasFailed = false

        init(isUrgent: Bool) { self.isUrgent = isUrgent }
    }

    private let cache: ImageCache
    private let maxPrefetches: Int
    private let queue = DispatchQueue(label: "dipper.list")
    private var rows: [Int: Row] = [:]
    private var prefetching: Set<Int> = []
    private var arrangement: ListArrangement?
    /// The number of nearby rows that have been looked at since the last arrangement.
    private var cursor = 0
    private var hasEnded = false

    init(_ cache: ImageCache, maxPrefetches: Int) {
        self.cache = cache
        self.maxPrefetches = maxPrefetches
    }

    /// Starts, moves and cancels calls, on the queue, so that they match the latest arrangement.
    func arrange(_ latest: @escaping @Sendable () -> ListArrangement?) {
        queue.async { [self] in
            guard let latest = latest(), !hasEnded else { return }
            if let arrangement, arrangement.generation != latest.generation { cancelAll() }
            arrangement = latest
            cursor = 0
            letGo(latest.window)
            for number in latest.window.wanted where rows[number]?.isUrgent != true {
                ask(for: number, isUrgent: true, latest)
            }
            prefetch(latest)
        }
    }

    func end() {
        queue.async { [self] in
            hasEnded = true
            cancelAll()
        }
    }

    private func cancelAll() {
        prefetching = []
        for row in exchange(&rows, with: [:]).values { for task in row.tasks { task.cancel() } }
    }

    private func letGo(_ window: ListWindow) {
        for (number, row) in rows {
            switch window.rank(of: number) {
            case .visible: break
            case .passing, .near:
                guard row.isUrgent else { break }
                // A row whose calls have not begun is requested again in its turn among the next rows.
                if !row.tasks.isEmpty, row.tasks.allSatisfy({ $0.state == .waiting }) {
                    forget(number)
                } else {
                    row.isUrgent = false
                    if !row.tasks.isEmpty { prefetching.insert(number) }
                    for task in row.tasks { task.moveToSlowQueue() }
                }
            case .far: forget(number)
            }
        }
    }

    private func forget(_ number: Int) {
        prefetching.remove(number)
        for task in rows.removeValue(forKey: number)?.tasks ?? [] { task.cancel() }
    }

    private func ask(for number: Int, isUrgent: Bool, _ arrangement: ListArrangement) {
        let old = rows[number]
        if let old, old.tasks.isEmpty, !old.hasFailed {
            old.isUrgent = isUrgent
            return
        }
        let requests = arrangement.requests(number).map { $0.with(\.callbackQueue, .inPlace) }
        let row = Row(isUrgent: isUrgent)
        for task in requests.map({ isUrgent ? cache.getImage($0) : cache.slowGetImage($0) }) {
            switch task.answer {
            case .success: break
            case .failure: row.hasFailed = true
            case nil: row.tasks.append(task)
            }
        }
        rows[number] = row
        if isUrgent || row.tasks.isEmpty { prefetching.remove(number) } else { prefetching.insert(number) }
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
        if row.tasks.isEmpty { prefetching.remove(number) }
        if let arrangement, !hasEnded { prefetch(arrangement) }
    }

    private func prefetch(_ arrangement: ListArrangement) {
        // Under severe pressure nothing is kept in memory, so fetching ahead is of no use.
        guard cache.memoryPressure < .severe else { return }
        let nearby = arrangement.window.nearby
        while cursor < nearby.count, prefetching.count < maxPrefetches {
            let number = nearby[nearby.index(nearby.startIndex, offsetBy: cursor)]
            cursor += 1
            if rows[number] == nil { ask(for: number, isUrgent: false, arrangement) }
        }
    }
}
