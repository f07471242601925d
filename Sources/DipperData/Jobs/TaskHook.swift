/// A closure that a task calls with its events. ``FetchTask`` has a method for each kind of hook.
public enum TaskHook<Response: Sendable>: Sendable {
    /// A closure for the end; see ``FetchTask/onEnd(_:)``.
    case end(@Sendable (Result<Response, DipperError>) -> Void)
    /// A closure for each failure; see ``FetchTask/onFail(_:)``.
    case failure(@Sendable (DipperError, Bool) -> Void)
    /// A closure for each new attempt; see ``FetchTask/onRetry(_:)``.
    case retry(@Sendable () -> Void)
    /// A closure for the arrival of bytes; see ``FetchTask/onProgress(_:)``.
    case progress(@Sendable (TaskProgress) -> Void)
}
