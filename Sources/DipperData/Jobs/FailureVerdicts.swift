/// The verdicts on all calls that wait for a job whose attempt has failed.
struct FailureVerdicts: Sendable {
    /// The calls that end with the failure.
    private(set) var ending: [TaskID] = []
    /// The calls that end with what the cache has.
    private(set) var answered: [TaskID] = []
    /// The longest times for which calls wait for the network.
    private(set) var limits: [TaskID: Duration] = [:]
    /// The shortest wait that a call asks for before the next attempt.
    private(set) var delay: Duration?
    private var count = 0

    mutating func add(_ verdict: FailureVerdict, on id: TaskID) {
        count += 1
        switch verdict {
        case .end: ending.append(id)
        case .takeKept: answered.append(id)
        case .retry(let wait): delay = min(delay ?? wait, wait)
        case .waitForNetwork(let limit): limits[id] = limit
        }
    }

    /// Whether no call waits for the present source any more, and at least one call has no answer.
    var asksForNextSource: Bool { ending.count + answered.count == count && !ending.isEmpty }

    /// Lets calls wait for the next source instead of ending with the failure.
    /// - Parameter others: the calls that the next source is not for, which end.
    mutating func goOn(without others: Set<TaskID>) {
        ending.removeAll { !others.contains($0) }
    }
}
