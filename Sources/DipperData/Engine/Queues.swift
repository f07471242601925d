/// The part of a fetch that ``Queues`` reads and changes.
@Loop
class QueueEntry {
    enum Place: Equatable {
        case none
        case looking
        case queued
        case running
        /// Waits for the network, for a back-off or for another process, without a slot.
        case parked
    }

    fileprivate(set) var queue: FetchQueue
    fileprivate(set) var level: UInt8
    fileprivate(set) var place = Place.none
    fileprivate(set) var isThrottled = false
    /// Whether the fetch is in a local lane. `isLocal` may change meanwhile; this does not until the fetch leaves.
    fileprivate var isAmongLocal = false
    fileprivate var goesToFront = false
    /// The turn in which the fetch reached the network; zero while it is not there.
    fileprivate var transfer: UInt64 = 0
    fileprivate var arrival: Int64 = 0
    fileprivate var group: QueueGroup?
    // Each leaves by itself, so that no chain of entries is released at once.
    fileprivate var next: QueueEntry?
    fileprivate var previous: QueueEntry?

    /// The host that ``QueueConfiguration/maxPerHost`` counts.
    var host: String { "" }
    var isLocal: Bool { false }
    var isOnNetwork: Bool { transfer > 0 }

    init(_ queue: FetchQueue, level: UInt8) {
        self.queue = queue
        self.level = level
    }
}

@Loop
private struct EntryList {
    var first: QueueEntry?
    var last: QueueEntry?

    mutating func append(_ entry: QueueEntry) {
        (entry.previous, entry.next) = (last, nil)
        if let last { last.next = entry } else { first = entry }
        last = entry
    }

    mutating func prepend(_ entry: QueueEntry) {
        (entry.previous, entry.next) = (nil, first)
        if let first { first.previous = entry } else { last = entry }
        first = entry
    }

    mutating func remove(_ entry: QueueEntry) {
        if let previous = entry.previous { previous.next = entry.next } else { first = entry.next }
        if let next = entry.next { next.previous = entry.previous } else { last = entry.previous }
        (entry.previous, entry.next) = (nil, nil)
    }

    var all: [QueueEntry] { prefix(.max) }

    func prefix(_ limit: Int) -> [QueueEntry] {
        var (found, next) = ([QueueEntry](), first)
        while let entry = next, found.count < limit {
            found.append(entry)
            next = entry.next
        }
        return found
    }
}

/// The entries of one queue; with `maxPerHost`, those of one host.
@Loop
private final class QueueGroup {
    let host: String
    var levels: [EntryList] = Array(repeating: EntryList(), count: 101)
    var filled: UInt128 = 0
    var running = 0

    init(host: String) { self.host = host }

    var waiting: [QueueEntry] {
        levels.flatMap(\.all)
    }

    /// - Parameter after: an entry of the group, for the one that follows it.
    func next(_ order: QueueConfiguration.Order, after entry: QueueEntry? = nil) -> QueueEntry? {
        if let entry, let next = order == .fifo ? entry.next : entry.previous { return next }
        let rest = entry.map { filled & ((1 << UInt128($0.level)) - 1) } ?? filled
        guard rest != 0 else { return nil }
        // mutant Queue: `[127 - rest.leadingZeroBitCount]` => `[rest.trailingZeroBitCount]`
        let list = levels[127 - rest.leadingZeroBitCount]
        return order == .fifo ? list.first : list.last
    }
}

@Loop
private final class Lane {
    /// An entry that may start next, if it still is the next one of its group.
    private struct Candidate: Comparable {
        let level: UInt8
        let rank: Int64
        let group: QueueGroup

        static func < (a: Self, b: Self) -> Bool { a.level != b.level ? a.level > b.level : a.rank < b.rank }
        static func == (a: Self, b: Self) -> Bool { a.level == b.level && a.rank == b.rank }
    }

    enum Pause: Equatable {
        case none
        case waiting(number: UInt64)
        case granted(ObjectIdentifier)
    }

