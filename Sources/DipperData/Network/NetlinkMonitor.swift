import Foundation
import Logging
import Synchronization

/// A network monitor that asks the Linux kernel whether hosts can be reached, and that reports changes at once.
///
/// The monitor looks at links, addresses and routes, never at the network itself: it sends no packets and does not
/// poll. An address counts as reachable if a route leads to it over a link that is up. A name counts as reachable if
/// there is a route to the internet, or at least one into a network that does not consist only of containers and
/// virtual machines of this host. A name in `/etc/hosts` counts as its addresses. This machine is always reachable.
///
/// One thread sleeps in the kernel while there are observers. No privilege is needed. Where the kernel reports nothing,
/// as in some sandboxes, every host counts as reachable, and the monitor logs this once.
///
/// ```swift
/// print(NetlinkMonitor.shared.canReach("example.org") ? "online" : "offline")
/// ```
public final class NetlinkMonitor: NetworkMonitor {
    /// The monitor that the whole program shares.
    public static let shared = NetlinkMonitor()

    typealias MakeSocket = @Sendable (_ groups: UInt32) throws(NetlinkError) -> NetlinkSocket

    private enum Knowledge: Equatable {
        case nothing
        /// The kernel does not report its routing.
        case refused
        case routing(RoutingState)
    }

    private struct State {
        var observers = Observers()
        /// The watch; `nil` while there are no observers.
        var watch: NetlinkWatch?
        var latest = Knowledge.nothing
        /// The time of the last look.
        var looked = ContinuousClock.now
        /// Whether something has changed since the last look.
        var isStale = false
        /// A counter that changes with each look of the watch and when the last observer leaves.
        var round = 0
        /// The knowledge when the observers were called last, or when they began to observe.
        var told = Knowledge.nothing
        /// Whether an answer has been given since then from other knowledge, on which the caller may have acted.
        var hasAnsweredOtherwise = false
        var hasWarned = false
        /// The answers since the last look and their times, because the same hosts are asked about again and again.
        var answers: [String: (canReach: Bool, time: ContinuousClock.Instant)] = [:]
        var conditions = NetworkConditions()
    }

    let makeSocket: MakeSocket
    private let logger: Logger
    private let hosts: HostsReader
    private let state = Mutex(State())

    /// Creates a monitor.
    /// - Parameter logger: receives one warning if the kernel reports nothing.
    public convenience init(logger: Logger = Logger(label: "dipper")) {
        self.init(logger: logger) { groups throws(NetlinkError) in try NetlinkSocket(groups: groups) }
    }

    init(logger: Logger, hostsFile: String = "/etc/hosts", makeSocket: @escaping MakeSocket) {
        self.logger = logger.category("network")
        hosts = HostsReader(path: hostsFile)
        self.makeSocket = makeSocket
    }

    // MARK: Queries

    public func canReach(_ host: String) -> Bool {
        let (known, round) = state.withLock { ($0.isStale ? nil : $0.answers[host], $0.round) }
        if let known, .now - known.time < Self.answerLife { return known.canReach }
        guard let routing = routing() else { return true }
        let answer = routing.canReach(HostTarget(host, hosts: hosts.hosts))
        state.withLock { state in
            guard state.watch != nil, !state.isStale, state.round == round else { return }
            if state.answers.count >= 256 { state.answers = [:] }
            state.answers[host] = (answer, .now)
        }
        return answer
    }

    /// The time after which the hosts file is looked at again.
    private static let answerLife = Duration.seconds(1)

    /// The conditions set last with ``setConditions(_:)``: the kernel does not know them.
    public var conditions: NetworkConditions { state.withLock { $0.conditions } }

    /// Sets the conditions that this monitor reports. Calls the observers if the conditions have changed.
    ///
    /// ```swift
    /// NetlinkMonitor.shared.setConditions(NetworkConditions(isConstrained: true))
    /// ```
    public func setConditions(_ conditions: NetworkConditions) {
        let observers = state.withLock { state in
            let old = exchange(&state.conditions, with: conditions)
            return old == conditions ? [] : state.observers.all
        }
        for observer in observers { observer() }
    }

