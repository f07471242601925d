import CMnl
import Dispatch
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
    /// Calls `onChange` from any thread after each change that may affect ``canReach(_:)`` or ``conditions``, until the
    /// observation is released.
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
/// The thread of a cache hears of changes; other observers share a thread. No privilege is needed. Where the kernel
/// reports nothing, as in some sandboxes, every host counts as reachable, and the monitor logs this once.
public final class NetlinkMonitor: NetworkMonitor {
    /// The monitor that the whole program shares.
    public static let shared = NetlinkMonitor()

    private struct State {
        var observers = Observers()
        /// The number of observations that hear of no change.
        var deafObservations = 0
        var conditions = NetworkConditions()
        var hasWarned = false
    }

    private let logger: Logger
    private let state = Mutex(State())
    private let answers = Mutex(NetlinkAnswers())
    private let questions = Mutex(NetlinkQuestions())

    /// Creates a monitor.
    /// - Parameter logger: receives one warning if the kernel reports nothing.
    public init(logger: Logger? = nil) {
        self.logger = (logger ?? .silent).category("network")
    }

    public func canReach(_ host: String) -> Bool {
        if state.withLock({ $0.deafObservations > 0 }) { return true }
        if let known = answers.withLock({ $0.known(host) }) { return known }
        let (canReach, failure) = questions.withLock { $0.answer(about: host, answers) }
        if let failure { warn(failure) }
        return canReach
    }

    private func warn(_ error: NetlinkError) {
        let isNew = state.withLock { !exchange(&$0.hasWarned, with: true) }
        guard isNew else { return }
        logger.warning(
            "the kernel tells nothing of the network: every host counts as reachable",
            metadata: ["error": "\(error)"])
    }

    /// The conditions that ``setConditions(_:)`` has set; the kernel does not know them.
    public var conditions: NetworkConditions { state.withLock { $0.conditions } }

    /// Sets the conditions, and calls the observers if they have changed.
    public func setConditions(_ conditions: NetworkConditions) {
        let observers = state.withLock { state in
            let old = exchange(&state.conditions, with: conditions)
            return old == conditions ? [] : state.observers.all
        }
        for observer in observers { observer() }
    }

    // MARK: Observation

    public func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let queue = DispatchQueue(label: "dipper.observe")
        return observe(on: EventLoop.forObservers, onChange) { queue.async(execute: onChange) }
    }

    /// - Parameters:
    ///   - onChange: called after a change of the conditions, on the thread that sets them.
    ///   - onNews: called after a change in the kernel, on the loop; `nil` for `onChange`.
    func observe(
        on loop: EventLoop?, _ onChange: @escaping @Sendable () -> Void, onNews: (@Sendable () -> Void)? = nil
    ) -> ChangeObservation {
        let number = state.withLock { $0.observers.add(onChange) }
        let end: @Sendable () -> Void
        do throws(NetlinkError) {
            guard let loop else { throw NetlinkError("epoll") }
            // Here, so that no change is missed.
            let watch = NetlinkWatch(self, on: loop, try Netlink(groups: Netlink.changes), onNews ?? onChange)
            loop.post { watch.begin() }
            end = { if !loop.post({ watch.end() }) { watch.end() } }
        } catch {
            cannotWatch(error)
            end = { self.endDeafObservation() }
        }
        return ChangeObservation {
            let observer = self.state.withLock { $0.observers.remove(number) }
            _ = consume observer
            end()
        }
    }

    fileprivate func forgetAnswers() { answers.withLock { $0.forget() } }

    fileprivate func cannotWatch(_ error: NetlinkError) {
        state.withLock { $0.deafObservations += 1 }
        warn(error)
    }

    fileprivate func endDeafObservation() { state.withLock { $0.deafObservations -= 1 } }
}

private struct NetlinkAnswers {
    /// How long an answer holds. A change may not have been heard yet.
    private static let life = Duration.milliseconds(10)
    /// For a question that the kernel does not answer, which takes long.
    private static let rest = Duration.seconds(60)
    private static let mostAnswers = 1_024

    private var answers: [String: (canReach: Bool, until: ContinuousClock.Instant)] = [:]
    /// The number of changes heard. An answer to an earlier question no longer holds.
    private(set) var changes = 0

    func known(_ host: String) -> Bool? {
        answers[host].flatMap { .now < $0.until ? $0.canReach : nil }
    }

    mutating func keep(_ canReach: Bool, for hosts: [String], isFailure: Bool, askedAt changes: Int) {
        guard changes == self.changes else { return }
        if answers.count >= Self.mostAnswers { answers = [:] }
        for host in hosts { answers[host] = (canReach, .now + (isFailure ? Self.rest : Self.life)) }
    }

    mutating func forget() {
        answers = [:]
        changes += 1
    }
}

private struct NetlinkQuestions {
    private var socket: Netlink?
    private var hosts = KnownHosts()

    mutating func answer(
        about host: String, _ answers: borrowing Mutex<NetlinkAnswers>
    ) -> (canReach: Bool, failure: NetlinkError?) {
        hosts.update()
        let target = hosts.addresses(of: host)
        // Others may have asked meanwhile. Names that must be looked up share one answer, under the empty name.
        let (known, changes) = answers.withLock {
            ($0.known(host) ?? (target == nil ? $0.known("") : nil), $0.changes)
        }
        if let known { return (known, nil) }
        var (canReach, failure) = (true, NetlinkError?.none)
        do throws(NetlinkError) {
            let socket: Netlink
            if let open = self.socket { socket = open } else { socket = try Netlink() }
            self.socket = socket
            canReach = try socket.canReach(target)
        } catch {
            socket = nil
            failure = error
        }
        let keepers = target == nil ? [host, ""] : [host]
        answers.withLock { $0.keep(canReach, for: keepers, isFailure: failure != nil, askedAt: changes) }
        return (canReach, failure)
    }
}