    var configuration: QueueConfiguration
    var queued = 0
    var looking = 0
    var lookedUp = EntryList()
    var reservations = 0
    var running = EntryList()
    var runningCount = 0
    var onNetwork = 0
    var throttled = 0
    var isYielding = false
    /// The number of fetches that have started.
    var starts = 0
    /// Whether the engine looks at those that run while others wait for their slots.
    var isWatched = false
    var pause = Pause.none
    /// With `fillsLink`, what has been learnt of the link.
    var fill: LinkFill?
    private var groups: [String: QueueGroup] = [:]
    private var candidates = Heap<Candidate>()
    private var lastArrival: Int64 = 0
    private var firstArrival: Int64 = 0

    nonisolated init(_ configuration: QueueConfiguration) {
        self.configuration = configuration
        if configuration.fillsLink { fill = LinkFill() }
    }

    var waiting: Int { looking + queued }
    var isBusy: Bool { reservations + waiting + runningCount > 0 }
    var mostSlots: Int { max(1, configuration.maxConcurrent) }
    var slots: Int { fill.map { min($0.transfers, mostSlots) } ?? mostSlots }
    // mutant Queue: `runningCount < slots && ` => `runningCount <= slots && `
    // mutant Queue: ` && !configuration.isSuspended }` => ` }`
    var hasRoom: Bool { runningCount < slots && !configuration.isSuspended }

    // MARK: Waiting

    func enqueue(_ entry: QueueEntry, first: Bool) {
        let group = join(entry)
        let level = Int(entry.level)
        if first, configuration.order == .fifo {
            firstArrival -= 1
            entry.arrival = firstArrival
            group.levels[level].prepend(entry)
        } else {
            lastArrival += 1
            entry.arrival = lastArrival
            group.levels[level].append(entry)
        }
        group.filled |= 1 << UInt128(level)
        entry.place = .queued
        queued += 1
        if group.next(configuration.order) === entry { noteCandidate(of: group) }
    }

    func dequeue(_ entry: QueueEntry) {
        guard let group = entry.group else { return }
        let level = Int(entry.level)
        let wasNext = group.next(configuration.order) === entry
        group.levels[level].remove(entry)
        if group.levels[level].first == nil { group.filled &= ~(1 << UInt128(level)) }
        entry.place = .none
        queued -= 1
        if wasNext { noteCandidate(of: group) }
        leave(entry)
    }

    func next() -> QueueEntry? {
        guard configuration.maxPerHost != nil else { return groups[""]?.next(configuration.order) }
        while let best = candidates.min {
            if mayStart(best.group), let next = best.group.next(configuration.order),
                candidate(next, of: best.group) == best
            {
                return next
            }
            candidates.popMin()
        }
        return nil
    }

    /// The first entries that wait, in the order in which they start as far as their hosts let them.
    func first(_ limit: Int) -> [QueueEntry] {
        if limit == 0 { return [] }
        var heads = Heap(
            groups.values.compactMap { group in group.next(configuration.order).map { head($0, of: group) } })
        var found: [QueueEntry] = []
        while found.count < limit, let head = heads.popMin() {
            found.append(head.entry)
            let next = head.candidate.group.next(configuration.order, after: head.entry)
            if let next { heads.insert(self.head(next, of: head.candidate.group)) }
        }
        return found
    }

    private struct Head: Comparable {
        let candidate: Candidate
        let entry: QueueEntry

        static func < (a: Self, b: Self) -> Bool { a.candidate < b.candidate }
        static func == (a: Self, b: Self) -> Bool { a.candidate == b.candidate }
    }

    private func head(_ entry: QueueEntry, of group: QueueGroup) -> Head {
        Head(candidate: candidate(entry, of: group), entry: entry)
    }

    // MARK: Looking

    func look(_ entry: QueueEntry) {
        entry.place = .looking
        lookedUp.append(entry)
        looking += 1
    }

    func endLook(_ entry: QueueEntry) {
        lookedUp.remove(entry)
        looking -= 1
    }

    // MARK: Running

    func run(_ entry: QueueEntry) {
        join(entry).running += 1
        entry.place = .running
        running.append(entry)
        runningCount += 1
        if entry.isOnNetwork { onNetwork += 1 }
        if entry.isThrottled { throttled += 1 }
    }

