import Foundation

/// A fetch that waits for the network, or for its next attempt, in no slot of a queue.
extension Fetch {
    /// Takes the slot of a fetch until its next attempt. Its partial body stays in memory if there is room.
    /// - Parameter delay: `nil` to wait for the network.
    func park(for delay: Duration?, isSilent: Bool = false) {
        leaveSlot()
        findings.isRetry = !isSilent
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
        findings.offline = engine.offline.add(self, waitingFor: hop, since: engine.time.now())
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
        findings.backOff = (engine.timers.add(at: due, .backOff(self)), due)
    }

    func endBackOff() {
        if place == .parked, findings.backOff != nil { wake() }
    }

    func wake() {
        if let backOff = exchange(&findings.backOff, with: nil) { engine.timers.cancel(backOff.timer) }
        engine.queues.remove(self)
        findings.budget.hold(at: engine.time.now())
        enqueue()
    }

    // MARK: Network

    /// The queue of the fetch, or the calls that share it, may decide otherwise about the network.
    func permissionChanged() {
        guard canReach else { return watchUnreachable() }
        if knownFindings?.offline != nil { wake(after: .zero) }
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
        if let place = exchange(&findings.offline, with: nil) { engine.offline.remove(place) }
        backOff(for: delay)
    }

    /// Cancels a transfer if its host cannot be reached and no bytes arrive for a while: its fetch then waits for the
    /// network. Bytes that still arrive show that the routes do not tell the whole truth.
    func watchUnreachable(since seen: (number: UInt64, received: Int)? = nil) {
        guard let run, !isOver else { return }
        if !mayUseNetwork, let transfer = run.transfer {
            run.isLost = true
            return transfer.cancel()
        }
        // One look at a time, however often the network changes.
        if seen.map({ $0.number != run.number }) ?? (run.watched == run.number) { return }
        run.watched = 0
        guard !canReach else { return }
        let received = run.reception.received
        if let seen, received == seen.received, let transfer = run.transfer {
            run.isLost = true
            return transfer.cancel()
        }
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
