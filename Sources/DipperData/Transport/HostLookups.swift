import DequeModule

/// An address that a host's name stands for.
struct HostAddress: Sendable, Hashable {
    /// Without a zone.
    let text: String
    /// The number of the link that a link-local address is of; zero if there is none.
    var scope: UInt32 = 0
}

/// Which names of hosts are being looked up and which are known: a value that starts no thread and asks nobody.
///
/// A name is looked up once for all who ask. Nobody can stop a look-up that hangs: it keeps its thread, whoever is still
/// interested, so the number of threads is bounded, and further names wait for one. Names that are known do not.
struct HostLookups {
    typealias Answer = Result<[HostAddress], DipperError>
    typealias Reply = @Sendable (Answer) -> Void

    /// The outcome of asking for a name.
    enum Asked {
        case known([HostAddress])
        /// The reply comes; `startsThread` if the caller is to start one more thread that calls ``next()``.
        case joined(Ticket, startsThread: Bool)
    }

    /// Whose interest a reply is.
    struct Ticket: Sendable, Hashable {
        fileprivate let lookup: Int
        fileprivate let number: Int
    }

    private struct Lookup {
        let name: String
        var replies: [Int: Reply] = [:]
        /// The network has changed since: others ask anew.
        var isOutdated = false
    }

    private let mostThreads: Int
    private let timeToLive: Duration
    private var lookups: [Int: Lookup] = [:]
    /// The look-ups to join, by name.
    private var current: [String: Int] = [:]
    private var queue = Deque<Int>()
    private var known: [String: (addresses: [HostAddress], until: Duration)] = [:]
    private(set) var threads = 0
    private var lastNumber = 0

    init(mostThreads: Int, timeToLive: Duration) {
        self.mostThreads = mostThreads
        self.timeToLive = timeToLive
    }

    /// The known addresses of a name; `nil` if they have to be looked up.
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

    /// Nobody is to be told any more. The reply is to be let go of without a lock.
    mutating func forget(_ ticket: Ticket) -> Reply? {
        lookups[ticket.lookup]?.replies.removeValue(forKey: ticket.number)
    }

    /// The next look-up of a thread; `nil` if the thread is to end.
    mutating func next() -> (lookup: Int, name: String)? {
        while let number = queue.popFirst() {
            guard let lookup = lookups[number] else { continue }
            if !lookup.replies.isEmpty { return (number, lookup.name) }
            remove(number)
        }
        threads -= 1
        return nil
    }

    /// A look-up has ended. Returns whom to tell.
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

    /// The system gives no thread. Returns whom to tell that there will be no answer.
    mutating func threadFailed() -> [Reply] {
        threads -= 1
        guard threads == 0 else { return [] }
        let replies = queue.compactMap { lookups[$0] }.flatMap(\.replies.values)
        for number in queue { remove(number) }
        queue = []
        return replies
    }

    /// The network has changed: what is known, and what is being asked, may be wrong now.
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