    func stop(_ entry: QueueEntry) {
        running.remove(entry)
        runningCount -= 1
        if entry.isOnNetwork { onNetwork -= 1 }
        if entry.isThrottled { throttled -= 1 }
        entry.place = .none
        if pause == .granted(ObjectIdentifier(entry)) { pause = .none }
        guard let group = entry.group else { return }
        group.running -= 1
        noteCandidate(of: group)
        leave(entry)
    }

    var oldestTransfer: QueueEntry? {
        running.all.filter(\.isOnNetwork).min { $0.transfer < $1.transfer }
    }

    func configure(_ new: QueueConfiguration) {
        let regroups = (configuration.maxPerHost == nil) != (new.maxPerHost == nil)
        configuration = new
        fill = new.fillsLink ? fill ?? LinkFill() : nil
        if case .waiting = pause, new.maxPause == nil { pause = .none }
        if regroups {
            var waiting: [QueueEntry] = []
            for group in groups.values { waiting += group.waiting }
            waiting.sort { $0.arrival < $1.arrival }
            groups = [:]
            for entry in running.all { join(entry).running += 1 }
            queued = 0
            for entry in waiting { enqueue(entry, first: false) }
        }
        refillCandidates()
    }

    // MARK: Groups

    private func join(_ entry: QueueEntry) -> QueueGroup {
        let host = configuration.maxPerHost == nil ? "" : entry.host
        if let known = groups[host] {
            entry.group = known
            return known
        }
        let group = QueueGroup(host: host)
        groups[host] = group
        entry.group = group
        return group
    }

    private func leave(_ entry: QueueEntry) {
        guard let group = exchange(&entry.group, with: nil), group.filled == 0, group.running == 0,
            !group.host.isEmpty
        else { return }
        groups[group.host] = nil
    }

    private func mayStart(_ group: QueueGroup) -> Bool {
        // mutant Queue: `ing < max(1, $0)` => `ing <= max(1, $0)`
        configuration.maxPerHost.map { group.running < max(1, $0) } ?? true
    }

    /// Whether a waiting fetch of the same host could start instead of one that runs.
    func isHeldByHost(_ entry: QueueEntry) -> Int? {
        entry.group.flatMap { mayStart($0) ? nil : $0.running }
    }

    func isForOwn(_ entry: QueueEntry) -> Bool {
        entry.group.map { $0.filled != 0 && $0.running <= max(1, configuration.maxPerHost ?? .max) } ?? false
    }

    private func candidate(_ entry: QueueEntry, of group: QueueGroup) -> Candidate {
        let rank = configuration.order == .fifo ? entry.arrival : -entry.arrival
        return Candidate(level: entry.level, rank: rank, group: group)
    }

    private func noteCandidate(of group: QueueGroup) {
        guard configuration.maxPerHost != nil, mayStart(group), let next = group.next(configuration.order) else {
            return
        }
        candidates.insert(candidate(next, of: group))
        if candidates.count > 2 * groups.count + 64 { refillCandidates() }
    }

    private func refillCandidates() {
        candidates = Heap()
        for group in groups.values { noteCandidate(of: group) }
    }
}

/// Which fetch starts, and which is held back: the rules of `fastQueue` and `slowQueue`. No lock, no clock, no thread.
///
/// - No slow fetch starts while a fast one is looked up, waits or runs, unless `maxPause` has passed: then one does.
///   Slow ones that run are throttled from the moment at which a fast one reaches the network until the fast ones end.
/// - A fetch is in no list while it is parked: it has no slot and holds up nobody.
/// - Fetches of local sources have a few slots of their own, the last one for urgent ones. They wait for no
///   download, hold none up, and are not throttled.
/// - While a fetch waits for a slot alone, the engine looks for a transfer that brings too little, and parks it.
/// - With `fillsLink`, as many of a queue run as keep the link busy.
/// - Each operation but a change of the configuration takes the same time, however many fetches wait.
@Loop
struct Queues {
    enum Action {
        case start(QueueEntry)
        case throttle(QueueEntry, Bool)
        /// Call ``pauseElapsed(_:)`` with the number after a time.
        case armPause(Duration, number: UInt64)
        /// Ask ``inTheWay(of:)`` from time to time, until nothing is.
        case watchSlots(FetchQueue)
    }