    /// Returns the kernel's routing now; `nil` if the kernel does not report it.
    private func routing() -> RoutingState? {
        let (known, watch, round) = state.withLock { state -> (Knowledge?, NetlinkWatch?, Int) in
            guard state.watch != nil else { return (nil, nil, 0) }
            // A thousand jobs that fail together need one look, not a thousand.
            let isFresh = !state.isStale || .now - state.looked < .milliseconds(10)
            return (isFresh && state.latest != .nothing ? state.latest : nil, state.watch, state.round)
        }
        let knowledge = known ?? watch.map { lookBetween($0, round) } ?? look()
        if case .routing(let routing) = knowledge { return routing }
        return nil
    }

    /// Looks at the routing earlier than the watch, whose thread still waits for a burst of changes to end.
    private func lookBetween(_ watch: NetlinkWatch, _ round: Int) -> Knowledge {
        let found = look()
        let newer = update(watch) { state -> Knowledge? in
            // The watch may have looked meanwhile.
            if state.round != round { return state.latest }
            state.latest = found
            state.looked = .now
            if state.told == .nothing { state.told = found }
            if state.told != found { state.hasAnsweredOtherwise = true }
            return nil
        }
        return newer ?? found
    }

    private func look() -> Knowledge {
        do throws(NetlinkError) {
            return .routing(try makeSocket(0).dump())
        } catch {
            warn(error)
            return .refused
        }
    }

    private func warn(_ error: NetlinkError) {
        let isNew = state.withLock { !exchange(&$0.hasWarned, with: true) }
        guard isNew else { return }
        logger.warning(
            "the kernel tells nothing of the network: every host counts as reachable",
            metadata: ["error": "\(error)"])
    }

    /// Changes the state, unless the watch has been replaced or stopped.
    private func update<Result: Sendable>(
        _ watch: NetlinkWatch, _ body: (inout State) -> Result?
    ) -> Result? {
        let (result, old) = state.withLock { state -> (Result?, [Knowledge]) in
            guard state.watch === watch else { return (nil, []) }
            // The old values may be large, so they are released after the lock.
            let old = [state.latest, state.told]
            return (body(&state), old)
        }
        _ = consume old
        return result
    }

    // MARK: Observation

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let spare = NetlinkWatch()
        let (number, isFirst) = state.withLock { state in
            let isFirst = state.watch == nil
            if isFirst { state.watch = spare }
            return (state.observers.add(onChange), isFirst)
        }
        if isFirst { spare.start(for: self) }
        return ChangeObservation { self.endObservation(number) }
    }

    private func endObservation(_ number: Int) {
        let (observer, last) = state.withLock { state in
            let observer = state.observers.remove(number)
            guard state.observers.count == 0 else { return (observer, Last?.none) }
            let last = Last(watch: state.watch, latest: state.latest, told: state.told)
            state.watch = nil
            state.latest = .nothing
            state.told = .nothing
            state.isStale = false
            state.answers = [:]
            state.round += 1
            state.hasAnsweredOtherwise = false
            return (observer, last)
        }
        last?.watch?.stop()
        _ = consume observer
    }

    /// The state that goes with the last observer, to be released outside the lock.
    private struct Last {
        var watch: NetlinkWatch?
        var latest: Knowledge
        var told: Knowledge
    }

    // MARK: Watch

    /// The running watch, for tests.
    var watch: NetlinkWatch? { state.withLock { $0.watch } }

    /// Records that something has changed since the last look.
    func noticed(_ watch: NetlinkWatch) {
        state.withLock { state in
            if state.watch === watch { state.isStale = true }
        }
    }

    /// Looks at the routing, and calls the observers if it has changed for them.
    func look(_ watch: NetlinkWatch) {
        learned(look(), watch)
    }

    /// Records that the watch has failed and ended: the kernel counts as reporting nothing.
    func refused(_ error: NetlinkError, _ watch: NetlinkWatch) {
        warn(error)
        learned(.refused, watch)
    }

    private func learned(_ found: Knowledge, _ watch: NetlinkWatch) {
        let observers = update(watch) { state -> [@Sendable () -> Void]? in
            state.latest = found
            state.isStale = false
            state.answers = [:]
            state.looked = .now
            state.round += 1
            let isNews =
                state.told != .nothing && (state.told != found || state.hasAnsweredOtherwise)
            state.told = found
            state.hasAnsweredOtherwise = false
            return isNews ? state.observers.all : nil
        }
        for observer in observers ?? [] { observer() }
    }
}
