import Synchronization

/// The revalidations in progress, at most one for each picture: all calls that were answered with a picture that is out
/// of date share it.
final class Revalidations: Sendable {
    private let fetches = Mutex<[CacheKey: (bytes: DataTask, maker: ImageTask)]>([:])

    /// The fetch for the picture with a memory key.
    subscript(key: CacheKey) -> DataTask? { fetches.withLock { $0[key]?.bytes } }

    /// Adds a fetch, unless there is already one for the picture.
    /// - Parameter maker: the task that waits for the fetch and has the picture made.
    /// - Returns: the fetch that is in the table now.
    func add(_ bytes: DataTask, _ maker: ImageTask) -> DataTask {
        fetches.withLock { fetches in
            if let present = fetches[maker.memoryKey] { return present.bytes }
            fetches[maker.memoryKey] = (bytes, maker)
            return bytes
        }
    }

    func remove(_ maker: ImageTask) {
        let dropped = fetches.withLock { fetches in
            fetches[maker.memoryKey]?.maker === maker ? fetches.removeValue(forKey: maker.memoryKey) : nil
        }
        _ = consume dropped
    }
}

/// One answer's part in a revalidation. It becomes a task of its own when the caller asks for it, and that task can be
/// cancelled without affecting the others.
final class Revalidation: Sendable {
    private let answered: ImageTask
    private let bytes: DataTask
    private let loader: ImageLoader
    private let own = Mutex<ImageTask?>(nil)

    /// Creates an answer's part in a fetch.
    /// - Parameter answered: the call that was answered with a picture that is out of date.
    init(_ answered: ImageTask, _ bytes: DataTask, _ loader: ImageLoader) {
        self.answered = answered
        self.bytes = bytes
        self.loader = loader
    }

    var task: ImageTask {
        let newer = loader.revalidationTask(like: answered)
        let present = own.withLock { own in
            if own == nil { own = newer }
            return own ?? newer
        }
        if present === newer { loader.follow(bytes, for: newer, derived: nil) } else { loader.live.remove(newer) }
        return present
    }
}
