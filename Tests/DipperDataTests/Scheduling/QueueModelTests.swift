import TestSupport
import Testing

@testable import DipperData

@Suite("The queues against a naive model", .timeLimit(.minutes(2)))
struct QueueModelTests {
    #if DEBUG
        private static let operations = workload(1_000)
    #else
        private static let operations = workload(50_000)
    #endif

    @Test("the rules hold over random operations", arguments: [0, 1, 2, 3])
    func randomOperations(run: Int) {
        var walk = QueueWalk(run)
        for _ in 0..<Self.operations {
            walk.step()
            if walk.hasFailed { return }
        }
        walk.drain()
        #expect(walk.live.isEmpty, "calls that never ended: \(walk.live.keys)")
        #expect(walk.queues.jobCount == 0 && walk.queues.counts == QueueCounts())
    }
}

/// Drives the queues at random, and compares what they do with the rules in the plainest words.
private struct QueueWalk {
    typealias Queues = QueueScheduler<Int, TestWork>

    struct Call {
        let number: Int
        var queue: FetchQueue
        let reads: Bool
        let fetches: Bool
    }

    struct Fetch {
        var calls: [Call]
        /// Whether it has failed and has not begun again since.
        var isParked = false
        var queue: FetchQueue { calls.contains { $0.queue == .fast } ? .fast : .slow }
    }

    var queues: Queues
    private var random: SeededRandom
    private(set) var hasFailed = false
    private var model: [String: Fetch] = [:]
    /// The calls that have not ended.
    private(set) var live: [Int: (name: String, id: TaskID)] = [:]
    private var ended: Set<Int> = []
    private var next = 0
    private var ids: [String: JobID] = [:]
    private var transfers: [String: (queue: FetchQueue, isThrottled: Bool)] = [:]
    private var lookUps: Set<String> = []
    private var timers: [(id: JobID, token: UInt32)] = []
    private var offline: Set<String> = []
    /// The fetches that held a slot of slowQueue after the last event.
    private var holders: Set<String> = []
    private let seed: Int
    private let maxFast: Int
    private let maxSlow: Int
    private let maxPerHost: Int?

    init(_ run: Int) {
        seed = run
        random = SeededRandom(UInt64(run))
        maxFast = [1, 2, 3, 8][run]
        maxSlow = [1, 1, 2, 1][run]
        maxPerHost = [nil, 1, nil, 2][run]
        queues = Queues(
            fast: QueueConfiguration(maxConcurrent: maxFast, maxPerHost: maxPerHost),
            slow: QueueConfiguration(maxConcurrent: maxSlow), leastCapacity: 4)
    }

    mutating func step() {
        let name = "k\(random.below(24))"
        switch random.below(20) {
        case 0...9 where live.count > 60: answerTransfer(fails: false)
        case 0...5: submit(name, .fast)
        case 6...9: submit(name, .slow)
        case 10, 11: answerTransfer(fails: false)
        case 12: answerTransfer(fails: true)
        case 13, 14: answerLookUp()
        case 15:
            for index in model[name]?.calls.indices ?? 0..<0 { model[name]?.calls[index].queue = .slow }
            event { $0.demote(CacheKey(name), into: &$1) }
        case 16:
            guard let (number, call) = someCall else { return }
            remove(number, call.name)
            event { $0.cancel(call.id, into: &$1) }
        case 17 where random.below(8) == 0:
            for call in model[name]?.calls ?? [] { remove(call.number, name) }
            event { $0.cancel(CacheKey(name), into: &$1) }
        case 17:
            guard let (number, call) = someCall else { return }
            if random.below(2) == 0 {
                let priority = Priority(Double(random.below(3)) / 2)
                return event { $0.setPriority(priority, of: call.id, into: &$1) }
            }
            let index = model[call.name]?.calls.firstIndex { $0.number == number }
            if let index { model[call.name]?.calls[index].queue = .fast }
            event { $0.promote(call.id, into: &$1) }
        case 18: fireTimer()
        default: networkReturns()
        }
    }