// Used on the thread of the loop only, and after the loop has ended by its last owner.
private final class NetlinkWatch: LoopClient, @unchecked Sendable {
    /// From the first change to the call: plugging in a cable causes a dozen changes.
    private static let settling = Duration.milliseconds(20)
    private static let spacing = Duration.milliseconds(100)

    private let monitor: NetlinkMonitor
    private let loop: EventLoop
    private let onNews: @Sendable () -> Void
    private var socket: Netlink?
    private var news = NetlinkNews()
    private var isBroken = false
    private var client: UInt32 = 0
    private var due: ContinuousClock.Instant?
    private var lastCall = ContinuousClock.now

    init(_ monitor: NetlinkMonitor, on loop: EventLoop, _ socket: Netlink, _ onNews: @escaping @Sendable () -> Void) {
        (self.monitor, self.loop, self.socket, self.onNews) = (monitor, loop, socket, onNews)
    }

    func begin() {
        guard let socket else { return }
        client = loop.add(self)
        loop.watch(socket.descriptor, for: EPOLLIN.rawValue, insteadOf: 0, client: client)
    }

    func end() {
        if isBroken { monitor.endDeafObservation() } else { loop.remove(client: client) }
        socket = nil
    }

    func ready(_ descriptor: Int32, _ events: UInt32) {
        guard due == nil, let socket else { return }
        // Not polled until the call, so that a burst wakes the thread once.
        loop.watch(socket.descriptor, for: 0, insteadOf: EPOLLIN.rawValue, client: client)
        due = max(.now + Self.settling, lastCall + Self.spacing)
    }

    func turn() -> ContinuousClock.Instant? {
        guard let due, due <= .now, let socket else { return due }
        self.due = nil
        lastCall = .now
        var isNews = false
        do throws(NetlinkError) {
            // A later change is heard in the next round.
            try socket.drain { type, payload in
                if news.take(type, payload) { isNews = true }
            }
            loop.watch(socket.descriptor, for: EPOLLIN.rawValue, insteadOf: 0, client: client)
        } catch {
            isNews = true
            isBroken = true
            loop.remove(client: client)
            self.socket = nil
            monitor.cannotWatch(error)
        }
        monitor.forgetAnswers()
        if isNews { onNews() }
        return nil
    }
}

/// Recognises news: the kernel repeats itself, for example after each advertisement of a router.
private struct NetlinkNews {
    private var said: [Int: Int] = [:]

    mutating func take(_ type: Int, _ payload: UnsafeRawBufferPointer) -> Bool {
        guard let (about, content) = Self.read(type, payload) else {
            // Something is gone, or the type is unknown.
            said = [:]
            return true
        }
        if said.count > 4_096 { said = [:] }
        let isNews = said.updateValue(content, forKey: about) != content
        // With a link the kernel drops routes without a word.
        if isNews, type == RTM_NEWLINK { said = [about: content] }
        return isNews
    }

    private static func read(_ type: Int, _ payload: UnsafeRawBufferPointer) -> (about: Int, content: Int)? {
        var (about, content) = (Hasher(), Hasher())
        about.combine(type)
        switch type {
        case RTM_NEWLINK:
            guard let header = payload.structure(ifinfomsg.self) else { return nil }
            about.combine(header.ifi_index)
            content.combine(header.ifi_flags)
            for (type, value) in NetlinkAttributes(payload, after: ifinfomsg.self) where type == Int(IFLA_MASTER) {
                content.combine(value.structure(UInt32.self))
            }
        case RTM_NEWADDR:
            guard let header = payload.structure(ifaddrmsg.self) else { return nil }
            about.combine(header.ifa_index)
            content.combine(header.ifa_flags)
            for (type, value) in NetlinkAttributes(payload, after: ifaddrmsg.self) where type != Int(IFA_CACHEINFO) {
                add(type, value, to: &content)
                if [Int(IFA_LOCAL), Int(IFA_ADDRESS)].contains(type) { add(type, value, to: &about) }
            }
        case RTM_NEWROUTE:
            // Only routes of IPv6 are repeated. The kernel does not report the end of a replaced route.
            guard let header = payload.structure(rtmsg.self), Int32(header.rtm_family) == AF_INET6 else { return nil }
            for number in [header.rtm_dst_len, header.rtm_src_len, header.rtm_tos] { about.combine(number) }
            content.combine(header.rtm_type)
            content.combine(header.rtm_flags)
            let names = [RTA_DST, RTA_SRC, RTA_TABLE, RTA_PRIORITY].map { Int($0.rawValue) }
            let volatile = [RTA_CACHEINFO, RTA_EXPIRES].map { Int($0.rawValue) }
            for (type, value) in NetlinkAttributes(payload, after: rtmsg.self) where !volatile.contains(type) {
                add(type, value, to: &content)
                if names.contains(type) { add(type, value, to: &about) }
            }
        default: return nil
        }
        return (about.finalize(), content.finalize())
    }

    private static func add(_ type: Int, _ value: UnsafeRawBufferPointer, to hasher: inout Hasher) {
        hasher.combine(type)
        hasher.combine(bytes: value)
    }
}
