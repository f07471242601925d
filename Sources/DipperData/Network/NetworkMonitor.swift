import CMnl
import Foundation
import Logging
import ProcessShims
import Synchronization

/// The interface that tells whether hosts can be reached; `DipperTesting` has a manual monitor for tests.
///
/// ```swift
/// struct MeteredNetwork: NetworkMonitor {
///     let base = NetlinkMonitor.shared
///     var conditions: NetworkConditions { NetworkConditions(isConstrained: true, isExpensive: true) }
///     func canReach(_ host: String) -> Bool { base.canReach(host) }
///     func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation { base.observe(onChange) }
/// }
/// ```
public protocol NetworkMonitor: Sendable {
    /// Returns whether the host can be reached now. Never blocks.
    func canReach(_ host: String) -> Bool
    /// Calls `onChange` from any thread after each change that may affect ``NetworkMonitor/canReach(_:)`` or
    /// ``NetworkMonitor/conditions``, until the observation is released.
    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation
    /// The restrictions on the use of the network; none by default.
    var conditions: NetworkConditions { get }
}

extension NetworkMonitor {
    public var conditions: NetworkConditions { NetworkConditions() }
}

/// A network monitor for which every host is reachable, so that only back-off handles failures.
public struct AlwaysReachable: NetworkMonitor {
    /// Creates a monitor.
    public init() {}
    public func canReach(_ host: String) -> Bool { true }
    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        ChangeObservation(onEnd: {})
    }
}

/// A state of the network that a cache takes for the real one; see ``DataCache/simulatedNetwork``.
public enum SimulatedNetwork: String, Sendable, Hashable, CaseIterable {
    /// No host can be reached.
    case offline
    /// The hosts that can be reached are those of the real network, which is constrained.
    case constrained
}

/// Tells what another monitor tells, unless a state is simulated.
final class SimulatingMonitor: NetworkMonitor {
    private let base: any NetworkMonitor
    /// The place in ``SimulatedNetwork`` after 0 for none.
    private let simulated = Atomic<Int>(0)
    private let observers = Observers<@Sendable () -> Void>()

    init(_ base: any NetworkMonitor) { self.base = base }

    var simulation: SimulatedNetwork? {
        get {
            let place = simulated.load(ordering: .acquiring)
            return place == 0 ? nil : SimulatedNetwork.allCases[place - 1]
        }
        set {
            let place = newValue.flatMap { SimulatedNetwork.allCases.firstIndex(of: $0) }
            simulated.store(place.map { $0 + 1 } ?? 0, ordering: .releasing)
            for onChange in observers.all { onChange() }
        }
    }

    func canReach(_ host: String) -> Bool { simulation != .offline && base.canReach(host) }

    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let real = base.observe(onChange)
        return observers.observe(onChange) { real.end() }
    }

    var conditions: NetworkConditions {
        var conditions = base.conditions
        if simulation == .constrained { conditions.isConstrained = true }
        return conditions
    }
}

/// The restrictions on the use of a network.
public struct NetworkConditions: Sendable, Hashable {
    /// Whether the user has asked to use the network sparingly, as in a "low data mode".
    public var isConstrained: Bool
    /// Whether traffic costs money or battery, as on a mobile network.
    public var isExpensive: Bool

    /// Creates conditions; without arguments there is no restriction.
    public init(isConstrained: Bool = false, isExpensive: Bool = false) {
        self.isConstrained = isConstrained
        self.isExpensive = isExpensive
    }
}

/// A network monitor that asks the Linux kernel whether hosts can be reached, and that reports changes at once.
///
/// The monitor sends no packets and does not poll. An address counts as reachable if the kernel would send packets to
/// it over a link that is up. A name counts as reachable if there is a route to the internet, or a network that
/// consists not only of containers and virtual machines of this host; a name in `/etc/hosts` counts as its addresses.
/// This machine is always reachable.
///
/// The thread of the library hears of changes. No privilege is needed. Where the kernel
/// reports nothing, as in some sandboxes, every host counts as reachable, and the monitor logs this once.
public final class NetlinkMonitor: NetworkMonitor {
    /// The monitor that the whole program shares.
    public static let shared = NetlinkMonitor()

