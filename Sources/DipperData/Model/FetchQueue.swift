/// How soon a result is needed. The cases are in the order of urgency.
public enum FetchQueue: String, Sendable, Hashable, CaseIterable {
    /// Someone is looking: runs at once, many at a time.
    case fast
    /// Someone may look later: runs one at a time, and only while nothing in ``fast`` is waiting or running.
    case slow
}
