/// The queue of a call, which says how soon its result is needed. The cases are in the order of urgency.
///
/// ```swift
/// if task.queue == .slow { cache.getData(url) }       // urgent now: the same fetch
/// ```
public enum FetchQueue: String, Sendable, Hashable, CaseIterable {
    /// `fastQueue`, for calls whose result someone waits for: jobs run at once, many at a time.
    case fast
    /// `slowQueue`, for calls whose result may be needed later: by default jobs run one at a time, and only while no
    /// job waits or runs in ``fast``.
    case slow
}
