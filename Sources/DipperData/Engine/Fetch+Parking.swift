import Foundation

/// The wait of a fetch for the network, or for its next attempt.
@Loop
struct Parking {
    /// The timer of the present back-off, and when it ends.
    fileprivate var backOff: (timer: Engine.TimerID, due: Duration)?
    /// The place among those that wait for the network; `nil` if the fetch does not.
    fileprivate var offline: OfflineFetches.Place?
    /// Whether the calls hear of the next attempt, because they have heard of the failure before.
    fileprivate var isRetry = false

    /// The end of the present back-off.
    var due: Duration? { backOff?.due }
    /// The beginning of the present wait for the network.
    var offlineSince: Duration? { offline?.since }
}

/// A fetch that waits for the network, or for its next attempt, in no slot of a queue.
extension Fetch {
    /// Takes the slot of a fetch until its next attempt. Its partial body stays in memory if there is room.
    /// - Parameter delay: `nil` to wait for the network.
    func park(for delay: Duration?, isSilent: Bool = false) {
        leaveSlot()
        findings.parking.isRetry = !isSilent
        if !isSilent, let failure {
            for waiter in waiters { waiter.hear(.failure(failure, isFatal: false)) }
        }
        engine.events.leftNetwork(self, .parked)
        if let delay = delay ?? (canReach ? engine.options.wakeSpacing : nil) {
            return backOff(for: delay)
        }
        // Another cache may have a way to the host.
        endLease()
        let hop = destination.map(transport.firstHop) ?? ""
        findings.parking.offline = engine.offline.add(self, waitingFor: hop, since: engine.time.now())
    }

    func leaveSlot() {
        let held = exchange(&findings.held, with: 0)
        engine.account { findings.park(insteadOf: held, in: &$0) }
        engine.queues.park(self)
        settle()
    }

    private func backOff(for delay: Duration) {
        // Clocks trap if a sum does not fit.
        let due = engine.time.now() + min(delay, .seconds(1_000_000_000))
        findings.parking.backOff = (engine.timers.add(at: due, .backOff(self)), due)
    }

    func backOffElapsed() {
        findings.parking.backOff = nil
        wake()
    }

    func endBackOff() {
        if place == .parked, findings.parking.backOff != nil { wake() }
    }

    func wake() {
        cancelBackOff()
        engine.queues.remove(self)
        findings.budget.hold(at: engine.time.now())
        enqueue()
    }

    /// Ends the wait of a fetch that ends.
    func leaveParking() {
        guard knownFindings != nil else { return }
        cancelBackOff()
        leaveOffline()
    }

    private func cancelBackOff() {
        if let backOff = exchange(&findings.parking.backOff, with: nil) { engine.timers.cancel(backOff.timer) }
    }

    private func leaveOffline() {
        if let place = exchange(&findings.parking.offline, with: nil) { engine.offline.remove(place) }
    }

    /// Tells the calls that a new attempt begins after the failure of which they have heard.
    func tellRetry() {
        guard exchange(&findings.parking.isRetry, with: false), let failure else { return }
        for waiter in waiters { waiter.hear(.retry(after: failure)) }
    }

    /// Whether the fetch waits for the network, for its next attempt, or for another process.
    var isWaiting: Bool { waitsForNetwork || knownFindings?.parking.backOff != nil || lease?.isWaiting == true }

    // MARK: Network

    var waitsForNetwork: Bool { knownFindings?.parking.offline != nil }

    /// The queue of the fetch, or the calls that share it, may decide otherwise about the network.
    func permissionChanged() {
        guard canReach else { return watchUnreachable() }
        if waitsForNetwork { wake(after: .zero) }
    }

    /// Whether the queue of a fetch, and one of its calls, may use the network in its present conditions.
    var mayUseNetwork: Bool {
        if engine.network.conditions == NetworkConditions() || sources.provider != nil { return true }
        return engine.queues.configuration(of: queue).allowsConstrainedNetwork && demand.allowsConstrainedNetwork
    }

    var canReach: Bool {
        mayUseNetwork && destination.map(reaches) ?? true
    }

    func reaches(_ url: URL) -> Bool { engine.network.canReach(transport.firstHop(to: url)) }

    func wake(after delay: Duration) {
        runClock()
        leaveOffline()
        backOff(for: delay)
    }

    /// Cancels a transfer if its host cannot be reached and no bytes arrive for a while: its fetch then waits for the
    /// network. Bytes that still arrive show that the routes do not tell the whole truth.
    func watchUnreachable(since seen: (number: UInt64, received: Int)? = nil) {
        guard let run, !isOver else { return }
        if !mayUseNetwork, run.transfer != nil { return run.lose() }
        // One look at a time, however often the network changes.
        if seen.map({ $0.number != run.number }) ?? (run.watched == run.number) { return }
        run.watched = 0
        guard !canReach else { return }
        let received = run.reception.received
        if let seen, received == seen.received, run.transfer != nil { return run.lose() }
        run.watched = run.number
        engine.timers.add(
            at: engine.time.now() + engine.options.lostNetworkGrace, .grace(self, run.number, received: received))
    }
}

/// The fetches that wait for the network, by the host that they ask first.
@Loop
struct OfflineFetches {
    /// The place of a fetch in the table.
    struct Place {
        fileprivate let host: String
        fileprivate let number: UInt64
        let since: Duration
    }

    private var hosts: [String: [UInt64: Fetch]] = [:]
    private var lastNumber: UInt64 = 0

    nonisolated init() {}

    mutating func add(_ fetch: Fetch, waitingFor host: String, since now: Duration) -> Place {
        lastNumber += 1
        hosts[host, default: [:]][lastNumber] = fetch
        return Place(host: host, number: lastNumber, since: now)
    }

    mutating func remove(_ place: Place) {
        hosts[place.host]?[place.number] = nil
        if hosts[place.host]?.isEmpty == true { hosts[place.host] = nil }
    }

    /// Returns the fetches whose host can be reached, in the order in which they began to wait. Asks once for each host.
    func reached(by network: any NetworkMonitor) -> [Fetch] {
        let reached = hosts.keys.filter(network.canReach)
        return reached.flatMap { hosts[$0] ?? [:] }.sorted { $0.key < $1.key }.map(\.value)
    }
}
