import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("A fleet with the rules of a lease", .timeLimit(.minutes(30)))
struct LeaseSimulationTests {
    @Test(
        "never has more than two at the server for a key, and answers each call, whatever is lost, late or dies",
        arguments: [1, 2, 3] as [UInt64])
    func faults(seed: UInt64) {
        let (fleet, calls) = (Fleet(nodes: 1_000, seed: seed), workload(10_000))
        fleet.run(calls: calls)
        #expect(fleet.mostAtServer <= 2)
        #expect(fleet.unanswered == 0 && fleet.answered + fleet.lostWithNode == calls)
        #expect(fleet.longest < 90, "\(fleet.longest) seconds")
        // That something has gone wrong.
        let isLong = calls >= 10_000
        #expect(!isLong || fleet.mostAtServer == 2 && fleet.crashes > 20 && (1..<calls / 100) ~= fleet.lostWithNode)
    }

    @Test("asks the server once for each key and lifetime of an entry if nothing goes wrong")
    func calm() {
        let fleet = Fleet(nodes: 1_000, seed: 4, faults: Fleet.Faults(loss: 0, lateness: 0, crashes: 0, hangs: 0))
        fleet.run(calls: 10_000)
        #expect(fleet.mostAtServer == 1 && fleet.unanswered == 0 && fleet.answered == 10_000)
        #expect(fleet.needless == 0, "nobody asks for what has been kept")
        #expect(fleet.longest < 15, "\(fleet.longest) seconds")
    }

    /// With `DIPPER_WORKLOAD=10000` it simulates a million calls for each fleet, and prints the table of the guide *At scale*.
    @Test("asks the service as often for a call with a thousand nodes as with a hundred, and the server as rarely")
    func growth() {
        let calls = workload(10_000)
        let fleets = [1, 10, 100, 1_000].map { nodes in
            // Each node is killed once in 2,000 seconds.
            let fleet = Fleet(nodes: nodes, seed: 5, faults: Fleet.Faults(crashes: 0.000_5 * Double(nodes)))
            fleet.run(calls: calls)
            return fleet
        }
        if calls > 10_000 {
            print("| nodes | answered by the node | requests to the server | operations of the service | messages |")
            for fleet in fleets { print(fleet.row(calls: calls)) }
        }
        #expect(fleets.allSatisfy { $0.mostAtServer <= 2 && $0.unanswered == 0 })
        // In a short run most keys are wanted for the first time.
        let (operations, messages) = calls < 10_000 ? (5.0, 4.0) : (3.5, 2.5)
        #expect(fleets.allSatisfy { Double($0.operations) < operations * Double(calls) })
        #expect(fleets.allSatisfy { Double($0.messages) < messages * Double(calls) })
        #expect(2 * fleets[3].operations < 3 * fleets[2].operations && 2 * fleets[3].requests < 3 * fleets[2].requests)
    }
}

/// Nodes with a cache of their own, a service of records and leases whose messages are lost or late, and a server, on one
/// simulated clock; each node's own clock is too fast or too slow. Times are in seconds.
private final class Fleet {
    struct Faults {
        var loss = 0.01
        /// The part of the messages that take up to a second.
        var lateness = 0.01
        /// Per second, in the whole fleet.
        var crashes = 0.5
        var hangs = 0.02
    }

    private enum Event {
        case call
        case crash
        case atService(Message, from: Work)
        case report(LeaseEvent, Work)
        case timer(Work)
        case looked(Work)
        case progress(Work)
        case fetched(Work)
    }

    private enum Message {
        case take(LeasePlace)
        case watch
        case tell(LeaseNews)
        case end(LeaseNews)

        /// The commands that the service carries out for it. Who waits subscribes, tells the holder, asks once more whether
        /// the holder is still there, and in the end subscribes no longer.
        var operations: Int { if case .watch = self { 4 } else { 1 } }
    }

    /// The fetch of a key in one node.
    private final class Work {
        let node: Int
        let key: Int
        var rules = LeaseRules(patience: .seconds(5), longestWait: .seconds(30), placesExpire: true)
        var calls: [Double] = []
        var isAtServer = false
        var isOver = false
        var hasMoved = false
        var willHang = false
        var timer = Double.infinity

        init(_ node: Int, _ key: Int) { (self.node, self.key) = (node, key) }
    }

    /// A key as the service knows it.
    private struct Lease {
        var holders: [LeasePlace: (work: Work, expires: Double)] = [:]
        // In order, as all that a random number follows: a seed gives one run.
        var watchers: [Work] = []
    }

    private static let (keys, entryLife, placeLife) = (400, 20.0, 10.0)