    private let fast: Lane
    private let slow: Lane
    private let localFast: Lane
    private let localSlow: Lane
    private(set) var parked = 0
    private var parkedEntries = EntryList()
    private var lastNumber: UInt64 = 0
    private var backlog = StorageBacklog.none
    private var isBudgetSpent = false
    /// By who holds fetches back.
    private var holds: [ObjectIdentifier: FetchQueue] = [:]

    nonisolated init(fast: QueueConfiguration, slow: QueueConfiguration) {
        (self.fast, self.slow) = (Lane(fast), Lane(slow))
        (localFast, localSlow) = (Lane(Self.local(fast)), Lane(Self.local(slow)))
    }

    nonisolated static let mostLocal = 4

    private nonisolated static func local(_ configuration: QueueConfiguration) -> QueueConfiguration {
        var local = configuration
        (local.maxConcurrent, local.maxPerHost, local.maxPause, local.fillsLink) = (mostLocal, nil, nil, false)
        return local
    }

    private func lane(_ queue: FetchQueue) -> Lane { queue == .fast ? fast : slow }
    private func lane(of entry: QueueEntry) -> Lane { lane(entry.queue, isLocal: entry.isAmongLocal) }
    private func lane(_ queue: FetchQueue, isLocal: Bool) -> Lane {
        isLocal ? queue == .fast ? localFast : localSlow : lane(queue)
    }

    // MARK: Questions

    var counts: QueueCounts {
        QueueCounts(
            fastWaiting: fast.waiting + localFast.waiting, fastRunning: fast.runningCount + localFast.runningCount,
            slowWaiting: slow.waiting + localSlow.waiting, slowRunning: slow.runningCount + localSlow.runningCount,
            parked: parked)
    }

    func configuration(of queue: FetchQueue) -> QueueConfiguration { lane(queue).configuration }

    var onNetwork: [QueueEntry] { (fast.running.all + slow.running.all).filter(\.isOnNetwork) }

    /// The least urgent queue whose look-ups may begin; `nil` if none may.
    var looksDownTo: FetchQueue? {
        isHeld(.fast) ? nil : isHeld(.slow) ? .fast : .slow
    }

    /// The entries that run, that are looked up, that wait and that are parked, at most a number of each in each queue.
    func entries(limit: Int) -> [QueueEntry] {
        let lanes = [fast, localFast, slow, localSlow]
        return lanes.flatMap { $0.running.prefix(limit) }
            + lanes.flatMap { $0.lookedUp.prefix(limit) + $0.first(limit) } + parkedEntries.prefix(limit)
    }

    /// The reason for which an entry waits that the queues know; `nil` if they let it run, or have parked it.
    func wait(of entry: QueueEntry) -> FetchSnapshot.Wait? {
        let (queue, lane) = (entry.queue, lane(of: entry))
        switch entry.place {
        case .none, .parked: return nil
        case .looking: return isHeld(queue) ? .decoding : .lookUp
        case .running: return entry.isThrottled ? isBudgetSpent ? .memory : .urgentWork(urgent) : nil
        case .queued: break
        }
        if lane.configuration.isSuspended { return .suspended }
        if isHeld(queue) { return .decoding }
        if !accepts(queue) { return .storage }
        if queue == .slow, !entry.isAmongLocal, fast.isBusy { return .urgentWork(urgent) }
        if isBudgetSpent { return .memory }
        if lane.runningCount >= lane.slots { return .slots(lane.runningCount) }
        return lane.isHeldByHost(entry).map { .host($0) } ?? .turn
    }

    private var urgent: Int { fast.waiting + fast.runningCount }

    // MARK: Entries

    func look(_ entry: QueueEntry) {
        entry.isAmongLocal = entry.isLocal
        lane(of: entry).look(entry)
    }

    func enqueue(_ entry: QueueEntry) {
        entry.isAmongLocal = entry.isLocal
        lane(of: entry).enqueue(entry, first: exchange(&entry.goesToFront, with: false))
    }