    /// Lets everything end.
    mutating func drain() {
        for _ in 0..<100_000 where !live.isEmpty && !hasFailed {
            answerLookUp()
            answerTransfer(fails: false)
            fireTimer()
            networkReturns()
        }
    }

    // MARK: Events

    private var someCall: (Int, (name: String, id: TaskID))? {
        mutating get {
            guard let number = some(live.keys) else { return nil }
            return live[number].map { (number, $0) }
        }
    }

    private mutating func some<Element: Comparable>(_ elements: some Collection<Element>) -> Element? {
        elements.isEmpty ? nil : elements.sorted()[random.below(elements.count)]
    }

    private mutating func submit(_ name: String, _ queue: FetchQueue) {
        let (kind, priority) = (random.below(8), Priority(Double(random.below(3)) / 2))
        next += 1
        let call = Call(number: next, queue: queue, reads: kind < 4, fetches: kind != 0)
        let known = model[name].map { _ in ids[name] } ?? nil
        model[name, default: Fetch(calls: [])].calls.append(call)
        let work = TestWork(name: name, host: "h\(name.count + Int(name.utf8.last ?? 0) & 3)")
        var actions: [Queues.Action] = []
        let new = queues.submit(
            CacheKey(name), call.number, queue: queue, priority: priority, reads: call.reads, fetches: call.fetches,
            makeWork: { work }, into: &actions)
        live[call.number] = (name, new.task)
        if let known { expect(known == new.job, "one fetch for a key: \(name)") }
        ids[name] = new.job
        follow(actions)
    }

    private mutating func answerTransfer(fails: Bool) {
        guard let name = some(transfers.keys), let id = ids[name], let fetch = model[name] else { return }
        transfers[name] = nil
        guard fails else {
            for call in fetch.calls { remove(call.number, name) }
            return event { $0.finished(id, into: &$1) }
        }
        let ending = fetch.calls.filter { _ in random.below(3) == 0 }.compactMap { call -> TaskID? in
            defer { remove(call.number, name) }
            return live[call.number]?.id
        }
        let isOffline = random.below(2) == 0
        model[name]?.isParked = true
        if isOffline, model[name] != nil { offline.insert(name) }
        event {
            $0.failed(
                id, ending: ending, parking: isOffline ? .untilNetworkReturns : .backOff(.seconds(1)), into: &$1)
        }
    }

    private mutating func answerLookUp() {
        guard let name = some(lookUps), let id = ids[name], let fetch = model[name] else { return }
        lookUps.remove(name)
        let isHit = random.below(2) == 0
        for call in fetch.calls where isHit ? call.reads : !call.fetches { remove(call.number, name) }
        event { $0.lookedUp(id, hit: isHit, into: &$1) }
    }

    private mutating func fireTimer() {
        guard !timers.isEmpty else { return }
        let timer = timers.remove(at: random.below(timers.count))
        event { $0.timerFired(timer.id, token: timer.token, into: &$1) }
    }

    private mutating func networkReturns() {
        let waiting = offline.sorted().compactMap { ids[$0] }
        offline = []
        event { $0.networkReturned(for: waiting, spacing: .milliseconds(1), into: &$1) }
    }

    private mutating func remove(_ number: Int, _ name: String) {
        model[name]?.calls.removeAll { $0.number == number }
        guard model[name]?.calls.isEmpty == true else { return }
        model[name] = nil
        transfers[name] = nil
        lookUps.remove(name)
        offline.remove(name)
    }

    // MARK: Following the actions

    private mutating func event(_ body: (inout Queues, inout [Queues.Action]) -> Void) {
        var actions: [Queues.Action] = []
        body(&queues, &actions)
        follow(actions)
    }

