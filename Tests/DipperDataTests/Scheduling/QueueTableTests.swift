import Testing

@testable import DipperData

/// Work for queues under test: a name and a host.
struct TestWork: SchedulableWork, Equatable {
    var name: String
    var host = "host"
}

/// Queues that are driven by lines of text, which the rows of the table consist of. A line is an event, and after a
/// colon all that comes of it, in any order but for the names after one verb.
///
/// `fast a` and `slow a` are calls, numbered from 1, for the fetch of `a`; `a?` asks the disk first, `a!` wants the
/// cache alone, `a@h` is at the host `h`, and a priority may follow.
struct Bench {
    typealias Scheduler = QueueScheduler<Int, TestWork>

    private var scheduler = Scheduler(fast: .fast, slow: .slow, leastCapacity: 4)
    private var jobs: [String: JobID] = [:]
    private var tasks: [TaskID] = []
    private var timers: [String: [(job: JobID, token: UInt32)]] = [:]
    private var pause: UInt32 = 0
    private var notices: UInt64 = 0
    private var holder: HolderID?

    init() { scheduler.makesNotes = false }

    /// Carries out a line, and returns what came of it: names by verb.
    mutating func run(_ line: Substring) -> [String: [String]] {
        let words = line.split(separator: " ").map(String.init)
        var actions: [Scheduler.Action] = []
        event(words[0], Array(words.dropFirst()), &actions)
        var result: [String: [String]] = [:]
        for action in actions { note(action, &result) }
        return result
    }

    private mutating func event(_ verb: String, _ words: [String], _ actions: inout [Scheduler.Action]) {
        let name = words.first ?? ""
        let number = Int(name).map { tasks[$0 - 1] }
        let job = jobs[name]
        switch verb {
        case "fast", "slow": get(verb == "fast" ? .fast : .slow, words, &actions)
        case "finish": scheduler.finished(job!, into: &actions)
        case "hit", "miss": scheduler.lookedUp(job!, hit: verb == "hit", into: &actions)
        case "park", "lose", "fail":
            // The calls named end with the error. The others wait, for a time or for the network, or end as well.
            let ending = words.dropFirst().compactMap(Int.init).map { tasks[$0 - 1] }
            let parking: Scheduler.Parking? =
                verb == "park" ? .backOff(.seconds(1)) : verb == "lose" ? .untilNetworkReturns : nil
            scheduler.failed(job!, ending: ending, parking: parking, into: &actions)
        case "time":
            let timer = timers[name]!.removeFirst()
            scheduler.timerFired(timer.job, token: timer.token, into: &actions)
        case "network":
            scheduler.networkReturned(for: words.compactMap { jobs[$0] }, spacing: .milliseconds(4), into: &actions)
        case "move": scheduler.demote(CacheKey(name), into: &actions)
        case "promote": scheduler.promote(number!, into: &actions)
        case "cancel":
            if let number { scheduler.cancel(number, into: &actions) }
            scheduler.cancel(CacheKey(name), into: &actions)
        case "priority": scheduler.setPriority(Self.priority(words), of: number!, into: &actions)
        case "configure": configure(words, &actions)
        case "pause-is-over": scheduler.pauseElapsed(token: pause, into: &actions)
        default: limit(verb, name, &actions)
        }
    }

    private mutating func limit(_ verb: String, _ name: String, _ actions: inout [Scheduler.Action]) {
        notices += 1
        switch verb {
        case "disk":
            let backlog: StorageBacklog = name == "full" ? .full : name == "high" ? .high : .none
            scheduler.storageBacklogged(BacklogNotice(backlog: backlog, number: notices), into: &actions)
        case "memory":
            scheduler.budgetChanged(.init(isSpent: name == "spent", number: notices), into: &actions)
        case "hold":
            let id = scheduler.addHolder(of: name == "fast" ? .fast : .slow)
            holder = id
            scheduler.hold(.init(isSpent: true, number: notices), for: id, into: &actions)
        case "let-go": scheduler.removeHolder(holder!, into: &actions)
        default: Issue.record("no event \(verb)")
        }
    }