    private let faults: Faults
    private let rates: [Double]
    private var random: SeededRandom
    private var now = 0.0
    private var queue = Heap<Event>()
    private var rest = 0
    private var works: [[Int: Work]]
    private var leases: [Lease]
    /// When the record of a key ends, at the service and in each node.
    private var kept: [Double]
    private var own: [[Int: Double]]
    private var atServer: [Int]

    private(set) var mostAtServer = 0
    private(set) var answered = 0
    private(set) var lostWithNode = 0
    private(set) var crashes = 0
    /// The number of requests for entries that were kept.
    private(set) var needless = 0
    private(set) var messages = 0
    /// The look-ups and the changes of records and leases that the service has carried out.
    private(set) var operations = 0
    private(set) var hits = 0
    private(set) var requests = 0
    private(set) var longest = 0.0
    var unanswered: Int { works.reduce(0) { $0 + $1.values.reduce(0) { $0 + $1.calls.count } } }

    init(nodes: Int, seed: UInt64, faults: Faults = Faults()) {
        self.faults = faults
        var random = SeededRandom(seed)
        rates = (0..<nodes).map { _ in Double.random(in: 0.99...1.01, using: &random) }
        self.random = random
        works = Array(repeating: [:], count: nodes)
        own = Array(repeating: [:], count: nodes)
        leases = Array(repeating: Lease(), count: Self.keys)
        kept = Array(repeating: -.infinity, count: Self.keys)
        atServer = Array(repeating: 0, count: Self.keys)
    }

    func run(calls: Int) {
        rest = calls
        add(.call, after: 0)
        if faults.crashes > 0 { add(.crash, after: 1) }
        while let (time, event) = queue.next() {
            now = time
            happen(event)
        }
    }

    /// A row of the table, for one call each.
    func row(calls: Int) -> String {
        let numbers = [hits, requests, operations, messages].map { String(format: "%.3f", Double($0) / Double(calls)) }
        return "| \(works.count) | " + numbers.joined(separator: " | ") + " |"
    }

    private func add(_ event: Event, after time: Double) { queue.add(event, at: now + time) }