    private mutating func follow(_ actions: [Queues.Action]) {
        for action in actions { follow(action) }
        let holding = Set(
            queues.queues[.slow].running.indices(in: queues.table.jobs).map { queues.table[$0].work.name })
        let isFastBusy = model.contains { name, fetch in
            fetch.queue == .fast && ids[name].map { !queues.isParked($0) } == true
        }
        let begun = holding.subtracting(holders)
        expect(begun.isEmpty || !isFastBusy, "\(begun) start in slowQueue beside fast work")
        holders = holding
        check()
    }

    private mutating func follow(_ action: Queues.Action) {
        switch action {
        case .lookUp(_, let work):
            expect(lookUps.insert(work.name).inserted, "one look-up at a time: \(work.name)")
        case .transfer(let id, let work, let queue, let isThrottled):
            ids[work.name] = id
            expect(transfers[work.name] == nil, "one request for a fetch at a time: \(work.name)")
            expect(model[work.name]?.queue == queue, "the queue of \(work.name)")
            expect(!offline.contains(work.name), "\(work.name) waits for the network")
            transfers[work.name] = (queue, isThrottled)
            model[work.name]?.isParked = false
        case .setThrottled(let work, let isThrottled): transfers[work.name]?.isThrottled = isThrottled
        case .setQueue(let work, let queue):
            transfers[work.name]?.queue = queue
            // A running fetch keeps its place whichever queue it comes to.
            if queue == .slow { holders.insert(work.name) }
        case .abort(let work):
            expect(model[work.name] == nil, "aborted though a call waits: \(work.name)")
            transfers[work.name] = nil
        case .arm(let id, _, _, let token): timers.append((id, token))
        case .end(let number, let work, let ending, _):
            expect(ended.insert(number).inserted, "call \(number) ended twice")
            live[number] = nil
            guard let call = model[work.name]?.calls.first(where: { $0.number == number }) else { return }
            // Only a call for the cache alone, which joins a fetch that found nothing, ends by itself.
            expect(!call.fetches && ending == .notCached, "an end that nothing asked for")
            remove(number, work.name)
        case .tellFailure(let number, _), .tellRetry(let number, _):
            expect(live[number] != nil, "a hook after the end: \(number)")
        case .armPause, .note, .noteJoined, .beginLookUps, .waitForTurn, .moveLookUp, .dropLookUp, .disarm, .call:
            break
        }
    }

    private mutating func check() {
        expect(Set(live.keys) == Set(model.values.flatMap { $0.calls.map(\.number) }), "the calls there are")
        expect(queues.jobCount == model.count, "the fetches there are")
        for (name, fetch) in model {
            for call in fetch.calls {
                let queue = live[call.number].flatMap { queues.queue(of: $0.id) }
                expect(queue == call.queue, "the queue of a call for \(name)")
            }
            let isParked = ids[name].map { queues.isParked($0) } == true
            expect(!isParked || fetch.isParked, "\(name) is parked though it has not failed")
        }
        for (name, transfer) in transfers {
            expect(model[name]?.queue == transfer.queue, "the transport knows the queue of \(name)")
        }
        let slow = transfers.filter { $0.value.queue == .slow && !$0.value.isThrottled }.map(\.key)
        expect(slow.count <= maxSlow, "more prefetches move bytes than may: \(slow)")
        expect(slow.isEmpty || slow.count == transfers.count { !$0.value.isThrottled }, "\(slow) beside fast work")
        // Nothing waits that could run.
        let counts = queues.counts
        if counts.fastRunning < maxFast, maxPerHost == nil {
            expect(queues.queues[.fast].queuedCount == 0, "a fast fetch waits though there is room")
        }
        if counts.fastWaiting + counts.fastRunning == 0, counts.slowRunning < maxSlow {
            expect(queues.queues[.slow].queuedCount == 0, "a prefetch waits though nothing holds it up")
        }
    }

    private mutating func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
        guard !condition, !hasFailed else { return }
        hasFailed = true
        Issue.record("run \(seed): \(message())")
    }
}
