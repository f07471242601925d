import CCurl
import Foundation
import Synchronization

/// A resolver that looks up the addresses of hosts on threads of its own.
///
/// A name server that does not answer delays only the callers that wait for it. Cancelling a look-up is instant: its
/// thread finishes by itself.
final class HostResolver: Sendable {
    private let lookups: Mutex<HostLookups>
    private let lookUp: @Sendable (String) -> HostLookups.Answer
    private let start = ContinuousClock.now

    /// Creates a resolver.
    /// - Parameters:
    ///   - mostThreads: the most look-ups that run, or hang, at a time.
    ///   - timeToLive: how long addresses are used without a new look-up. The system does not report how long they are
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

    /// Returns the known addresses of a host without waiting; `nil` if the host must be looked up.
    func addresses(of host: String) -> [HostAddress]? {
        lookups.withLock { $0.addresses(of: host, at: now) }
    }

    /// Looks up a host. Replies once, on any thread, or on this one before the method returns. After ``forget(_:)`` the
    /// reply is not called, unless it was about to be called already.
    /// - Returns: the ticket for ``forget(_:)``; `nil` if the reply has been given.
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

    /// Withdraws a reply.
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
