import Synchronization

/// The calls that have not ended, by the key of their bytes.
final class LiveTasks: Sendable {
    private let tasks = Mutex<[CacheKey: [ObjectIdentifier: ImageTask]]>([:])

    func add(_ task: ImageTask) {
        tasks.withLock { $0[task.key, default: [:]][ObjectIdentifier(task)] = task }
    }

    func remove(_ task: ImageTask) {
        tasks.withLock { tasks in
            tasks[task.key]?[ObjectIdentifier(task)] = nil
            if tasks[task.key]?.isEmpty == true { tasks[task.key] = nil }
        }
    }

    subscript(key: CacheKey) -> [ImageTask] { tasks.withLock { $0[key].map { Array($0.values) } ?? [] } }
    var all: [ImageTask] { tasks.withLock { $0.values.flatMap(\.values) } }
}
