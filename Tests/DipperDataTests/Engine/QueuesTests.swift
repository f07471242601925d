import TestSupport
import Testing

@testable import DipperData

@Suite("The queues against a naive model", .timeLimit(.minutes(2)))
struct QueuesTests {
    @Test("the rules hold over random operations", arguments: 0..<8)
    @Loop
    func randomOperations(run: Int) async {
        var walk = QueueWalk(run)
        for number in 0..<workload(13_000) where !walk.hasFailed {
            walk.step()
            // Other tests run on the same few threads.
            if number.isMultiple(of: 100) { await Task.yield() }
        }
        walk.drain()
    }
}

/// Drives the queues at random, and compares what they decide with the rules in the plainest words.
@Loop
private struct QueueWalk {
    private final class Item: QueueEntry {
        let name: Int
        let ownHost: String
        override var host: String { ownHost }
        /// Changes when the fetch turns to another source.
        var nextIsLocal = false
        /// Whether the item was local when it entered the queues.
        var wasLocal = false
        override var isLocal: Bool { nextIsLocal }

        init(_ name: Int, _ queue: FetchQueue, level: UInt8) {
            self.name = name
            ownHost = "h\(name % 3)"
            super.init(queue, level: level)
        }
    }

    private var queues: Queues
    private var random: SeededRandom
    private(set) var hasFailed = false
    private let seed: Int
    /// In the order of their names.
    private var items: [Item] = []
    /// The items that run after the latest dispatch.
    private var running: [Item] = []
    /// The items that wait, in the order in which they came, the front first.
    private var waiting: [FetchQueue: [Item]] = [.fast: [], .slow: []]
    private var configurations: [FetchQueue: QueueConfiguration]
    /// The items that were moved to slowQueue while the tiers were asked.
    private var wasDemoted: Set<Int> = []
    private var reservations = 0
    private var isHolding = false
    private var next = 0

    init(_ run: Int) {
        seed = run
        random = SeededRandom(UInt64(run))
        configurations = [
            .fast: QueueConfiguration(
                maxConcurrent: [1, 2, 3, 8][run % 4], maxPerHost: [nil, 1, nil, 2][run % 4],
                order: run < 4 ? .fifo : .lifo),
            .slow: QueueConfiguration(maxConcurrent: [1, 1, 2, 1][run % 4], order: run < 4 ? .fifo : .lifo),
        ]
        queues = Queues(fast: configurations[.fast] ?? .fast, slow: configurations[.slow] ?? .slow)
    }

    // MARK: Steps

    mutating func step() {
        switch random.below(16) {
        case 0...4 where items.count < 60: add()
        case 5:
            guard let item = pick() else { break }
            let level = UInt8(random.below(3) * 50)
            if item.place == .queued, level != item.level { requeue(item, in: item.queue, atFront: false) }
            queues.setLevel(level, of: item)
        case 6, 7:
            guard let item = pick() else { break }
            let queue: FetchQueue = item.queue == .fast ? .slow : .fast
            if item.place == .queued { requeue(item, in: queue, atFront: queue == .slow) }
            if item.place == .looking {
                if queue == .slow { wasDemoted.insert(item.name) } else { wasDemoted.remove(item.name) }
            }
            queues.move(item, to: queue)
        case 8: if let item = pick(.running) { queues.park(item) }
        case 9: if let item = pick(.parked) { enqueue(item) }
        case 10: if let item = pick(.looking) { enqueue(item) }
        case 11 where random.below(2) == 0: pick()?.nextIsLocal.toggle()
        case 11:
            reservations += 1
            queues.reserve(.fast)
        case 12 where reservations > 0:
            reservations -= 1
            queues.release(.fast)
        case 13:
            isHolding.toggle()
            hold(isHolding)
        case 14 where random.below(20) == 0: configure()
        default: if let item = pick() { remove(item) }
        }
        decide()
    }

    mutating func drain() {
        hold(false)
        isHolding = false
        for _ in 0..<reservations { queues.release(.fast) }
        reservations = 0
        for item in items where !hasFailed {
            if item.place != .running { remove(item) }
            decide()
        }
        for item in items { remove(item) }
        decide()
        let counts = queues.counts
        expect(counts == QueueCounts(), "\(counts) is left")
    }

    private mutating func add() {
        next += 1
        let item = Item(next, random.below(2) == 0 ? .fast : .slow, level: UInt8(random.below(3) * 50))
        items.append(item)
        item.nextIsLocal = random.below(4) == 0
        item.wasLocal = item.nextIsLocal
        if random.below(3) == 0 { queues.look(item) } else { enqueue(item) }
    }

    /// Returns one of the items, if it is in the place.
    private mutating func pick(_ place: QueueEntry.Place? = nil) -> Item? {
        guard !items.isEmpty else { return nil }
        let item = items[random.below(items.count)]
        return place == nil || item.place == place ? item : nil
    }

    private mutating func configure() {
        let queue: FetchQueue = random.below(2) == 0 ? .fast : .slow
        configurations[queue]?.maxPerHost = [nil, 1, 2][random.below(3)]
        configurations[queue]?.maxConcurrent = 1 + random.below(4)
        configurations[queue]?.isSuspended = random.below(6) == 0
        queues.configure(queue, configurations[queue] ?? .fast)
    }

    private mutating func enqueue(_ item: Item) {
        let goesToFront = item.place == .looking && wasDemoted.remove(item.name) != nil
        insert(item, in: item.queue, atFront: goesToFront)
        queues.remove(item)
        item.wasLocal = item.nextIsLocal
        queues.enqueue(item)
    }