    private struct State {
        /// The number of watches that hear of the next change at once.
        var listening = 0
        /// The number of observations that hear of no change.
        var unwatchedObservations = 0
        var hasWarned = false
        var answers = ReachabilityAnswers()
        var hosts = KnownHosts()
        /// Whether a name was taken for reachable because the file of hosts had not been read.
        var hasGuessed = false
        /// When the file of hosts may be looked at again; `nil` while it is read.
        var nextReading: ContinuousClock.Instant? = .now

        /// The hosts known so far, if the file is to be looked at now, which is at most once a second.
        mutating func takeReading() -> KnownHosts? {
            guard nextReading.map({ $0 <= .now }) ?? false else { return nil }
            nextReading = nil
            return hosts
        }

        /// The answer about a host, if it is known; otherwise what the kernel is asked.
        mutating func question(about host: String) -> Question {
            if let known = unwatchedObservations > 0 ? true : answers.known(host) {
                return Question(known: known, changes: answers.changes, isRead: hosts.isRead)
            }
            let target = hosts.addresses(of: host)
            // Names that must be looked up share one answer, and the addresses of a family share a failure.
            let group = target.map { $0.addresses.first?.family == .v6 ? " v6" : " v4" } ?? " name"
            return Question(
                known: answers.known(group), target: target, group: group, changes: answers.changes,
                isRead: hosts.isRead, due: takeReading())
        }
    }

    private struct Question {
        let known: Bool?
        var target: (addresses: [IPAddress], zone: String?)?
        /// The name under which hosts share an answer.
        var group = ""
        let changes: Int
        let isRead: Bool
        /// The hosts known so far, if the file is to be looked at.
        var due: KnownHosts?
    }

    private let logger: Logger
    private let observers = Observers<@Sendable () -> Void>()
    private let state = Mutex(State())
    /// The conditions as bits.
    private let restrictions = Atomic<UInt8>(0)
    private let reader = DispatchQueue(label: "dipper.hosts", qos: .utility)

    /// Creates a monitor.
    /// - Parameter logger: receives one warning if the kernel reports nothing.
    public init(logger: Logger? = nil) {
        self.logger = (logger ?? .silent).category("network")
    }

    public func canReach(_ host: String) -> Bool {
        let question = state.withLock { $0.question(about: host) }
        if let due = question.due { readHosts(after: due) }
        if let known = question.known { return known }
        let target = question.target
        var (canReach, failure) = (true, NetlinkError?.none)
        do throws(NetlinkError) {
            canReach = try Netlink().canReach(target)
        } catch {
            failure = error
        }
        // A program that has no descriptor left for the question may have one soon.
        let silence = failure.flatMap { [EMFILE, ENFILE, ENOMEM].contains($0.code) ? nil : $0 }
        // A name may turn out to have an address once the file of hosts has been read.
        let isGuess = target == nil && !question.isRead
        if isGuess { canReach = true }
        state.withLock { [canReach] state in
            if isGuess { state.hasGuessed = true }
            for name in target == nil || silence != nil ? [host, question.group] : [host] {
                state.answers.keep(
                    canReach, for: name, isFailure: silence != nil, isWatched: state.listening > 0,
                    askedAt: question.changes)
            }
        }
        if let silence { warn(silence) }
        return canReach
    }

    /// Has the file of hosts read elsewhere if it has changed: it may be long, and a disk may hang.
    private func readHosts(after old: KnownHosts) {
        reader.async { [weak self] in
            let new = old.updated()
            guard let self else { return }
            let isNews = state.withLock { state in
                state.nextReading = .now + .seconds(1)
                guard let new else { return false }
                state.hosts = new
                state.answers.forget()
                return state.hasGuessed || old.isRead
            }
            if isNews { for observer in observers.all { observer() } }
        }
    }

    private func warn(_ error: NetlinkError) {
        let isNew = state.withLock { !exchange(&$0.hasWarned, with: true) }
        guard isNew else { return }
        logger.warning(
            "the kernel tells nothing of the network: every host counts as reachable",
            metadata: ["error": "\(error)"])
    }

