import Foundation
import Synchronization

/// The work behind one key: what is fetched, its attempts, and what came of them.
final class FetchJob: SchedulableWork {
    /// The call that came first: its URL, headers and expirations are the job's.
    let call: Call
    /// Someone wants to hear how far the transfer has come.
    let wantsProgress = Atomic(false)
    private let state: Mutex<State>

    struct State {
        var transfer: (any Transfer)?
        /// An attempt has begun and not ended; it may end before its transfer is known here.
        var isTransferring = false
        var attempts = 0
        /// What the disk tier had, and what the network delivered.
        var cached: DataResponse?
        var fetched: DataResponse?
        var failure: DipperError?
        /// Someone will have nothing but what the network says now.
        var insistsOnNetwork = false
        var keepsOnDisk = false
        var hasTimeLimits = false
        /// Calls whose end waits for the disk write.
        var isWritten = true
        var whenWritten: [@Sendable () -> Void] = []
        var budget = TimeBudget()
        var lastProgress: Duration?
    }

    init(_ call: Call) {
        self.call = call
        state = Mutex(State())
    }

    var key: CacheKey { call.key }
    var request: DataRequest { call.request }
    var host: String { request.url?.host(percentEncoded: false) ?? "" }

    func withState<Result>(_ body: (inout sending State) throws -> sending Result) rethrows -> Result {
        try state.withLock(body)
    }

}

/// Time spent on a fetch since its first attempt, without the time it was held back or had no network.
struct TimeBudget: Sendable {
    private var counted = Duration.zero
    private var runningSince: Duration?

    private(set) var hasStarted = false

    mutating func run(at now: Duration) {
        hasStarted = true
        if runningSince == nil { runningSince = now }
    }

    mutating func hold(at now: Duration) {
        if let runningSince { counted += now - runningSince }
        runningSince = nil
    }

    func spent(at now: Duration) -> Duration {
        counted + (runningSince.map { now - $0 } ?? .zero)
    }
}