    private mutating func remove(_ item: Item) {
        waiting[item.queue]?.removeAll { $0 === item }
        queues.remove(item)
        items.removeAll { $0 === item }
    }

    private mutating func requeue(_ item: Item, in queue: FetchQueue, atFront: Bool) {
        waiting[item.queue]?.removeAll { $0 === item }
        insert(item, in: queue, atFront: atFront)
    }

    private mutating func insert(_ item: Item, in queue: FetchQueue, atFront: Bool) {
        if atFront, configurations[queue]?.order == .fifo {
            waiting[queue]?.insert(item, at: 0)
        } else {
            waiting[queue]?.append(item)
        }
    }

    // MARK: Decisions

    private mutating func decide() {
        for action in dispatch() {
            guard case .start(let entry) = action, let item = entry as? Item else { continue }
            let expected = candidate(item.queue, isLocal: item.wasLocal)
            expect(item === expected, "\(item.name) started in place of \(expected?.name ?? 0)")
            expect(item.queue == .fast || !isFastBusy || item.wasLocal, "\(item.name) started beside fast work")
            expect(item.queue == .fast || reservations == 0, "\(item.name) started before urgent work")
            expect(configurations[item.queue]?.isSuspended != true, "\(item.name) started although suspended")
            expect(item.queue == .fast || !isHolding, "\(item.name) started although held")
            waiting[item.queue]?.removeAll { $0 === item }
            queues.reachNetwork(item)
        }
        expect(!dispatch().contains { if case .start = $0 { true } else { false } }, "what may start starts at once")
        check()
    }

    private mutating func dispatch() -> [Queues.Action] {
        var actions: [Queues.Action] = []
        queues.dispatch(into: &actions)
        running = items.filter { $0.place == .running }
        return actions
    }

    private func running(_ queue: FetchQueue, isLocal: Bool? = nil) -> [Item] {
        running.filter { $0.queue == queue && isLocal != !$0.wasLocal }
    }

    private var isFastBusy: Bool {
        reservations > 0
            || items.contains {
                $0.queue == .fast && !$0.wasLocal && [.looking, .queued, .running].contains($0.place)
            }
    }

    /// The item that is to start: of the highest priority, the oldest one, whose host has room.
    private func candidate(_ queue: FetchQueue, isLocal: Bool) -> Item? {
        let configuration = configurations[queue] ?? .fast
        let started = (waiting[queue] ?? []).filter { $0.wasLocal == isLocal }
        // The item that has started counts as running by now, although it still is in the list.
        let others = running(queue, isLocal: isLocal).filter { other in !started.contains { $0 === other } }
        let free = started.filter { item in
            isLocal || others.count { $0.host == item.host } < configuration.maxPerHost ?? .max
        }
        guard let level = free.map(\.level).max() else { return nil }
        let best = free.filter { $0.level == level }
        return configuration.order == .fifo ? best.first : best.last
    }

    /// The items in whose place a waiting one could start.
    private func inTheWay(of queue: FetchQueue) -> [Item] {
        let configuration = configurations[queue] ?? .fast
        guard !configuration.isSuspended, queue == .fast || !isFastBusy && !isHolding else { return [] }
        let running = running(queue, isLocal: false)
        let next = (waiting[queue] ?? []).filter { !$0.wasLocal }
        guard running.count <= configuration.maxConcurrent else { return [] }
        return running.filter { item in
            item.isOnNetwork
                && next.contains { next in
                    running.count { $0 !== item && $0.host == next.host } < configuration.maxPerHost ?? .max
                }
        }
    }

    private mutating func check() {
        for queue in [FetchQueue.fast, .slow] {
            let moving = running(queue, isLocal: false).filter { !$0.isThrottled }
            if queue == .slow {
                let limit = configurations[queue]?.maxConcurrent ?? 1
                expect(moving.count <= limit, "more prefetches move bytes than may")
                let isFastOnNetwork = running(.fast, isLocal: false).contains { $0.isOnNetwork }
                expect(moving.isEmpty || !isFastOnNetwork, "a prefetch moves bytes beside fast work")
            } else {
                expect(moving.count == running(queue, isLocal: false).count, "an urgent fetch is held back")
            }
        }
        let local = running(.fast, isLocal: true) + running(.slow, isLocal: true)
        expect(local.count <= Queues.mostLocal && !local.contains(where: \.isThrottled), "local sources")
        let next = candidate(.fast, isLocal: true)
        let mayStart = local.count < Queues.mostLocal && configurations[.fast]?.isSuspended != true
        expect(next == nil || !mayStart, "an urgent local source waits for nothing")
        for queue in [FetchQueue.fast, .slow] {
            let inTheWay = Set(queues.inTheWay(of: queue).map(ObjectIdentifier.init))
            let expected = Set(self.inTheWay(of: queue).map(ObjectIdentifier.init))
            expect(inTheWay == expected, "in the way of \(queue)")
        }
        var expected = QueueCounts()
        for item in items {
            switch (item.place, item.queue) {
            case (.looking, .fast), (.queued, .fast): expected.fastWaiting += 1
            case (.looking, .slow), (.queued, .slow): expected.slowWaiting += 1
            case (.running, .fast): expected.fastRunning += 1
            case (.running, .slow): expected.slowRunning += 1
            case (.parked, _): expected.parked += 1
            default: break
            }
        }
        let counts = queues.counts
        expect(counts == expected, "\(counts), not \(expected)")
    }

    private mutating func hold(_ isHolding: Bool) {
        queues.hold(isHolding ? .slow : nil, by: ObjectIdentifier(Queues.self))
    }

    private mutating func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
        guard !condition, !hasFailed else { return }
        hasFailed = true
        Issue.record("run \(seed): \(message())")
    }
}