    /// The conditions that ``setConditions(_:)`` has set; the kernel does not know them.
    public var conditions: NetworkConditions {
        let bits = restrictions.load(ordering: .acquiring)
        return NetworkConditions(isConstrained: bits & 1 != 0, isExpensive: bits & 2 != 0)
    }

    /// Sets the conditions, and calls the observers if they have changed.
    public func setConditions(_ conditions: NetworkConditions) {
        let bits: UInt8 = (conditions.isConstrained ? 1 : 0) | (conditions.isExpensive ? 2 : 0)
        if restrictions.exchange(bits, ordering: .acquiringAndReleasing) == bits { return }
        for observer in observers.all { observer() }
    }

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        if let due = state.withLock({ $0.takeReading() }) { readHosts(after: due) }
        var watch: NetlinkWatch?
        do throws(NetlinkError) {
            // Here, so that no change is missed.
            watch = NetlinkWatch(self, try Netlink(groups: Netlink.changes), onChange)
        } catch {
            lostWatch(error)
        }
        watch?.begin()
        return observers.observe(onChange) { [watch] in
            if let watch { watch.end() } else { self.endedUnwatched() }
        }
    }

    /// An observation hears of no change any more, so nothing may wait for one.
    fileprivate func lostWatch(_ error: NetlinkError) {
        state.withLock { $0.unwatchedObservations += 1 }
        warn(error)
    }

    /// Answers hold for longer while a watch listens, and until it hears of a change.
    fileprivate func setListening(_ listens: Bool) {
        state.withLock { state in
            state.listening += listens ? 1 : -1
            state.answers.forget()
        }
    }

    fileprivate func endedUnwatched() { state.withLock { $0.unwatchedObservations -= 1 } }
}

private struct ReachabilityAnswers {
    /// How long an answer holds if no watch tells of changes, and if one does.
    private static let life = Duration.milliseconds(10)
    private static let watchedLife = Duration.seconds(1)
    /// For a question that the kernel does not answer, which takes long.
    private static let rest = Duration.seconds(60)
    private static let mostAnswers = 1_024

    private var answers: [String: (canReach: Bool, until: ContinuousClock.Instant)] = [:]
    /// The number of changes heard. An answer to an earlier question no longer holds.
    private(set) var changes = 0

    func known(_ host: String) -> Bool? {
        answers[host].flatMap { .now < $0.until ? $0.canReach : nil }
    }

    mutating func keep(
        _ canReach: Bool, for host: String, isFailure: Bool, isWatched: Bool, askedAt changes: Int
    ) {
        guard changes == self.changes else { return }
        if answers.count >= Self.mostAnswers { answers = [:] }
        let life = isFailure ? Self.rest : isWatched ? Self.watchedLife : Self.life
        answers[host] = (canReach, .now + life)
    }

    mutating func forget() {
        answers = [:]
        changes += 1
    }
}

@Loop
private final class NetlinkWatch: LoopClient {
    /// From the first change to the call: plugging in a cable causes a dozen changes.
    private static let settling = Duration.milliseconds(20)
    private static let spacing = Duration.milliseconds(100)

    private let monitor: NetlinkMonitor
    private let socket: Netlink
    private let onChange: @Sendable () -> Void
    /// Calls the observer, which may be slow.
    private let queue = DispatchQueue(label: "dipper.observe")
    private var filter = NetlinkChangeFilter()
    private var seat: LoopSeat?
    private var due: ContinuousClock.Instant?
    private var lastCall = ContinuousClock.now
    private var isListening = false
    /// Whether the socket has failed, so that nothing is heard any more.
    private var isLost = false

    nonisolated init(
        _ monitor: NetlinkMonitor, _ socket: Netlink, _ onChange: @escaping @Sendable () -> Void
    ) {
        (self.monitor, self.socket, self.onChange) = (monitor, socket, onChange)
    }

    nonisolated func begin() {
        Loop.post { [self] in
            seat = Loop.add(self)
            listen(insteadOf: 0)
        }
    }

    nonisolated func end() {
        Loop.post { [self] in
            seat?.leave()
            seat = nil
            stopListening()
            if isLost { monitor.endedUnwatched() }
        }
    }

