import Foundation
import Logging
import Synchronization

/// Knows from the Linux kernel whether there is a way to a host, and hears at once when that changes.
///
/// It looks at links, addresses and routes, never at the network itself: no packet is sent and nothing is polled.
/// An address counts as reachable if a route leads to it over a link that is up. A name counts as reachable if there
/// is a route to the internet, or at least one into a network that is not made of containers and virtual machines
/// of this host alone; names in `/etc/hosts` are their addresses. This machine is always reachable.
///
/// One thread sleeps in the kernel as long as anyone observes. No privilege is needed. Where the kernel tells
/// nothing, as in some sandboxes, every host counts as reachable, and the log says so once.
public final class NetlinkMonitor: NetworkMonitor {
    /// The monitor of the program.
    public static let shared = NetlinkMonitor()

    typealias MakeSocket = @Sendable (_ groups: UInt32) throws(NetlinkError) -> NetlinkSocket

    private enum Knowledge: Equatable {
        case nothing
        /// The kernel does not tell.
        case refused
        case routing(RoutingState)
    }

    private struct State {
        var observers = Observers()
        /// There as long as there are observers.
        var watch: NetlinkWatch?
        var latest = Knowledge.nothing
        var looked = ContinuousClock.now
        /// Something has changed since.
        var isStale = false
        /// How often the watch has looked.
        var round = 0
        /// What was known when the observers were called last, or began.
        var told = Knowledge.nothing
        /// An answer was given from something else since, which somebody may have acted on.
        var hasAnsweredOtherwise = false
        var hasWarned = false
        /// What was said since the last look, and when: the same hosts are asked about again and again.
        var answers: [String: (canReach: Bool, time: ContinuousClock.Instant)] = [:]
        var conditions = NetworkConditions()
    }

    let makeSocket: MakeSocket
    private let logger: Logger
    private let hosts: HostsReader
    private let state = Mutex(State())

    /// - Parameter logger: told, once, if the kernel tells nothing.
    public convenience init(logger: Logger = Logger(label: "dipper")) {
        self.init(logger: logger) { groups throws(NetlinkError) in try NetlinkSocket(groups: groups) }
    }

    init(logger: Logger, hostsFile: String = "/etc/hosts", makeSocket: @escaping MakeSocket) {
        self.logger = logger.category("network")
        hosts = HostsReader(path: hostsFile)
        self.makeSocket = makeSocket
    }

    // MARK: Asking

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

    /// A file of hosts may have changed since.
    private static let answerLife = Duration.seconds(1)

    /// What is known of the network beside its routes, as it was set last: the kernel does not know.
    public var conditions: NetworkConditions { state.withLock { $0.conditions } }

    /// Says what is known of the network, for whoever asks this monitor. Observers are called if that is new.
    public func setConditions(_ conditions: NetworkConditions) {
        let observers = state.withLock { state in
            let old = exchange(&state.conditions, with: conditions)
            return old == conditions ? [] : state.observers.all
        }
        for observer in observers { observer() }
    }

    /// How the kernel routes now; `nil` if it does not tell.
    private func routing() -> RoutingState? {
        let (known, watch, round) = state.withLock { state -> (Knowledge?, NetlinkWatch?, Int) in
            guard state.watch != nil else { return (nil, nil, 0) }
            // A thousand jobs that fail at one time need not look a thousand times.
            let isFresh = !state.isStale || .now - state.looked < .milliseconds(10)
            return (isFresh && state.latest != .nothing ? state.latest : nil, state.watch, state.round)
        }
        let knowledge = known ?? watch.map { lookBetween($0, round) } ?? look()
        if case .routing(let routing) = knowledge { return routing }
        return nil
    }

    /// Looks before the watch does, whose thread still lets a burst pass.
    private func lookBetween(_ watch: NetlinkWatch, _ round: Int) -> Knowledge {
        let found = look()
        let newer = update(watch) { state -> Knowledge? in
            // The thread may have been faster.
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

    /// Changes what is known, if the watch is still the one.
    private func update<Result: Sendable>(
        _ watch: NetlinkWatch, _ body: (inout State) -> Result?
    ) -> Result? {
        let (result, old) = state.withLock { state -> (Result?, [Knowledge]) in
            guard state.watch === watch else { return (nil, []) }
            // Held until the lock is released, for they may be large.
            let old = [state.latest, state.told]
            return (body(&state), old)
        }
        _ = consume old
        return result
    }

    // MARK: Observing

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

    /// What goes with the last observer, to be let go of outside the lock.
    private struct Last {
        var watch: NetlinkWatch?
        var latest: Knowledge
        var told: Knowledge
    }

    // MARK: The watch's side

    /// The watch that runs; for tests.
    var watch: NetlinkWatch? { state.withLock { $0.watch } }

    func noticed(_ watch: NetlinkWatch) {
        state.withLock { state in
            if state.watch === watch { state.isStale = true }
        }
    }

    /// Looks at how things are, and calls the observers if that is new to them.
    func look(_ watch: NetlinkWatch) {
        learned(look(), watch)
    }

    /// The watch hears nothing, and has ended.
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
