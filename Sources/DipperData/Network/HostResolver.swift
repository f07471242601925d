import CCurl
import Foundation

/// Looks up the addresses of hosts, each on its own thread, so that a name server that does not answer delays only the
/// transfers that wait for it. Transfers that wait for one name share a look-up.
///
/// A look-up that hangs keeps its thread, so the number of threads is bounded, and further names wait.
@Loop
final class HostResolver {
    typealias Answer = Result<[HostAddress], DipperError>

    @Loop
    final class Lookup {
        fileprivate let host: String
        fileprivate var replies: [ObjectIdentifier: (Answer) -> Void] = [:]

        fileprivate init(_ host: String) { self.host = host }

        func forget(_ waiter: AnyObject) { replies[ObjectIdentifier(waiter)] = nil }
    }

    private static let mostThreads = 32
    private static let mostKnown = 1_000
    /// How long addresses are used: the system does not report how long they are valid.
    private static let timeToLive = Duration.seconds(60)

    private var known: [String: (addresses: [HostAddress], until: ContinuousClock.Instant)] = [:]
    private var current: [String: Lookup] = [:]
    private var queue = Deque<Lookup>()
    private var threads = 0

    nonisolated init() {}

    func addresses(of host: String) -> [HostAddress]? {
        if let loopback = KnownHosts.loopback(host) { return loopback.map { HostAddress($0) } }
        return known[host].flatMap { ContinuousClock.now < $0.until ? $0.addresses : nil }
    }

    /// - Parameter reply: called once, on the loop, after this method has returned, unless the waiter is forgotten
    ///   first.
    func lookUp(_ host: String, for waiter: AnyObject, _ reply: @escaping (Answer) -> Void) -> Lookup {
        let lookup = current[host] ?? Lookup(host)
        lookup.replies[ObjectIdentifier(waiter)] = reply
        if current[host] == nil {
            current[host] = lookup
            queue.append(lookup)
            startNext()
        }
        return lookup
    }

    /// New transfers join only look-ups that have not begun.
    func networkChanged() {
        known = [:]
        current = Dictionary(queue.map { ($0.host, $0) }) { $1 }
    }

    private func startNext() {
        while threads < Self.mostThreads, let lookup = queue.popFirst() {
            guard !lookup.replies.isEmpty else {
                if current[lookup.host] === lookup { current[lookup.host] = nil }
                continue
            }
            threads += 1
            let finish: @Sendable (Answer) -> Void = { answer in
                Loop.post { self.finished(lookup, answer) }
            }
            guard JoinableThread(name: "dipper-dns", { finish(Self.ask(lookup.host)) }) == nil else { continue }
            // The end of another look-up starts this one.
            if threads > 1 {
                threads -= 1
                return queue.prepend(lookup)
            }
            finish(.failure(.hostNotFound.with(detail: "the system gives no thread")))
        }
    }

    private func finished(_ lookup: Lookup, _ answer: Answer) {
        threads -= 1
        // Otherwise the network has changed.
        if current[lookup.host] === lookup {
            current[lookup.host] = nil
            if case .success(let addresses) = answer {
                if known.count >= Self.mostKnown { known = known.filter { .now < $0.value.until } }
                if known.count >= Self.mostKnown { known = [:] }
                known[lookup.host] = (addresses, ContinuousClock.now + Self.timeToLive)
            }
        }
        for reply in exchange(&lookup.replies, with: [:]).values { reply(answer) }
        startNext()
    }

    private nonisolated static func ask(_ host: String) -> Answer {
        // The longest name of DNS has 253 bytes, and libcurl has no room for more.
        guard !host.isEmpty, host.utf8.count < 254 else { return .failure(.hostNotFound) }
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = dipper_sock_stream
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &first)
        guard code == 0, let list = first else {
            return .failure(.hostNotFound.with(detail: String(cString: gai_strerror(code))))
        }
        defer { freeaddrinfo(list) }
        var addresses: [HostAddress] = []
        for entry in sequence(first: list, next: { $0.pointee.ai_next }) {
            if let address = entry.pointee.ai_addr.flatMap({ HostAddress($0) }), !addresses.contains(address) {
                addresses.append(address)
            }
        }
        return addresses.isEmpty ? .failure(.hostNotFound) : .success(addresses)
    }
}