    mutating func remove(_ entry: QueueEntry) {
        switch entry.place {
        case .none: break
        case .looking: lane(of: entry).endLook(entry)
        case .queued: lane(of: entry).dequeue(entry)
        case .running: lane(of: entry).stop(entry)
        case .parked:
            parked -= 1
            parkedEntries.remove(entry)
        }
        entry.place = .none
        entry.isThrottled = false
        entry.transfer = 0
    }

    mutating func park(_ entry: QueueEntry) {
        remove(entry)
        entry.place = .parked
        parked += 1
        parkedEntries.append(entry)
    }

    mutating func reachNetwork(_ entry: QueueEntry) {
        guard entry.place == .running else { return }
        lastNumber += 1
        if entry.transfer == 0 { lane(of: entry).onNetwork += 1 }
        entry.transfer = lastNumber
    }

    /// Learns from a transfer that has ended and was not held back.
    func learn(from metrics: TransferMetrics, of entry: QueueEntry, endedAt now: Duration) {
        lane(of: entry).fill?.add(metrics, endedAt: now)
    }

    /// A waiting fetch goes to the front of `slowQueue`, or to the end of `fastQueue`.
    func move(_ entry: QueueEntry, to queue: FetchQueue) {
        guard queue != entry.queue else { return }
        let (old, new) = (lane(of: entry), lane(queue, isLocal: entry.isAmongLocal))
        entry.queue = queue
        switch entry.place {
        case .none, .parked: break
        case .looking:
            old.endLook(entry)
            new.look(entry)
            entry.goesToFront = queue == .slow
        case .queued:
            old.dequeue(entry)
            new.enqueue(entry, first: queue == .slow)
        case .running:
            old.stop(entry)
            new.run(entry)
        }
    }

    func setLevel(_ level: UInt8, of entry: QueueEntry) {
        guard level != entry.level else { return }
        let isQueued = entry.place == .queued
        if isQueued { lane(of: entry).dequeue(entry) }
        entry.level = level
        if isQueued { lane(of: entry).enqueue(entry, first: false) }
    }

    // MARK: Conditions

    func configure(_ queue: FetchQueue, _ configuration: QueueConfiguration) {
        lane(queue).configure(configuration)
        lane(queue, isLocal: true).configure(Self.local(configuration))
    }
    func reserve(_ queue: FetchQueue) { lane(queue).reservations += 1 }
    func release(_ queue: FetchQueue) { lane(queue).reservations -= 1 }
    mutating func setBacklog(_ backlog: StorageBacklog) { self.backlog = backlog }
    mutating func setBudget(isSpent: Bool) { isBudgetSpent = isSpent }

    /// Holds back fetches that have not begun: with `fast` all of them, with `slow` prefetches, with `nil` none.
    mutating func hold(_ queue: FetchQueue?, by holder: ObjectIdentifier) { holds[holder] = queue }

    private func isHeld(_ queue: FetchQueue) -> Bool { holds.values.contains { $0 == .fast || queue == .slow } }

    private func accepts(_ queue: FetchQueue) -> Bool {
        backlog <= (queue == .fast ? .high : .none) && !isHeld(queue)
    }

    // MARK: Decisions

    mutating func dispatch(into actions: inout [Action]) {
        for queue in [FetchQueue.fast, .slow] {
            while mayStart(queue), let entry = lane(queue).next() { start(entry, into: &actions) }
            while mayStartLocal(queue), let entry = lane(queue, isLocal: true).next() { start(entry, into: &actions) }
        }
        let only = isBudgetSpent ? (fast.onNetwork > 0 ? fast : slow).oldestTransfer : nil
        // mutant Pausing: `if fast.onNetwork > 0 {` => `if fast.onNetwork > 1 {`
        if fast.onNetwork > 0 {
            slow.isYielding = true
        } else if !fast.isBusy {
            slow.isYielding = false
        }
        balance(fast, limit: .max, sparing: only, into: &actions)
        balance(slow, limit: slow.mostSlots, sparing: only, into: &actions)
        armPause(into: &actions)
        for queue in [FetchQueue.fast, .slow] where isBlocked(queue) && !exchange(&lane(queue).isWatched, with: true) {
            actions.append(.watchSlots(queue))
        }
    }

