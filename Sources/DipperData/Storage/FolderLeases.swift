import Foundation
import ProcessShims

/// The leases of the caches and processes that share a folder.
///
/// The kernel says who holds a lease (`LeaseFile`), in a microsecond and without a message. Only who is refused connects
/// to the holder, and hears its news. A connection that closes tells that the holder is dead. Nothing here opens a file
/// on the loop, or waits.
@Loop
final class FolderLeases: LeaseService, LoopClient {
    nonisolated let name = "folder"
    nonisolated let placesExpire = false

    private nonisolated let file: LeaseFile
    /// Opens connections.
    private nonisolated let queue = DispatchQueue(label: "dipper.leases")
    private var seat: LoopSeat?
    private var isClosed = false
    fileprivate var held: [UInt64: FolderClaim] = [:]
    /// The ends of the latest leases, if others are there: one that was refused before may ask late.
    private var ended: [UInt64: LeaseNews] = [:]
    private var lines: [Int32: LeaseLine] = [:]
    /// The connections to holders, by their numbers, also those that are being opened.
    private var holders: [Int: LeaseLine] = [:]
    private var unsent: [LeaseLine] = []
    /// The size of the file at the latest moment when nobody else was found there.
    private var quiet: (size: off_t, since: Date)?
    /// When the listener is watched again, which has had no descriptor for a connection.
    private var restEnd: ContinuousClock.Instant?

    nonisolated init(_ file: LeaseFile) {
        self.file = file
        // In this order: who comes now changes the size afterwards.
        let size = file.size
        quiet = file.hasOthers ? nil : (size, file.isFirst ? .distantPast : Date())
    }

    nonisolated func isIn(_ root: Folder) -> Bool { file.isIn(root) }

    nonisolated func claim(_ key: CacheKey, _ report: @escaping @Sendable (LeaseEvent) -> Void) -> any LeaseClaim {
        FolderClaim(UInt64(bitPattern: Int64(EntryIndex.id(of: key))), report, self)
    }

    /// Ends the connections. The claims that are left keep their places until their own ends.
    nonisolated func close() {
        file.removeSocket()
        // Without a thread nothing is open.
        Loop.post(waits: false) {
            self.isClosed = true
            for line in Array(self.lines.values) + Array(self.holders.values) { self.end(line) }
            self.seat?.watch(self.file.listener, for: 0, insteadOf: EPOLLIN.rawValue)
            self.seat?.leave()
            self.seat = nil
        }
    }

    // MARK: Places

    fileprivate func take(_ place: LeasePlace, _ lookedUp: Date, _ claim: FolderClaim) {
        // A lock says nothing among the fetches of one cache, which do not wait for one another here.
        guard !isClosed, held[claim.id] == nil else { return claim.report(.unavailable) }
        switch file.lock(claim.id, place) {
        case .taken:
            _ = present
            held[claim.id] = claim
            if !ended.isEmpty { ended[claim.id] = nil }
            claim.place = place
            stopWatching(claim)
            claim.report(.taken(place, mayBeKept: mayHaveChanged(since: lookedUp), lifetime: nil))
        case .held(let member):
            if let other = claim.holders.updateValue(member, forKey: place), other != member {
                stopWatching(claim, at: other)
            }
            claim.report(.refused(place))
        case .failed: claim.report(.unavailable)
        }
    }

    /// Whether another member may have kept something since a time of the system's clock.
    private func mayHaveChanged(since time: Date) -> Bool {
        let size = file.size
        if let quiet, quiet.size == size, quiet.since <= time { return false }
        quiet = file.hasOthers ? nil : (size, Date())
        return true
    }

    fileprivate func end(_ claim: FolderClaim, _ outcome: LeaseNews) {
        stopWatching(claim)
        guard let place = exchange(&claim.place, with: nil) else { return }
        held[claim.id] = nil
        if outcome != .abandoned, quiet?.size != file.size {
            if ended.count >= Self.mostEnded { ended = [:] }
            ended[claim.id] = outcome
        }
        file.unlock(claim.id, place)
        tell(outcome, of: claim.id)
        for line in lines.values { line.wants[claim.id] = nil }
    }

    fileprivate func tell(_ news: LeaseNews, of id: UInt64) {
        for line in lines.values where line.wants[id] != nil { send(news.code, id, to: line) }
    }

    // MARK: Waiting

    fileprivate func watch(_ claim: FolderClaim, in queue: FetchQueue) {
        for (place, member) in claim.holders {
            let line = line(to: member)
            line.watchers[claim.id, default: []].removeAll { $0.claim === claim }
            line.watchers[claim.id, default: []].append((claim, place))
            send(LeaseMessage.wants[queue] ?? 0, claim.id, to: line)
        }
    }