    private mutating func get(_ queue: FetchQueue, _ words: [String], _ actions: inout [Scheduler.Action]) {
        let parts = words[0].split(separator: "@").map(String.init)
        let name = parts[0].filter(\.isLetter)
        let (reads, fetches) = (name != parts[0], !parts[0].hasSuffix("!"))
        let work = TestWork(name: name, host: parts.count > 1 ? parts[1] : "host")
        let new = scheduler.submit(
            CacheKey(name), tasks.count + 1, queue: queue, priority: Self.priority(words), reads: reads,
            fetches: fetches, makeWork: { work }, into: &actions)
        #expect(jobs[name].map { scheduler.work(of: $0) == nil || $0 == new.job } ?? true, "one fetch for \(name)")
        jobs[name] = new.job
        tasks.append(new.task)
    }

    private mutating func configure(_ words: [String], _ actions: inout [Scheduler.Action]) {
        var configuration = QueueConfiguration(maxConcurrent: words[0] == "fast" ? 8 : 1)
        for word in words.dropFirst() {
            let pair = word.split(separator: "=")
            switch (pair[0], pair.dropFirst().first.flatMap { Int($0) }) {
            case ("limit", let count?): configuration.maxConcurrent = count
            case ("host", let count?): configuration.maxPerHost = count
            case ("pause", let seconds?): configuration.maxPause = .seconds(seconds)
            case ("lifo", _): configuration.order = .lifo
            default: configuration.isSuspended = true
            }
        }
        scheduler.configure(words[0] == "fast" ? .fast : .slow, configuration, into: &actions)
    }

    private static func priority(_ words: [String]) -> Priority {
        words.contains("high") ? .high : words.contains("low") ? .low : .normal
    }

    private mutating func note(_ action: Scheduler.Action, _ result: inout [String: [String]]) {
        func add(_ verb: String, _ name: Any) { result[verb, default: []].append("\(name)") }
        switch action {
        case .lookUp(_, let work): add("look", work.name)
        case .transfer(_, let work, _, let isThrottled):
            add("start", work.name)
            if isThrottled { add("throttle", work.name) }
        case .setThrottled(let work, let isThrottled): add(isThrottled ? "throttle" : "release", work.name)
        case .setQueue(let work, let queue): add(queue.rawValue, work.name)
        case .abort(let work): add("abort", work.name)
        case .arm(let job, let work, _, let token):
            timers[work.name, default: []].append((job, token))
            add("wait", work.name)
        case .end(let waiter, _, let ending, _): add("\(ending)", waiter)
        case .tellFailure(let waiter, _): add("failing", waiter)
        case .tellRetry(let waiter, _): add("retry", waiter)
        case .armPause(_, let token):
            pause = token
            add("pause", "slow")
        case .moveLookUp, .dropLookUp, .beginLookUps, .waitForTurn, .disarm, .call, .note, .noteJoined: break
        }
    }

    /// Makes a call, and returns its names.
    mutating func get(_ name: String, _ queue: FetchQueue) -> (job: JobID, task: TaskID) {
        _ = run("\(queue.rawValue) \(name)")
        return (jobs[name]!, tasks.last!)
    }
}

