import DipperData
import Synchronization

/// One answer's part in the fetch of a newer picture, which is made whether anyone waits for it or not. The part becomes
/// a task of its own when the caller asks for it, and that task can be cancelled without affecting the others. It does
/// not keep the cache alive.
final class Revalidation: Sendable {
    private weak let objects: ImageObjects?
    private let origin: FetchOrigin
    private let path: [ImageStep]
    private let makeTask: @Sendable () -> ImageTask
    private let own = AtomicLazyReference<ImageTask>()

    /// Creates an answer's part in a fetch, and has the picture made.
    /// - Parameters:
    ///   - answered: the call that was answered with a picture that is out of date. That call holds the answer, and
    ///     with it this object, so this object does not hold the call.
    ///   - origin: the request that was answered.
    ///   - claim: the right to keep what is made, if the fetch has begun; `nil` if it has not.
    ///   - fetch: begins the fetch, or returns the one that has begun.
    init(
        _ answered: ImageTask, _ objects: ImageObjects, _ origin: FetchOrigin, _ path: [ImageStep],
        _ claim: Claim? = nil, _ fetch: () -> DataTask
    ) {
        self.objects = objects
        self.path = path
        makeTask = { [request = answered.request, options = answered.options, queue = answered.callbackQueue] in
            ImageTask(request, key: origin.request.cacheKey, options: options, queue: .slow, callbackQueue: queue)
        }
        self.origin = objects.follow(origin, path, answered.options, claim, fetch)
    }

    /// The task of this part. If the cache has been released before the task is made, the task ends with `shutDown`.
    var task: ImageTask {
        if let own = own.load() { return own }
        let made = makeTask()
        let task = own.storeIfNil(made)
        guard task === made else { return task }
        if let objects { task.start(objects, origin, path) } else { task.finish(.failure(.shutDown)) }
        return task
    }
}
