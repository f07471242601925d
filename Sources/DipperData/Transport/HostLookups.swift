import DequeModule

/// An address of a host.
struct HostAddress: Sendable, Hashable {
    /// The address as text, without a zone.
    let text: String
    /// The index of the link of a link-local address; zero for other addresses.
    var scope: UInt32 = 0
}

/// The names of hosts that are known or being looked up: a value that starts no threads and asks no name servers.
///
/// All callers that ask for one name share one look-up. A look-up that hangs cannot be stopped and keeps its thread,
/// even if no caller waits for it any more. So the number of threads is bounded, and further names wait for a thread.
/// Names that are known do not wait.
struct HostLookups {
    typealias Answer = Result<[HostAddress], DipperError>
    typealias Reply = @Sendable (Answer) -> Void

    /// The result of asking for a name.
    enum Asked {
        case known([HostAddress])
        /// The caller has joined a look-up and gets a reply later. If `startsThread` is set the caller must start one
        /// more thread that calls ``next()``.
        case joined(Ticket, startsThread: Bool)
    }

    /// The identity of one reply that a caller waits for.
    struct Ticket: Sendable, Hashable {
        fileprivate let lookup: Int
        fileprivate let number: Int
    }

    private struct Lookup {
        let name: String
        var replies: [Int: Reply] = [:]
        /// Whether the network has changed since the look-up began: later callers start a new look-up.
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

    /// Returns the known addresses of a name; `nil` if the name must be looked up.
    func addresses(of name: String, at now: Duration) -> [HostAddress]? {
        known[name].flatMap { now < $0.until ? $0.addresses : nil }
    }

    /// Asks for a name: returns known addresses, or adds the reply to a look-up.
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

    /// Removes a reply and returns it, so that the caller can release it outside its lock.
    mutating func forget(_ ticket: Ticket) -> Reply? {
        lookups[ticket.lookup]?.replies.removeValue(forKey: ticket.number)
    }

    /// Returns the next look-up for a thread; `nil` if the thread must end.
    mutating func next() -> (lookup: Int, name: String)? {
        while let number = queue.popFirst() {
            guard let lookup = lookups[number] else { continue }
            if !lookup.replies.isEmpty { return (number, lookup.name) }
            remove(number)
        }
        threads -= 1
        return nil
    }

    /// Ends a look-up and returns the replies to call with its answer.
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

    /// Records that a thread could not be started. Returns the replies to call with a failure if no other thread is
    /// left.
    mutating func threadFailed() -> [Reply] {
        threads -= 1
        guard threads == 0 else { return [] }
        let replies = queue.compactMap { lookups[$0] }.flatMap(\.replies.values)
        for number in queue { remove(number) }
        queue = []
        return replies
    }

    /// Forgets the known addresses, because the network has changed. New callers do not join look-ups that are running.
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
