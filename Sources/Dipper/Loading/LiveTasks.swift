import Synchronization

/// The calls that have not ended, by the key of the bytes that were asked for.
final class LiveTasks: Sendable {
    private let tasks = Mutex<[CacheKey: [ObjectIdentifier: ImageTask]]>([:])

    func add(_ task: ImageTask) {
        tasks.withLock { $0[task.askedKey, default: [:]][ObjectIdentifier(task)] = task }
    }

    func remove(_ task: ImageTask) {
        tasks.withLock { tasks in
            tasks[task.askedKey]?[ObjectIdentifier(task)] = nil
            if tasks[task.askedKey]?.isEmpty == true { tasks[task.askedKey] = nil }
        }
    }

    subscript(key: CacheKey) -> [ImageTask] { tasks.withLock { $0[key].map { Array($0.values) } ?? [] } }
    var all: [ImageTask] { tasks.withLock { $0.values.flatMap(\.values) } }
}