    /// Until the next event, so that a burst wakes the thread once.
    private func listen(insteadOf old: UInt32) {
        let once = EPOLLIN.rawValue | EPOLLONESHOT.rawValue
        seat?.watch(socket.descriptor, for: once, insteadOf: old)
        isListening = true
        monitor.setListening(true)
    }

    private func stopListening() {
        if exchange(&isListening, with: false) { monitor.setListening(false) }
    }

    func ready(_ descriptor: Int32, _ events: UInt32) {
        stopListening()
        due = max(.now + Self.settling, lastCall + Self.spacing)
    }

    func turn() -> ContinuousClock.Instant? {
        guard let due, due <= .now else { return due }
        self.due = nil
        lastCall = .now
        var isChanged = false
        // A later change is heard in the next round.
        do throws(NetlinkError) {
            let isLossy = try socket.drain { type, payload in
                if filter.isChange(type, payload) { isChanged = true }
            }
            if isLossy { (filter, isChanged) = (NetlinkChangeFilter(), true) }
            listen(insteadOf: EPOLLONESHOT.rawValue)
        } catch {
            (isChanged, isLost) = (true, true)
            monitor.lostWatch(error)
        }
        if isChanged { queue.async(execute: onChange) }
        return nil
    }
}

/// Tells changes from repetitions, which the kernel sends for example after each advertisement of a router.
private struct NetlinkChangeFilter {
    /// Hashes of the last messages, by that of what each is about.
    private var contents: [Int: Int] = [:]

    mutating func isChange(_ type: Int, _ payload: UnsafeRawBufferPointer) -> Bool {
        guard let (about, content) = Self.read(type, payload) else {
            // Something is gone, or the type is unknown.
            contents = [:]
            return true
        }
        if contents.count > 4_096 { contents = [:] }
        let isChange = contents.updateValue(content, forKey: about) != content
        // With a link the kernel drops routes without a word.
        if isChange, type == RTM_NEWLINK { contents = [about: content] }
        return isChange
    }

    private static func read(_ type: Int, _ payload: UnsafeRawBufferPointer) -> (about: Int, content: Int)? {
        var (about, content) = (Hasher(), Hasher())
        about.combine(type)
        func add<Header>(_ header: Header.Type, naming names: [Int], where isContent: (Int) -> Bool) {
            for (type, value) in NetlinkAttributes(payload, after: header) where isContent(type) {
                content.combine(type)
                content.combine(bytes: value)
                guard names.contains(type) else { continue }
                about.combine(type)
                about.combine(bytes: value)
            }
        }
        switch type {
        case RTM_NEWLINK:
            guard let header = payload.structure(ifinfomsg.self) else { return nil }
            about.combine(header.ifi_index)
            content.combine(header.ifi_flags)
            add(ifinfomsg.self, naming: []) { $0 == Int(IFLA_MASTER) }
        case RTM_NEWADDR:
            guard let header = payload.structure(ifaddrmsg.self) else { return nil }
            about.combine(header.ifa_index)
            content.combine(header.ifa_flags)
            add(ifaddrmsg.self, naming: [Int(IFA_LOCAL), Int(IFA_ADDRESS)]) { $0 != Int(IFA_CACHEINFO) }
        case RTM_NEWROUTE:
            // Only routes of IPv6 are repeated. The kernel does not report the end of a replaced route.
            guard let header = payload.structure(rtmsg.self), Int32(header.rtm_family) == AF_INET6 else { return nil }
            for number in [header.rtm_dst_len, header.rtm_src_len, header.rtm_tos] { about.combine(number) }
            content.combine(header.rtm_type)
            content.combine(header.rtm_flags)
            let names = [RTA_DST, RTA_SRC, RTA_TABLE, RTA_PRIORITY].map { Int($0.rawValue) }
            let volatile = [RTA_CACHEINFO, RTA_EXPIRES].map { Int($0.rawValue) }
            add(rtmsg.self, naming: names) { !volatile.contains($0) }
        default: return nil
        }
        return (about.finalize(), content.finalize())
    }
}
