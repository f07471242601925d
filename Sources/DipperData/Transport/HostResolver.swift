import CCurl
import Foundation
import Synchronization

/// Looks up the addresses of hosts on threads of its own, so that a name server that does not answer holds up nobody but
/// those who wait for it. Cancelling a look-up is instant: its thread is left to itself.
final class HostResolver: Sendable {
    private let lookups: Mutex<HostLookups>
    private let lookUp: @Sendable (String) -> HostLookups.Answer
    private let start = ContinuousClock.now

    /// - Parameters:
    ///   - mostThreads: the most look-ups that go on, or hang, at a time.
    ///   - timeToLive: how long addresses are used without asking again. The system does not tell how long they hold.
    ///   - lookUp: asks the system; may block.
    init(
        mostThreads: Int = 32, timeToLive: Duration = .seconds(60),
        lookUp: @escaping @Sendable (String) -> HostLookups.Answer = SystemHosts.lookUp
    ) {
        lookups = Mutex(HostLookups(mostThreads: mostThreads, timeToLive: timeToLive))
        self.lookUp = lookUp
    }

    private var now: Duration { ContinuousClock.now - start }

    /// The known addresses of a host, without waiting.
    func addresses(of host: String) -> [HostAddress]? {
        lookups.withLock { $0.addresses(of: host, at: now) }
    }

    /// Replies once from any thread, or at once from this one; never after ``forget(_:)`` unless it has begun to.
    /// - Returns: what to give to ``forget(_:)``; `nil` if the reply was given.
    func resolve(_ host: String, _ reply: @escaping HostLookups.Reply) -> HostLookups.Ticket? {
        switch lookups.withLock({ $0.ask(host, at: now, reply: reply) }) {
        case .known(let addresses):
            reply(.success(addresses))
            return nil
        case .joined(let ticket, let startsThread):
            if startsThread, !SystemThread.startDetached(name: "dipper-dns", { self.run() }) {
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

/// The system's own way from names to addresses: its files, its name servers and whatever else it is set up to ask.
enum SystemHosts {
    static func lookUp(_ host: String) -> HostLookups.Answer {
        // libcurl has no room for longer ones, and no name that is asked for is longer.
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
