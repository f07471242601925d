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
/// cancelled without affecting the others. It does not keep the loader alive.
final class Revalidation: Sendable {
    private let bytes: DataTask
    private weak let loader: ImageLoader?
    private let makeTask: @Sendable (ImageLoader?) -> ImageTask
    private let own = Mutex<ImageTask?>(nil)

    /// Creates an answer's part in a fetch.
    /// - Parameter answered: the call that was answered with a picture that is out of date. That call holds the answer,
    ///   and with it this object, so this object does not hold the call.
    init(_ answered: ImageTask, _ bytes: DataTask, _ loader: ImageLoader) {
        makeTask = answered.renewal
        self.bytes = bytes
        self.loader = loader
    }

    /// The task of this part. If the cache has been released before the task is made, the task ends with `shutDown`.
    var task: ImageTask {
        let loader = loader
        let newer = makeTask(loader)
        loader?.live.add(newer)
        let present = own.withLock { own in
            if own == nil { own = newer }
            return own ?? newer
        }
        if present !== newer {
            loader?.live.remove(newer)
        } else if let loader {
            loader.follow(bytes, for: newer, derived: nil)
        } else {
            newer.finish(.failure(.shutDown))
        }
        return present
    }
}

extension ImageTask {
    /// A closure that makes a call like this one for a newer picture. It does not keep this call alive.
    var renewal: @Sendable (ImageLoader?) -> ImageTask {
        { [request, askedKey, key, imageKey, options, callbackQueue] loader in
            ImageTask(
                request, askedKey: askedKey, key: key, imageKey: imageKey, options: options, queue: .slow,
                callbackQueue: callbackQueue, loader: loader, ownsFetch: false)
        }
    }
}