@Suite("The queues, event by event", .timeLimit(.minutes(2)))
struct QueueTableTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let lines: [String]

        init(_ rule: String, _ lines: String...) {
            testDescription = rule
            self.lines = lines
        }
    }

    private static let gets = [
        Row("urgent get, absent: a new fast fetch", "fast a: start a", "finish a: fetched 1"),
        Row(
            "urgent get, absent: the disk is asked first, without a slot", "configure fast limit=1",
            "fast busy: start busy", "fast a?: look a", "hit a: cached 2"),
        Row(
            "urgent get, slow and queued: promoted, and fetched once", "slow first: start first", "slow a",
            "fast a: start a, throttle first", "finish a: fetched 2 3, release first"),
        Row(
            "urgent get, slow and running: promoted in place, full speed, counts as fast now", "slow a: start a",
            "fast b: start b, throttle a", "fast a: release a, fast a", "slow c", "finish b: fetched 2",
            "finish a: fetched 1 3, start c"),
        Row(
            "urgent get, fast and queued or running: joins", "configure fast limit=1", "fast a: start a", "fast b",
            "fast a", "fast b", "finish a: fetched 1 3, start b", "finish b: fetched 2 4"),
        Row(
            "urgent get, waits for a back-off: wakes it, and the timer of that wait means nothing any more",
            "fast a: start a", "park a: failing 1, wait a", "fast a: start a, retry 1 2", "time a",
            "park a: failing 1 2, wait a", "time a: start a, retry 1 2"),
        Row(
            "urgent get, waits for the network: joins and goes on waiting", "slow a: start a", "lose a: failing 1",
            "fast a", "network a: wait a", "time a: start a, retry 1 2", "slow s", "finish a: fetched 1 2, start s"),
        Row(
            "slow get: joins what there is, and leaves its queue as it is", "configure fast limit=1",
            "slow s: start s", "slow t", "fast a: start a, throttle s", "fast b", "slow a", "slow b", "slow s",
            "slow t", "finish a: fetched 3 5, start b", "finish b: fetched 4 6, release s",
            "finish s: fetched 1 7, start t"),
        Row("slow get, parked: joins without waking it", "fast a: start a", "park a: failing 1, wait a", "slow a"),
        Row(
            "promotion of a call: its fetch starts, or counts as fast", "slow a: start a", "slow b",
            "promote 2: start b, throttle a", "promote 1: release a, fast a", "promote 1"),
    ]

    private static let moves = [
        Row("move, absent or slow: nothing", "move a", "slow a: start a", "slow b", "move a", "move b"),
        Row(
            "move, fast and queued: to the front of slowQueue", "configure fast limit=1", "fast first: start first",
            "slow s", "fast a", "move a", "finish first: fetched 1, start a"),
        Row(
            "move, fast and running: in place, throttled while fast work is on the network", "fast a: start a",
            "fast b: start b", "move a: slow a, throttle a", "finish b: fetched 2, release a", "finish a: fetched 1"),
        Row(
            "move, several running: they go on one after the other", "fast a: start a", "fast b: start b",
            "move a: slow a, throttle a", "move b: slow b, throttle b, release a", "finish a: fetched 1, release b"),
        Row(
            "move, parked: it wakes in slowQueue", "fast a: start a", "park a: failing 1, wait a", "move a",
            "fast b: start b", "time a", "finish b: fetched 2, retry 1, start a"),
        Row(
            "move, being looked up: then it waits in front", "fast busy: start busy", "slow s", "fast a?: look a",
            "move a", "miss a", "cancel busy: cancelled 1, abort busy, start a"),
        Row(
            "cancel one call: it ends, the fetch goes on for the others in their queue", "configure fast limit=1",
            "slow a: start a", "fast a: fast a", "slow b", "fast b",
            "cancel 2: cancelled 2, slow a, throttle a, start b",
            "cancel 4: cancelled 4, slow b, throttle b, release a"),
        Row(
            "cancel the last call: queued removed, running aborted, parked removed, late answers mean nothing",
            "configure fast limit=1", "fast a: start a", "fast b", "slow c", "cancel 2: cancelled 2",
            "cancel 3: cancelled 3", "cancel 1: cancelled 1, abort a", "finish a", "miss a", "park a", "cancel 1",
            "slow d: start d", "lose d: failing 4", "cancel 4: cancelled 4", "network d"),
    ]

    private static let rules = [
        Row(
            "no slow fetch starts while a fast one is looked up, queued or running", "configure fast limit=1",
            "fast a?: look a", "slow s", "miss a: start a", "fast b", "finish a: fetched 1, start b",
            "finish b: fetched 3, start s"),
        Row(
            "parked and failed fetches do not hold slowQueue up", "fast a: start a", "slow s",
            "lose a: failing 1, start s", "fast b: start b, throttle s", "fail b 3: failed 3, release s"),
        Row(
            "a disk hit throttles no prefetch; a request does, until fast is drained", "configure fast limit=1",
            "slow s: start s", "fast a?: look a", "hit a: cached 2", "fast b?: look b", "miss b: start b, throttle s",
            "fast c", "finish b: fetched 3, start c", "finish c: fetched 4, release s"),
        Row(
            "a prefetch whose look-up misses beside fast work starts throttled", "slow s?: look s",
            "fast a: start a, throttle s",
            "miss s: start s, throttle s", "finish a: fetched 2, release s"),
        Row(
            "inside a queue: higher priority first, a joiner's counts, then the order of arrival",
            "configure fast limit=1", "fast a: start a", "fast low low", "fast b", "fast c", "fast d", "slow d high",
            "finish a: fetched 1, start d", "finish d: fetched 5 6, start b", "priority 2 high", "priority 4 low",
            "finish b: fetched 3, start low", "finish low: fetched 2, start c"),
        Row(
            "LIFO: higher priority first, then the latest", "configure fast limit=1 lifo", "fast a: start a",
            "fast b", "fast c", "fast high high", "finish a: fetched 1, start high", "finish high: fetched 4, start c"),
        Row(
            "maxPerHost: others pass by; the limit may change while fetches wait", "configure fast limit=3 host=1",
            "fast a@x: start a", "fast b@x", "fast c@x", "fast d@y: start d", "finish a: fetched 1, start b",
            "configure fast limit=9: start c"),
        Row(
            "a suspended queue starts nothing until it is resumed", "configure slow suspended", "slow s",
            "configure slow: start s"),
        Row(
            "maxPause: after it one slow fetch runs beside fast work, then the wait begins anew",
            "configure slow pause=5", "fast u: start u", "slow s: pause slow", "slow t", "pause-is-over: start s",
            "pause-is-over", "finish s: fetched 2, pause slow", "pause-is-over: start t"),
        Row(
            "maxPause: a throttled prefetch goes first", "configure slow pause=5", "slow s: start s", "slow t",
            "fast u: start u, throttle s, pause slow", "pause-is-over: release s"),
        Row(
            "a disk that falls behind holds prefetches up, and urgent work when it is full", "disk high", "slow s",
            "fast u: start u", "finish u: fetched 2", "disk full", "fast v", "disk high: start v",
            "cancel v: cancelled 3, abort v", "disk none: start s"),
        Row(
            "spent memory: the oldest urgent transfer goes on alone, nothing begins", "configure fast limit=3",
            "fast a: start a", "fast b: start b", "fast c: start c", "fast d", "memory spent: throttle b c",
            "finish a: fetched 1, release b", "memory free: release c, start d"),
        Row(
            "spent memory: an urgent fetch takes the place of a prefetch, and one always runs", "memory spent",
            "slow s: start s", "fast u: start u, throttle s", "fast v", "finish u: fetched 2, start v",
            "cancel v: cancelled 3, abort v, release s"),
        Row(
            "who cannot take more holds back what has not begun", "fast a: start a", "hold fast", "fast b", "slow s",
            "let-go: start b", "finish a: fetched 1", "finish b: fetched 2, start s", "hold slow", "slow t",
            "fast c: start c, throttle s", "finish c: fetched 5, release s", "finish s: fetched 3", "let-go: start t"),
        Row(
            "a call for the cache alone gets no network", "fast a!: look a", "miss a: notCached 1", "fast b?: look b",
            "miss b: start b", "fast b!: notCached 3"),
        Row(
            "a refresh and a reader share a fetch; a later reader asks the disk anew", "fast a: start a",
            "fast a?: look a", "hit a: cached 2", "fast a!: look a", "finish a: fetched 1 3"),
        Row(
            "a failure ends the calls named, and all if it is final", "fast a: start a", "fast a",
            "park a 1: failed 1, failing 2, wait a", "time a: start a, retry 2", "fast a", "fail a 2: failed 2 3"),
        Row(
            "the network returns: fetches wake one after the other, urgent ones first", "configure fast limit=2",
            "slow s: start s", "lose s: failing 1", "fast a: start a", "fast b: start b", "lose a: failing 2",
            "lose b: failing 3", "network s a b: wait a b s", "time b: start b, retry 3"),
    ]

    @Test("each row of the table", arguments: gets + moves + rules)
    func table(row: Row) {
        var bench = Bench()
        for line in row.lines {
            let parts = line.split(separator: ":")
            var expected: [String: [String]] = [:]
            for group in parts.dropFirst().first?.split(separator: ",") ?? [] {
                let words = group.split(separator: " ").map(String.init)
                expected[words[0]] = Array(words.dropFirst())
            }
            let result = bench.run(parts[0])
            #expect(result == expected, "\(line)")
        }
    }
}
