import Synchronization

/// The revalidations under way, at most one for each picture: those who show what is out of date share it.
final class Revalidations: Sendable {
    private let fetches = Mutex<[CacheKey: (bytes: DataTask, maker: ImageTask)]>([:])

    /// The fetch for a picture, by the picture's name in memory.
    subscript(key: CacheKey) -> DataTask? { fetches.withLock { $0[key]?.bytes } }

    /// Puts a fetch in place, unless there is one.
    /// - Parameter maker: waits for the fetch, and has the picture made.
    /// - Returns: the fetch that is in place.
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

/// One answer's part in a revalidation: a task of its own once somebody asks for it, which can be cancelled without the
/// others.
final class Revalidation: Sendable {
    private let answered: ImageTask
    private let bytes: DataTask
    private let loader: ImageLoader
    private let own = Mutex<ImageTask?>(nil)

    /// - Parameter answered: the call that was answered with what is out of date.
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