struct HostAddress: Sendable, Hashable {
    let address: IPAddress
    /// The index of the link of a link-local address; otherwise zero.
    var scope: UInt32 = 0

    fileprivate init(_ address: IPAddress) { self.address = address }

    fileprivate init?(_ name: UnsafeMutablePointer<sockaddr>) {
        guard let address = IPAddress(name) else { return nil }
        self.address = address
        if address.isLinkLocal, address.family == .v6 {
            scope = name.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_scope_id }
        }
    }

    /// In libcurl's form.
    var text: String { address.family == .v6 ? "[\(address)]" : "\(address)" }
}

/// The hosts whose addresses are known without a name server, such as those of `/etc/hosts`; see `hosts(5)`.
struct KnownHosts: Sendable {
    private static let path = "/etc/hosts"
    private static let largest = 64 << 20
    private static let loopback = [IPAddress("127.0.0.1"), IPAddress("::1")].compactMap { $0 }

    /// By a hash of the name in lower case, without a final dot. A file that blocks names may have many.
    private var names: [UInt64: [IPAddress]] = [:]
    private var stamp: [Int]?

    var isRead: Bool { stamp != nil }

    /// Reads the file if it has changed, which may take long; `nil` if it has not, or cannot be read now.
    func updated() -> KnownHosts? {
        // A pipe must not block the thread.
        let descriptor = open(Self.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        defer { if descriptor >= 0 { close(descriptor) } }
        if descriptor < 0, [EMFILE, ENFILE, ENOMEM].contains(errno) { return nil }
        var status = stat()
        let isFile =
            descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
            && status.st_size <= Self.largest
        let time = status.st_mtim
        var new = KnownHosts()
        let stamp = [time.tv_sec, time.tv_nsec, Int(status.st_size), Int(truncatingIfNeeded: status.st_ino)]
        new.stamp = isFile ? stamp : []
        guard new.stamp != self.stamp else { return nil }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
        if isFile { new.take((try? file.read(upToCount: Self.largest)) ?? Data()) }
        return new
    }

    private mutating func take(_ text: Data) {
        var last: [IPAddress] = []
        for line in text.split(separator: UInt8(ascii: "\n")) {
            let words = line.prefix { $0 != UInt8(ascii: "#") }.split { [0x20, 0x09, 0x0D].contains($0) }
                .map { String(decoding: $0, as: UTF8.self) }
            guard let address = words.first.flatMap({ IPAddress($0) })?.unmapped else { continue }
            // Names of one address share its list.
            if last != [address] { last = [address] }
            for name in words.dropFirst() { names[Self.hash(name)] = names[Self.hash(name)].map { $0 + last } ?? last }
        }
    }

    private static func hash(_ name: String) -> UInt64 { Data(canonical(name).utf8).digest }

    /// - Parameter host: a name or an address. An IPv6 address may have brackets and a zone (RFC 6874).
    /// - Returns: the addresses, and the zone if it has one; `nil` for a name that must be looked up.
    func addresses(of host: String) -> (addresses: [IPAddress], zone: String?)? {
        let bare = host.withoutBrackets
        let parts = bare.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        if let address = parts.first.flatMap({ IPAddress(host: $0) }) {
            return ([address.unmapped], parts.count > 1 ? Self.zone(parts[1]) : nil)
        }
        return (Self.loopback(bare) ?? names[Self.hash(bare)]).map { ($0, nil) }
    }

    /// The addresses of the names of this machine, even if the hosts file says otherwise (RFC 6761, 6.3).
    static func loopback(_ host: String) -> [IPAddress]? {
        let name = canonical(host)
        return name == "localhost" || name.hasSuffix(".localhost") ? loopback : nil
    }

    static func canonical(_ name: String) -> String {
        (name.hasSuffix(".") ? String(name.dropLast()) : name).lowercased()
    }

    /// Removes the `25` of a percent-encoded percent sign before the zone.
    private static func zone(_ text: String) -> String {
        text.hasPrefix("25") && text.count > 2 ? String(text.dropFirst(2)) : text
    }
}