    private func chance(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &random) < probability }

    private func happen(_ event: Event) {
        switch event {
        case .call: call()
        case .crash: crash()
        case .atService(let message, let work): serve(message, work)
        case .report(let event, let work): if !work.isOver { handle(.reported(event), work) }
        case .timer(let work):
            work.timer = .infinity
            if !work.isOver { handle(.time, work) }
        case .looked(let work):
            if work.isOver { return }
            if find(work.key, work.node) { end(work, .kept) } else { handle(.turn(mayWait: true), work) }
        case .progress(let work): if work.isAtServer, !work.isOver { progress(work) }
        case .fetched(let work): if !work.isOver { fetched(work) }
        }
    }

    // MARK: Nodes

    private func call() {
        rest -= 1
        if rest > 0 { add(.call, after: Double.random(in: 0..<0.02, using: &random)) }
        let node = works.indices.randomElement(using: &random) ?? 0
        // A few keys are wanted by most.
        let key = Int(Double(Self.keys) * pow(Double.random(in: 0..<1, using: &random), 3))
        if own[node][key] ?? -.infinity > now {
            hits += 1
            return answered += 1
        }
        if let present = works[node][key] { return present.calls.append(now) }
        if find(key, node) { return answered += 1 }
        let work = Work(node, key)
        work.calls = [now]
        works[node][key] = work
        handle(.turn(mayWait: true), work)
    }

    /// Looks a record up at the service.
    private func find(_ key: Int, _ node: Int) -> Bool {
        operations += 1
        own[node][key] = kept[key]
        return kept[key] > now
    }

    private func crash() {
        guard rest > 0 else { return }
        add(.crash, after: Double.random(in: 0..<2, using: &random) / faults.crashes)
        // Mostly one that works.
        let busy = works.indices.filter { !works[$0].isEmpty }
        guard let node = busy.randomElement(using: &random) else { return }
        crashes += 1
        own[node] = [:]
        for (_, work) in works[node].sorted(by: { $0.key < $1.key }) {
            lostWithNode += work.calls.count
            leave(work)
        }
    }

    private func local(_ work: Work) -> Duration { .seconds(now * rates[work.node]) }

    private func handle(_ event: LeaseRules.Event, _ work: Work) {
        switch work.rules.handle(event, at: local(work)) {
        case .take(let place): send(.take(place), from: work)
        case .fetch: fetch(work)
        case .wait: send(.watch, from: work)
        case .look, .use: add(.looked(work), after: 0.002)
        case .fail: end(work, nil)
        case .tell: send(.tell(exchange(&work.hasMoved, with: false) ? .moving : .still), from: work)
        case .hurry, nil: break
        }
        guard !work.isOver, let due = work.rules.due else { return }
        let time = max(now, due / .seconds(1) / rates[work.node] + 1e-6)
        if time < work.timer {
            work.timer = time
            queue.add(.timer(work), at: time)
        }
    }

    private func fetch(_ work: Work) {
        if exchange(&work.isAtServer, with: true) { return }
        if kept[work.key] > now { needless += 1 }
        requests += 1
        atServer[work.key] += 1
        mostAtServer = max(mostAtServer, atServer[work.key])
        work.willHang = chance(faults.hangs)
        // The transport ends one that hangs.
        add(.fetched(work), after: work.willHang ? 40 : Double.random(in: 0.05..<4, using: &random))
        add(.progress(work), after: 0.5)
    }

    private func progress(_ work: Work) {
        work.hasMoved = !work.willHang
        add(.progress(work), after: 0.5)
    }

    private func fetched(_ work: Work) {
        if work.willHang { return end(work, .abandoned) }
        if chance(0.05) { return end(work, .failed(.status(404))) }
        operations += 1
        kept[work.key] = now + Self.entryLife
        own[work.node][work.key] = kept[work.key]
        end(work, .kept)
    }

    /// - Parameter outcome: `nil` for a failure of another.
    private func end(_ work: Work, _ outcome: LeaseNews?) {
        for start in work.calls { longest = max(longest, now - start) }
        answered += work.calls.count
        send(.end(outcome ?? .abandoned), from: work)
        leave(work)
    }

    private func leave(_ work: Work) {
        if exchange(&work.isAtServer, with: false) { atServer[work.key] -= 1 }
        work.isOver = true
        work.calls = []
        works[work.node][work.key] = nil
    }

    // MARK: The service

    private func send(_ message: Message, from work: Work) {
        messages += 1
        operations += message.operations
        deliver(.atService(message, from: work))
    }

    private func report(_ event: LeaseEvent, to work: Work) {
        messages += 1
        deliver(.report(event, work))
    }

    private func deliver(_ event: Event) {
        if chance(faults.loss) { return }
        add(event, after: Double.random(in: 0.0002..<(chance(faults.lateness) ? 1 : 0.003), using: &random))
    }

    private func serve(_ message: Message, _ work: Work) {
        let own = leases[work.key].holders.first { $0.value.work === work }?.key
        switch message {
        case .take(let place):
            if let (holder, expires) = leases[work.key].holders[place], holder !== work, expires > now {
                return report(.refused(place), to: work)
            }
            leases[work.key].holders[place] = (work, now + Self.placeLife)
            report(.taken(place, mayBeKept: true, lifetime: .seconds(Self.placeLife)), to: work)
        case .watch:
            if !leases[work.key].watchers.contains(where: { $0 === work }) { leases[work.key].watchers.append(work) }
            let holders = leases[work.key].holders.values.filter { $0.expires > now }
                .sorted { ($0.expires, $0.work.node) < ($1.expires, $1.work.node) }
            for holder in holders { report(.awaited(in: .fast), to: holder.work) }
            if holders.isEmpty { report(.gone(.first), to: work) }
        case .tell(let news):
            guard let own else { return report(.lost, to: work) }
            leases[work.key].holders[own]?.expires = now + Self.placeLife
            publish(news, of: work.key, by: own)
        case .end(let news):
            leases[work.key].watchers.removeAll { $0 === work }
            guard let own else { return }
            leases[work.key].holders[own] = nil
            publish(news, of: work.key, by: own)
        }
    }

    private func publish(_ news: LeaseNews, of key: Int, by place: LeasePlace) {
        for work in leases[key].watchers where !work.isOver { report(.told(news, by: place), to: work) }
        if news.isEnd { leases[key].watchers = [] }
    }
}

/// Things with times, the earliest first; of the same time, the one that was added first.
private struct Heap<Element> {
    private var items: [(time: Double, number: Int, element: Element)] = []
    private var number = 0

    mutating func add(_ element: Element, at time: Double) {
        number += 1
        items.append((time, number, element))
        var place = items.count - 1
        while place > 0, isEarlier(place, (place - 1) / 2) {
            items.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    mutating func next() -> (Double, Element)? {
        guard let first = items.first, let last = items.popLast() else { return nil }
        if !items.isEmpty {
            items[0] = last
            var place = 0
            while true {
                let children = [2 * place + 1, 2 * place + 2].filter { $0 < items.count }
                guard let least = children.min(by: { isEarlier($0, $1) }), isEarlier(least, place) else { break }
                items.swapAt(least, place)
                place = least
            }
        }
        return (first.time, first.element)
    }

    private func isEarlier(_ a: Int, _ b: Int) -> Bool {
        (items[a].time, items[a].number) < (items[b].time, items[b].number)
    }
}
