/// The consequence of a failed attempt for one waiting call.
enum FailureVerdict: Hashable, Sendable {
    /// The call ends with the failure.
    case end
    /// The call ends with what the cache has, although it is out of date.
    case takeKept
    /// The call waits at least this long for the next attempt.
    case retry(after: Duration)
    /// The call waits at most this long for the network to return; with `nil`, for ever.
    case waitForNetwork(Duration?)
}