    private func stopWatching(_ claim: FolderClaim) {
        for member in exchange(&claim.holders, with: [:]).values { stopWatching(claim, at: member) }
    }

    private func stopWatching(_ claim: FolderClaim, at member: Int) {
        guard let line = holders[member], line.watchers[claim.id] != nil else { return }
        line.watchers[claim.id]?.removeAll { $0.claim === claim }
        if line.watchers[claim.id]?.isEmpty == true {
            line.watchers[claim.id] = nil
            send(LeaseMessage.leave, claim.id, to: line)
        }
    }

    private func line(to member: Int) -> LeaseLine {
        if let present = holders[member] { return present }
        let line = LeaseLine(member: member)
        holders[member] = line
        queue.async { [file] in
            let socket = file.connect(to: member)
            Loop.post { self.connected(line, socket) }
        }
        return line
    }

    private func connected(_ line: LeaseLine, _ socket: Int32) {
        guard socket >= 0, !isClosed else {
            if socket >= 0 { Glibc.close(socket) }
            return lost(line) { claim, place in claim.report(.unheard(place)) }
        }
        open(line, socket)
        unsent.append(line)
        seat?.wake()
    }

    // MARK: Connections

    private var present: LoopSeat {
        if let seat { return seat }
        let new = Loop.add(self)
        seat = new
        new.watch(file.listener, for: EPOLLIN.rawValue, insteadOf: 0)
        return new
    }

    private func open(_ line: LeaseLine, _ socket: Int32) {
        line.socket = socket
        lines[socket] = line
        present.watch(socket, for: EPOLLIN.rawValue, insteadOf: 0)
        line.events = EPOLLIN.rawValue
    }

    private func end(_ line: LeaseLine) {
        if let socket = exchange(&line.socket, with: nil) {
            lines[socket] = nil
            seat?.watch(socket, for: 0, insteadOf: line.events)
            Glibc.close(socket)
        }
        for id in exchange(&line.wants, with: [:]).keys { tellAwaited(id) }
        lost(line) { lose($0, $1) }
    }

    /// The holder may have ended just now, again and again if it has many others. Or its lease is of another key, whose
    /// range happens to be the same.
    private func lose(_ claim: FolderClaim, _ place: LeasePlace) {
        claim.strays += 1
        claim.report(claim.strays > Self.mostStrays ? .unheard(place) : .gone(place))
    }

    /// Tells those who wait for a holder that it is heard no more.
    private func lost(_ line: LeaseLine, _ tell: (FolderClaim, LeasePlace) -> Void) {
        if let member = line.member, holders[member] === line { holders[member] = nil }
        for id in Array(line.watchers.keys) {
            for (claim, place) in dismiss(line, id) { tell(claim, place) }
        }
    }

    private func dismiss(_ line: LeaseLine, _ id: UInt64) -> [LeaseLine.Watcher] {
        let watchers = line.watchers.removeValue(forKey: id) ?? []
        for (claim, place) in watchers { claim.holders[place] = nil }
        return watchers
    }

    func ready(_ descriptor: Int32, _ events: UInt32) {
        if descriptor == file.listener {
            while case let socket = dipper_local_accept(descriptor), socket >= 0 || errno == EPERM {
                if socket >= 0 { open(LeaseLine(member: nil), socket) }
            }
            // Without a descriptor for it the connection stays where it is, and the listener ready.
            if errno != EAGAIN, errno != EINTR, errno != ECONNABORTED {
                seat?.watch(descriptor, for: 0, insteadOf: EPOLLIN.rawValue)
                restEnd = ContinuousClock.now + .seconds(1)
            }
            return
        }
        guard let line = lines[descriptor] else { return }
        if events & EPOLLOUT.rawValue != 0 { unsent.append(line) }
        // What is left makes the socket ready once more.
        for _ in 0..<Self.mostPackets {
            guard let messages = line.receive() else { return end(line) }
            for (id, code) in messages where line.socket == descriptor {
                guard hear(code, of: id, from: line) else { return end(line) }
            }
            if messages.isEmpty || line.socket != descriptor { return }
        }
    }

    private static let mostPackets = 16
    private static let mostStrays = 32
    private static let mostEnded = 1_024

    func turn() -> ContinuousClock.Instant? {
        for line in exchange(&unsent, with: []) { flush(line) }
        if let end = restEnd, end <= .now {
            restEnd = nil
            seat?.watch(file.listener, for: EPOLLIN.rawValue, insteadOf: 0)
        }
        return restEnd
    }

    private func send(_ code: UInt64, _ id: UInt64, to line: LeaseLine) {
        if line.outbox.isEmpty {
            unsent.append(line)
            seat?.wake()
        }
        line.outbox.append((id, code))
    }

