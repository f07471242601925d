/// How soon a result is needed.
public enum Lane: String, Sendable, Hashable, CaseIterable {
    /// Someone is looking: runs at once, many at a time.
    case fast
    /// Someone may look later: one at a time, and only while nothing in the fast lane is waiting or running.
    case slow
}
