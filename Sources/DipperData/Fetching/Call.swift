/// What never changes of one call; shared by its task and by the job it makes.
final class Call: Sendable {
    let request: DataRequest
    let key: CacheKey
    private let defaults: Defaults

    /// What holds where requests say nothing.
    final class Defaults: Sendable {
        let retryPolicy: RetryPolicy
        let timeout: Duration?
        let queue: CallbackQueue

        init(retryPolicy: RetryPolicy, timeout: Duration?, queue: CallbackQueue) {
            self.retryPolicy = retryPolicy
            self.timeout = timeout
            self.queue = queue
        }
    }

    init(_ request: DataRequest, key: CacheKey, defaults: Defaults) {
        self.request = request
        self.key = key
        self.defaults = defaults
    }

    var retryPolicy: RetryPolicy { request.retryPolicy ?? defaults.retryPolicy }
    var timeout: Duration? { request.timeout ?? defaults.timeout }
    var queue: CallbackQueue { request.callbackQueue ?? defaults.queue }
}