    private func flush(_ line: LeaseLine) {
        guard line.socket != nil else { return }
        guard line.flush() else { return end(line) }
        let events = line.outbox.isEmpty ? EPOLLIN.rawValue : EPOLLIN.rawValue | EPOLLOUT.rawValue
        if let socket = line.socket { seat?.watch(socket, for: events, insteadOf: line.events) }
        line.events = events
    }

    // MARK: Messages

    /// Returns `false` for a message that nobody sends.
    private func hear(_ code: UInt64, of id: UInt64, from line: LeaseLine) -> Bool {
        if line.member == nil {
            guard let queue = LeaseMessage.wants.first(where: { $0.value == code })?.key else {
                if code == LeaseMessage.leave, line.wants.removeValue(forKey: id) != nil { tellAwaited(id) }
                return code == LeaseMessage.leave
            }
            if held[id] == nil {
                send(ended[id]?.code ?? LeaseMessage.unknown, id, to: line)
            } else {
                line.wants[id] = queue
                tellAwaited(id)
            }
            return true
        }
        let news = LeaseNews(code: code)
        let watchers = news?.isEnd == false ? line.watchers[id] ?? [] : dismiss(line, id)
        for (claim, place) in watchers {
            if let news { claim.report(.told(news, by: place)) } else { lose(claim, place) }
        }
        return news != nil || code == LeaseMessage.unknown
    }

    private func tellAwaited(_ id: UInt64) {
        let queues = lines.values.compactMap { $0.wants[id] }
        held[id]?.report(.awaited(in: queues.contains(.fast) ? .fast : queues.first))
    }
}

@Loop
private final class FolderClaim: LeaseClaim {
    nonisolated let id: UInt64
    nonisolated let report: @Sendable (LeaseEvent) -> Void
    private nonisolated let service: FolderLeases
    var place: LeasePlace?
    /// The members that hold the places that were refused.
    var holders: [LeasePlace: Int] = [:]
    /// How often a member that was taken for a holder was none, or was gone.
    var strays = 0

    nonisolated init(_ id: UInt64, _ report: @escaping @Sendable (LeaseEvent) -> Void, _ service: FolderLeases) {
        (self.id, self.report, self.service) = (id, report, service)
    }

    nonisolated func take(_ place: LeasePlace, since lookedUp: Date) {
        Loop.run { service.take(place, lookedUp, self) }
    }
    nonisolated func watch(in queue: FetchQueue) { Loop.run { service.watch(self, in: queue) } }
    nonisolated func tell(_ news: LeaseNews) { Loop.run { service.tell(news, of: id) } }
    nonisolated func end(_ outcome: LeaseNews) { Loop.run { service.end(self, outcome) } }
}

/// The messages about a lease that are no ``LeaseNews``.
private enum LeaseMessage {
    /// A call waits for the holder, by its queue.
    static let wants: [FetchQueue: UInt64] = [.fast: 0x80, .slow: 0x81]
    static let leave: UInt64 = 0x82
    /// The other one holds no such lease.
    static let unknown: UInt64 = 0x83
}

/// A connection between two members: to a holder, or from one that waits.
@Loop
private final class LeaseLine {
    typealias Message = (id: UInt64, code: UInt64)
    typealias Watcher = (claim: FolderClaim, place: LeasePlace)

    /// The number of the holder; `nil` for a connection from one that waits.
    let member: Int?
    /// `nil` while it is being opened, and after the end.
    var socket: Int32?
    var events: UInt32 = 0
    var outbox: [Message] = []
    /// The leases that the other one waits for.
    var wants: [UInt64: FetchQueue] = [:]
    var watchers: [UInt64: [Watcher]] = [:]

    private static let mostInPacket = 256
    private static let mostUnsent = 1 << 16

    init(member: Int?) { self.member = member }

    /// Returns `false` if the other one takes nothing for too long, or is gone.
    func flush() -> Bool {
        guard let socket, outbox.count <= Self.mostUnsent else { return false }
        while !outbox.isEmpty {
            let packet = outbox.prefix(Self.mostInPacket).flatMap { [$0.id, $0.code] }
            let sent = packet.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if sent < 0 { return errno == EAGAIN || errno == EINTR }
            outbox.removeFirst(packet.count / 2)
        }
        return true
    }

    /// Returns none if none has come, and `nil` after the end.
    func receive() -> [Message]? {
        guard let socket else { return nil }
        return withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 2 * Self.mostInPacket + 1) { words in
            let bytes = UnsafeMutableRawBufferPointer(words)
            let count = recv(socket, bytes.baseAddress, bytes.count, 0)
            if count < 0 { return errno == EAGAIN || errno == EINTR ? [] : nil }
            guard count > 0, count.isMultiple(of: 16), count < bytes.count else { return nil }
            return (0..<count / 16).map { (words[2 * $0], words[2 * $0 + 1]) }
        }
    }
}
