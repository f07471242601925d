import CCurl
import DequeModule
import Foundation
import Synchronization

/// Looks up the addresses of hosts on threads of its own, so that a name server that does not answer delays only the
/// callers that wait for it. Cancelling a look-up is instant: its thread finishes by itself.
final class HostResolver: Sendable {
    private let lookups: Mutex<HostLookups>
    private let lookUp: @Sendable (String) -> HostLookups.Answer
    private let start = ContinuousClock.now

    /// - Parameters:
    ///   - mostThreads: the most look-ups that run, or hang, at a time.
    ///   - timeToLive: how long addresses are used without a new look-up: the system does not report how long they are
    ///     valid.
    ///   - lookUp: asks the system; may block.
    init(
        mostThreads: Int = 32, timeToLive: Duration = .seconds(60),
        lookUp: @escaping @Sendable (String) -> HostLookups.Answer = SystemHosts.lookUp
    ) {
        lookups = Mutex(HostLookups(mostThreads: mostThreads, timeToLive: timeToLive))
        self.lookUp = lookUp
    }

    private var now: Duration { ContinuousClock.now - start }

    func addresses(of host: String) -> [HostAddress]? {
        lookups.withLock { $0.addresses(of: host, at: now) }
    }

    /// Replies once, on any thread, or on this one before the method returns. After ``forget(_:)`` the reply is not
    /// called, unless it was about to be.
    /// - Returns: `nil` if the reply has been given.
    func resolve(_ host: String, _ reply: @escaping HostLookups.Reply) -> HostLookups.Ticket? {
        switch lookups.withLock({ $0.ask(host, at: now, reply: reply) }) {
        case .known(let addresses):
            reply(.success(addresses))
            return nil
        case .joined(let ticket, let startsThread):
            if startsThread, !JoinableThread.startDetached(name: "dipper-dns", { self.run() }) {
                let failure = DipperError.hostNotFound.with(detail: "the system gives no thread")
                for reply in lookups.withLock({ $0.threadFailed() }) { reply(.failure(failure)) }
            }
            return ticket
        }
    }

    func forget(_ ticket: HostLookups.Ticket) {
        let reply = lookups.withLock { $0.forget(ticket) }
        withExtendedLifetime(reply) {}
    }

    func networkChanged() { lookups.withLock { $0.networkChanged() } }

    private func run() {
        while let (number, name) = lookups.withLock({ $0.next() }) {
            let answer = lookUp(name)
            for reply in lookups.withLock({ $0.finished(number, answer, at: now) }) { reply(answer) }
        }
    }
}

/// The system's name resolution: its files, its name servers and all else that it is configured to ask.
enum SystemHosts {
    static func lookUp(_ host: String) -> HostLookups.Answer {
        // A name in DNS has at most 253 bytes, and libcurl has no room for longer ones.
        guard !host.isEmpty, host.utf8.count < 254 else { return .failure(.hostNotFound) }
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = dipper_sock_stream
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &first)
        guard code == 0 else {
            return .failure(.hostNotFound.with(detail: String(cString: gai_strerror(code))))
        }
        defer { freeaddrinfo(first) }
        var addresses: [HostAddress] = []
        var next = first
        while let entry = next {
            if let address = entry.pointee.ai_addr.flatMap({ HostAddress($0) }), !addresses.contains(address) {
                addresses.append(address)
            }
            next = entry.pointee.ai_next
        }
        return addresses.isEmpty ? .failure(.hostNotFound) : .success(addresses)
    }
}

extension HostAddress {
    fileprivate init?(_ address: UnsafeMutablePointer<sockaddr>) {
        guard let plain = IPAddress(address) else { return nil }
        text = plain.description
        if plain.isLinkLocal, Int32(address.pointee.sa_family) == AF_INET6 {
            scope = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_scope_id }
        }
    }
}

struct HostAddress: Sendable, Hashable {
    let text: String
    /// The index of the link of a link-local address; zero for other addresses.
    var scope: UInt32 = 0
}

/// The names of hosts that are known or being looked up: a value that starts no threads and asks no name servers.
///
/// All callers that ask for one name share one look-up. A look-up that hangs cannot be stopped and keeps its thread,
/// even if no caller waits for it any more, so the number of threads is bounded, and further names wait.
struct HostLookups {
    typealias Answer = Result<[HostAddress], DipperError>
    typealias Reply = @Sendable (Answer) -> Void

    enum Asked {
        case known([HostAddress])
        /// The reply comes later. With `startsThread`, the caller must start one more thread that calls ``next()``.
        case joined(Ticket, startsThread: Bool)
    }

    struct Ticket: Sendable, Hashable {
        fileprivate let lookup: Int
        fileprivate let number: Int
    }

    private struct Lookup {
        let name: String
        var replies: [Int: Reply] = [:]
        /// The network has changed since the look-up began, so later callers start a new one.
        var isOutdated = false
    }

    private let mostThreads: Int
    private let timeToLive: Duration
    private var lookups: [Int: Lookup] = [:]
    /// The look-ups that callers can join, by name.
    private var current: [String: Int] = [:]
    private var queue = Deque<Int>()
    private var known: [String: (addresses: [HostAddress], until: Duration)] = [:]
    private(set) var threads = 0
    private var lastNumber = 0

    init(mostThreads: Int, timeToLive: Duration) {
        self.mostThreads = mostThreads
        self.timeToLive = timeToLive
    }

    func addresses(of name: String, at now: Duration) -> [HostAddress]? {
        known[name].flatMap { now < $0.until ? $0.addresses : nil }
    }

