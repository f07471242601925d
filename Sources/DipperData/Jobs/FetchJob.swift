import Foundation
import Synchronization

/// The work behind one key: the source that is fetched, its attempts and their results.
final class FetchJob: SchedulableWork {
    let key: CacheKey
    /// The host of the URL that the job's first call asks for; empty if a provider brings the bytes.
    let host: String
    /// The identity of the job in the events of the cache.
    let identity = EventIdentity()
    /// The look-up and the attempt that are under way, for the events of the cache.
    let lookUpSpan = EventSpan()
    let attemptSpan = EventSpan()
    /// Whether a task wants to hear of the progress.
    let wantsProgress = Atomic(false)
    /// Whether a task wants to look at the bytes before all of them have arrived.
    let wantsBytes = Atomic(false)
    /// The bytes received of the present transfer's body.
    let received = Atomic<Int>(0)
    /// The bytes of this job that count towards the budget of all transfers.
    let held = Atomic<Int>(0)
    /// The bytes that an earlier attempt has left and that the present transfer does not continue.
    let besides = Atomic<Int>(0)
    /// The length of the present transfer's body, in bytes; negative if it is not known.
    let expected = Atomic<Int>(-1)
    private let state: Mutex<State>
    private weak let engine: FetchEngine?

    /// The answer of the tiers to a key.
    struct Found: Sendable {
        let value: StoredData
        let source: ResponseSource
        /// The key that it is kept under: the job's, or that of a variant.
        let place: CacheKey
        /// The task that fetches newer bytes for calls that are answered with these meanwhile.
        var revalidation: DataTask?
    }

    init(_ call: Call, _ engine: FetchEngine) {
        key = call.key
        host = call.request.url?.host(percentEncoded: false) ?? ""
        state = Mutex(State(sources: JobSources(call)))
        self.engine = engine
    }

    deinit {
        engine?.ended(held: held.load(ordering: .relaxed), parked: state.withLock { $0.findings.parked })
    }

    /// The progress of the present transfer; `nil` before the first byte.
    var progress: TaskProgress? {
        let received = received.load(ordering: .relaxed)
        let expected = expected.load(ordering: .relaxed)
        return received > 0 ? TaskProgress(received: received, expected: expected < 0 ? nil : expected) : nil
    }

    /// A copy of the state now, for readers of several of its parts.
    var snapshot: State { withState { $0 } }

    func withState<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        state.withLock { state -> Result in body(&state) }
    }
}
