import DequeModule

/// The requests of a prefetcher that wait, run and have ended. A value, without a lock or a cache.
struct PrefetchState<Request: Sendable>: Sendable {
    private enum Phase {
        case idle, started, ended
    }

    private var phase = Phase.idle
    private var waiting: Deque<Request>
    private var running: [Int: Request] = [:]
    /// The running requests that wait for the network or for their next attempt. They hold no place.
    private var parked: Set<Int> = []
    private var next = 0
    private let maxOutstanding: Int
    /// The number of parked requests from which on no more requests are taken, because each of them holds memory.
    static var maxParked: Int { 256 }
    var isPaused = false
    private(set) var result = PrefetchResult<Request>()
    private(set) var progress = PrefetchProgress()
    private(set) var isStopped = false

    init(_ requests: [Request], maxOutstanding: Int) {
        waiting = Deque(requests)
        self.maxOutstanding = max(1, maxOutstanding)
        progress.total = requests.count
    }

    var hasEnded: Bool { phase == .ended }
    var mayTake: Bool {
        // mutant Prefetch: `ed && !isPaused && !waiting` => `ed && !waiting`
        phase == .started && !isPaused && !waiting.isEmpty && parked.count < Self.maxParked
            && running.count - parked.count < maxOutstanding
    }

    mutating func start() {
        if phase == .idle { phase = .started }
        endIfDone()
    }

    /// Adds requests behind those that wait.
    /// - Returns: false, and nothing is added, if the prefetcher has ended.
    mutating func add(_ requests: [Request]) -> Bool {
        guard phase != .ended else { return false }
        waiting.append(contentsOf: requests)
        progress.total += requests.count
        return true
    }

    /// Takes the next request. Returns it with the number by which it is ended.
    mutating func take() -> (number: Int, request: Request)? {
        guard mayTake, let request = waiting.popFirst() else { return nil }
        next += 1
        running[next] = request
        return (next, request)
    }

    func isRunning(_ number: Int) -> Bool { running[number] != nil }

    /// Notes that the call of a request waits, and holds no place meanwhile.
    mutating func park(_ number: Int) {
        if isRunning(number) { parked.insert(number) }
    }

    /// Notes that the call of a request goes on, even if all places are taken.
    mutating func unpark(_ number: Int) { parked.remove(number) }

    /// Ends a request that the cache can answer already.
    mutating func skip(_ number: Int) {
        guard let request = leave(number) else { return }
        progress.skipped += 1
        result.skipped.append(request)
        endIfDone()
    }

    /// Ends a request whose call has ended.
    mutating func end(_ number: Int, _ error: DipperError?) {
        guard let request = leave(number) else { return }
        if let error {
            progress.failed += 1
            result.failed.append(.init(request: request, error: error))
        } else {
            progress.completed += 1
            result.completed.append(request)
        }
        endIfDone()
    }

    mutating func stop() {
        guard phase != .ended else { return }
        isStopped = true
        phase = .ended
        result.remaining = running.sorted { $0.key < $1.key }.map(\.value) + waiting
        running = [:]
        parked = []
        waiting = []
    }

    private mutating func leave(_ number: Int) -> Request? {
        parked.remove(number)
        return running.removeValue(forKey: number)
    }

    private mutating func endIfDone() {
        if phase == .started, waiting.isEmpty, running.isEmpty { phase = .ended }
    }
}