    /// Whether a fetch waits for a slot alone.
    private func isBlocked(_ queue: FetchQueue) -> Bool {
        let lane = lane(queue)
        return lane.queued > 0 && !lane.configuration.isSuspended && !(queue == .slow && fast.isBusy) && accepts(queue)
            && !isBudgetSpent
    }

    /// The fetches on the network of which each would let a waiting one start if it gave back its slot.
    func inTheWay(of queue: FetchQueue) -> [QueueEntry] {
        let lane = lane(queue)
        let isInOneWay = isBlocked(queue) && lane.runningCount <= lane.slots
        let isForAny = isInOneWay && lane.next() != nil
        let found = isInOneWay ? lane.running.all.filter { $0.isOnNetwork && (isForAny || lane.isForOwn($0)) } : []
        if found.isEmpty { lane.isWatched = false }
        return found
    }

    func starts(of queue: FetchQueue) -> Int { lane(queue).starts }

    private func mayStart(_ queue: FetchQueue) -> Bool {
        let lane = lane(queue)
        // mutant Queue: ` && !(queue == .slow && fast.isBusy) &&` => ` &&`
        return lane.queued > 0 && lane.hasRoom && !(queue == .slow && fast.isBusy) && accepts(queue)
            && (!isBudgetSpent || lane.onNetwork == 0)
    }

    private func mayStartLocal(_ queue: FetchQueue) -> Bool {
        let lane = lane(queue, isLocal: true)
        let running = localFast.runningCount + localSlow.runningCount
        let mayBeside =
            queue == .fast ? running < Self.mostLocal : running < Self.mostLocal - 1 && fast.reservations == 0
        return lane.queued > 0 && !lane.configuration.isSuspended && mayBeside && accepts(queue)
            && (!isBudgetSpent || lane.runningCount == 0)
    }

    private mutating func start(_ entry: QueueEntry, into actions: inout [Action]) {
        let lane = lane(of: entry)
        lane.dequeue(entry)
        lane.run(entry)
        lane.starts += 1
        actions.append(.start(entry))
    }

    private func balance(_ lane: Lane, limit: Int, sparing only: QueueEntry?, into actions: inout [Action]) {
        // mutant Pausing: `lane.isYielding || lane.throttled > 0 || lane` => `lane.isYielding || lane`
        guard only != nil || lane.isYielding || lane.throttled > 0 || lane.runningCount > limit else { return }
        var moving = 0
        for entry in lane.running.all {
            let isGranted = lane.pause == .granted(ObjectIdentifier(entry))
            let mayMove = (only == nil || only === entry) && (isGranted || (!lane.isYielding && moving < limit))
            if mayMove { moving += 1 }
            guard entry.isThrottled == mayMove else { continue }
            entry.isThrottled = !mayMove
            lane.throttled += mayMove ? -1 : 1
            actions.append(.throttle(entry, !mayMove))
        }
    }

    private mutating func armPause(into actions: inout [Action]) {
        if case .granted = slow.pause { return }
        let isWaiting = fast.isBusy && !slow.configuration.isSuspended && slow.queued + slow.throttled > 0
        if !isWaiting {
            slow.pause = .none
        } else if slow.pause == .none, let longest = slow.configuration.maxPause {
            lastNumber += 1
            slow.pause = .waiting(number: lastNumber)
            actions.append(.armPause(longest, number: lastNumber))
        }
    }

    /// Lets one slow fetch go on beside the fast ones, because `slowQueue` has waited for its longest pause.
    mutating func pauseElapsed(_ number: UInt64, into actions: inout [Action]) {
        guard slow.pause == .waiting(number: number) else { return }
        slow.pause = .none
        if let throttled = slow.running.all.first(where: \.isThrottled) {
            slow.pause = .granted(ObjectIdentifier(throttled))
        } else if slow.hasRoom, accepts(.slow), let entry = slow.next() {
            slow.pause = .granted(ObjectIdentifier(entry))
            start(entry, into: &actions)
        }
        dispatch(into: &actions)
    }
}
