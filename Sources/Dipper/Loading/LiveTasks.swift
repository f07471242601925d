import Synchronization

/// The calls that have not ended, by the key of the requested bytes, and by the key of the bytes that are fetched in
/// their place.
final class LiveTasks: Sendable {
    private typealias Tasks = [CacheKey: [ObjectIdentifier: ImageTask]]

    private struct State: Sendable {
        var asked: Tasks = [:]
        /// The tasks for which a smaller source is fetched, by the key of that source.
        var replaced: Tasks = [:]
    }

    private let state = Mutex(State())

    func add(_ task: ImageTask) {
        state.withLock { state in
            state.asked[task.askedKey, default: [:]][ObjectIdentifier(task)] = task
            if task.key != task.askedKey { state.replaced[task.key, default: [:]][ObjectIdentifier(task)] = task }
        }
    }

    func remove(_ task: ImageTask) {
        state.withLock { state in
            Self.remove(task, task.askedKey, from: &state.asked)
            if task.key != task.askedKey { Self.remove(task, task.key, from: &state.replaced) }
        }
    }

    private static func remove(_ task: ImageTask, _ key: CacheKey, from tasks: inout Tasks) {
        tasks[key]?[ObjectIdentifier(task)] = nil
        if tasks[key]?.isEmpty == true { tasks[key] = nil }
    }

    subscript(key: CacheKey) -> [ImageTask] {
        state.withLock { state in [state.asked[key], state.replaced[key]].flatMap { $0.map { Array($0.values) } ?? [] }
        }
    }

    var all: [ImageTask] { state.withLock { $0.asked.values.flatMap(\.values) } }
}