    mutating func ask(_ name: String, at now: Duration, reply: @escaping Reply) -> Asked {
        if let addresses = addresses(of: name, at: now) { return .known(addresses) }
        lastNumber += 1
        let ticket = Ticket(lookup: current[name] ?? lastNumber, number: lastNumber)
        if current[name] == nil {
            current[name] = lastNumber
            lookups[lastNumber] = Lookup(name: name)
            queue.append(lastNumber)
        }
        lookups[ticket.lookup]?.replies[ticket.number] = reply
        let startsThread = threads < min(mostThreads, threads + queue.count)
        if startsThread { threads += 1 }
        return .joined(ticket, startsThread: startsThread)
    }

    /// The caller releases the reply outside its lock.
    mutating func forget(_ ticket: Ticket) -> Reply? {
        lookups[ticket.lookup]?.replies.removeValue(forKey: ticket.number)
    }

    mutating func next() -> (lookup: Int, name: String)? {
        while let number = queue.popFirst() {
            guard let lookup = lookups[number] else { continue }
            if !lookup.replies.isEmpty { return (number, lookup.name) }
            remove(number)
        }
        threads -= 1
        return nil
    }

    mutating func finished(_ number: Int, _ answer: Answer, at now: Duration) -> [Reply] {
        guard let lookup = lookups[number] else { return [] }
        remove(number)
        if case .success(let addresses) = answer, !lookup.isOutdated {
            if known.count >= Self.mostKnown { known = known.filter { now < $0.value.until } }
            if known.count >= Self.mostKnown { known = [:] }
            known[lookup.name] = (addresses, now + timeToLive)
        }
        return Array(lookup.replies.values)
    }

    /// A thread could not be started. Returns the replies to call with a failure if no other thread is left.
    mutating func threadFailed() -> [Reply] {
        threads -= 1
        guard threads == 0 else { return [] }
        let replies = queue.compactMap { lookups[$0] }.flatMap(\.replies.values)
        for number in queue { remove(number) }
        queue = []
        return replies
    }

    /// New callers do not join look-ups that are running.
    mutating func networkChanged() {
        known = [:]
        for number in current.values where !queue.contains(number) { lookups[number]?.isOutdated = true }
        current = current.filter { lookups[$0.value]?.isOutdated == false }
    }

    private mutating func remove(_ number: Int) {
        guard let lookup = lookups.removeValue(forKey: number) else { return }
        if current[lookup.name] == number { current[lookup.name] = nil }
    }

    private static let mostKnown = 1_000
}

/// The meaning of a URL's host, as far as it is known without asking a name server.
enum HostTarget: Hashable, Sendable {
    /// Over the link that the zone names, if there is one.
    case addresses([IPAddress], zone: String? = nil)
    case name

    /// - Parameters:
    ///   - host: a name or an address. An IPv6 address may have brackets and a zone (RFC 6874).
    ///   - hosts: the names that are known without a look-up.
    init(_ host: String, hosts: HostsFile = HostsFile()) {
        let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        let parts = bare.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        if let address = parts.first.flatMap({ IPAddress(host: $0) }) {
            self = .addresses([address.unmapped], zone: parts.count > 1 ? Self.zone(parts[1]) : nil)
            return
        }
        let name = HostsFile.canonical(bare)
        if name == "localhost" || name.hasSuffix(".localhost") {
            // Localhost names are loopback, regardless of the hosts file (RFC 6761, 6.3).
            self = .addresses(Self.loopback)
        } else if let known = hosts.addresses[name] {
            self = .addresses(known)
        } else {
            self = .name
        }
    }

    private static let loopback = [IPAddress("127.0.0.1"), IPAddress("::1")].compactMap { $0 }

    /// Removes the `25` of a percent-encoded percent sign, which URLs put before the zone.
    private static func zone(_ text: String) -> String {
        text.hasPrefix("25") && text.count > 2 ? String(text.dropFirst(2)) : text
    }
}

/// The names of a file like `/etc/hosts`; see `hosts(5)`.
struct HostsFile: Sendable, Equatable {
    /// By name, in lower case, without a dot at the end.
    private(set) var addresses: [String: [IPAddress]] = [:]

    init() {}

    init(_ text: String) {
        for line in text.split(whereSeparator: \.isNewline) {
            let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let first = words.first, let address = IPAddress(Self.withoutZone(first)) else { continue }
            for name in words.dropFirst() {
                addresses[Self.canonical(String(name)), default: []].append(address.unmapped)
            }
        }
    }

    static func canonical(_ name: String) -> String {
        (name.hasSuffix(".") ? String(name.dropLast()) : name).lowercased()
    }

    private static func withoutZone(_ word: Substring) -> String {
        String(word.prefix { $0 != "%" })
    }
}

/// Reads a hosts file, and again when it has changed.
final class HostsReader: Sendable {
    private struct Stamp: Equatable {
        var seconds: Int
        var nanoseconds: Int
        var size: Int64
        var number: UInt64
    }

    private struct State {
        var stamp: Stamp?
        var hosts = HostsFile()
    }

    private let path: String
    private let state = Mutex(State())

    init(path: String) {
        self.path = path
    }

    var hosts: HostsFile {
        let stamp = stamp()
        if let known = state.withLock({ $0.stamp == stamp ? $0.hosts : nil }) { return known }
        let text = (try? Data(contentsOf: URL(fileURLWithPath: path))).map { String(decoding: $0, as: UTF8.self) }
        let hosts = HostsFile(text ?? "")
        let old = state.withLock { exchange(&$0, with: State(stamp: stamp, hosts: hosts)) }
        _ = consume old
        return hosts
    }

    private func stamp() -> Stamp? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Stamp(
            seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec, size: Int64(status.st_size),
            number: UInt64(status.st_ino))
    }
}
