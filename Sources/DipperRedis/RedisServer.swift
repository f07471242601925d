#if Redis
    internal import DipperData
    import Foundation
    import Glibc
    import ProcessShims

    /// One server: its connection, the commands that wait for their replies, and whether it is of use now.
    ///
    /// It is of use unless its latest connection has failed, or a reply has been overdue since. Then commands fail at once
    /// until a new connection has been greeted, or the reply has come. While the first connection is being made, or one
    /// that takes the place of a good one, commands wait within their time limits.
    @Loop
    final class RedisServer: LoopClient {
        typealias Instant = ContinuousClock.Instant
        typealias Answer = (Result<RedisReply, DipperError>) -> Void
        typealias LookUp = @Sendable (_ host: String, _ port: UInt16) throws(DipperError) -> [SocketAddress]

        /// A command whose reply has not come. After its time limit nobody waits, but its reply still comes first.
        private final class Pending {
            let begun = Instant.now
            private var answer: Answer?

            init(_ answer: @escaping Answer) { self.answer = answer }

            var isWaiting: Bool { answer != nil }
            func end(_ result: Result<RedisReply, DipperError>) { answer.take()?(result) }
        }

        private enum Stage { case absent, resolving, connecting, connected }

        private static let mostPending = 4_096
        /// In bytes; for values that wait to be sent.
        private static let mostWaiting = 32 << 20
        /// The longest that a connection may take to be made, and that a server may say nothing while a reply is due.
        private static let patience = Duration.seconds(1)
        /// In bytes; others on the loop have their turn then.
        private static let portion = 256 << 10
        private static let mostOwed = 16_384

        nonisolated let address: RedisAddress
        nonisolated private let authorities: String?
        nonisolated private let limit: Int
        nonisolated private let timeLimit: Duration
        nonisolated private let lookUp: LookUp
        private lazy var seat = Loop.add(self)
        private var stage = Stage.absent
        /// The number of the attempt to connect.
        private var number = 0
        private var settings: TLSSettings?
        private var addresses: [SocketAddress] = []
        private var descriptor: Int32 = -1
        private var watched: UInt32 = 0
        private var stream: RedisStream?
        private var replies: RedisReplies?
        private var commands = RedisCommands()
        private var pending = Deque<Pending>()
        /// The look-ups within their time limit, some of which may have their reply.
        private var lookUps = Deque<Pending>()
        /// The look-up whose reply has been due for the longest time.
        private var overdue: Pending?
        private var canRead = false
        /// Whether the socket has taken nothing at the last attempt.
        private var isFull = false
        private var isGreeted = false
        private var isClosed = false
        /// Why the server is of no use; `nil` if it is.
        private var failure: DipperError?
        private var failures = 0
        /// The end of the present stage, or of the rest between two attempts.
        private var due: Instant?
        /// When the server took or sent something.
        private var heard = Instant.now
        /// When the server sent something, or took something after it had taken nothing.
        private var moved = Instant.now
        private var greeted = Instant.now
        private var connects: [(DipperError?) -> Void] = []
        /// The keys of records to remove that another server may have taken over meanwhile.
        private var owed: Set<Data> = []
        /// The latest leases of this process, by the names of the records; see ``RedisLeases``.
        var leases: [String: Lease] = [:]
        /// Takes the messages of the channels that the connection has subscribed to, and `nil` when it is lost.
        var hear: ((_ message: (channel: Data, text: Data)?) -> Void)?

        /// - Parameters:
        ///   - authorities: the path of a file with the certificates to trust.
        ///   - limit: the size of the largest value to read, in bytes.
        ///   - timeLimit: the longest that a look-up may take.
        nonisolated init(
            _ address: RedisAddress, authorities: String?, limit: Int, timeLimit: Duration,
            lookUp: @escaping LookUp = SocketAddress.lookUp
        ) {
            (self.address, self.authorities) = (address, authorities)
            (self.limit, self.timeLimit, self.lookUp) = (limit, timeLimit, lookUp)
        }

        /// Returns another connection to the server, on which messages are heard.
        nonisolated func listener() -> RedisServer {
            RedisServer(address, authorities: authorities, limit: limit, timeLimit: timeLimit, lookUp: lookUp)
        }

        // MARK: Commands

        /// Why a command would fail at once; `nil` if the server may be asked.
        var refusal: DipperError? {
            if let failure { return failure }
            if isStopped { return .timedOut }
            let isTooMuch = pending.count >= Self.mostPending || commands.count >= Self.mostWaiting
            return isTooMuch ? .timedOut.with(detail: "too many commands wait for \(address.name)") : nil
        }

        /// Whether a reply is overdue, and nothing has moved for as long: one large value may take longer than all limits.
        private var isStopped: Bool { overdue != nil && moved + timeLimit <= .now }

        /// Sends a command. A change may take as long as the server goes on doing something.
        func ask(_ words: [Data], isLookUp: Bool = false, _ answer: @escaping Answer) {
            if isClosed { return answer(.failure(.shutDown)) }
            if let refusal { return answer(.failure(refusal)) }
            if stage == .absent { begin() }
            // The attempt to connect may have failed at once.
            if let failure { return answer(.failure(failure)) }
            let command = send(words, answer)
            if isLookUp { lookUps.append(command) }
            seat.wake()
        }

        @discardableResult
        private func send(_ words: [Data], _ answer: @escaping Answer) -> Pending {
            commands.append(command: words)
            let command = Pending(answer)
            pending.append(command)
            return command
        }

        /// Sends a command of the connection's own, whose failure is that of the connection.
        private func tell(_ words: [Data], _ answer: @escaping (RedisReply) -> Void) {
            send(words) { if case .success(let reply) = $0 { answer(reply) } }
        }

        /// Removes a key as soon as the server is there.
        func owe(_ key: Data) {
            guard owed.count < Self.mostOwed, owed.insert(key).inserted, isGreeted else { return }
            pay(key)
            seat.wake()
        }

        private func pay() {
            for key in owed { pay(key) }
            seat.wake()
        }

        private func pay(_ key: Data) {
            tell([.word("DEL"), key]) { reply in if case .number = reply { self.owed.remove(key) } }
        }

        /// Tells when the server is connected and answers, or why it is not.
        func connect(_ answer: @escaping (DipperError?) -> Void) {
            if isClosed { return answer(.shutDown) }
            if isGreeted, !isStopped { return answer(nil) }
            // The look-up of the host has taken too long, and may go on for long.
            if stage == .resolving, due == nil { return answer(failure) }
            connects.append(answer)
            if stage == .absent { begin() }
            seat.wake()
        }

        private func endConnects(_ error: DipperError?) {
            let answers = connects
            connects = []
            for answer in answers { answer(error) }
        }

        func close() {
            isClosed = true
            lost(.shutDown)
            seat.leave()
        }

        // MARK: Connecting

        private func begin() {
            number += 1
            stage = .resolving
            (due, heard) = (Instant.now + Self.patience, .now)
            greet()
            guard case .host(let host, let port, let isSecure) = address.place else {
                if case .path(let path) = address.place { addresses = [SocketAddress(path: path)] }
                return connectNext()
            }
            let (number, settings, authorities, lookUp) = (number, settings, authorities, lookUp)
            let body: @Sendable () -> Void = {
                let found: Result<(TLSSettings?, [SocketAddress]), DipperError>
                do throws(DipperError) {
                    var settings = settings
                    if isSecure, settings == nil { settings = try TLSSettings(authorities: authorities) }
                    found = .success((settings, try lookUp(host, port)))
                } catch {
                    found = .failure(error)
                }
                Loop.post { self.resolved(number, found) }
            }
            if JoinableThread(name: "dipper-redis", body) == nil {
                lost(.connectionFailed.with(detail: "the system gives no thread"))
            }
        }

        private func resolved(_ number: Int, _ found: Result<(TLSSettings?, [SocketAddress]), DipperError>) {
            guard number == self.number, stage == .resolving else { return }
            switch found {
            case .success(let (settings, addresses)):
                self.settings = settings
                self.addresses = addresses
                connectNext()
            case .failure(let error): lost(error)
            }
            seat.wake()
        }

        /// Tries the next address of the host.
        private func connectNext(after error: DipperError = .hostNotFound) {
            forgetSocket()
            guard !addresses.isEmpty else { return lost(error) }
            do throws(DipperError) {
                descriptor = try addresses.removeFirst().connect()
                stage = .connecting
                (due, heard) = (Instant.now + Self.patience, .now)
                watch(EPOLLOUT.rawValue)
            } catch {
                connectNext(after: error)
            }
        }

        private func connected() {
            if let error = RedisStream.errorOfConnect(descriptor) { return connectNext(after: error) }
            var tls: (TLSSettings, String)?
            if case .host(let host, _, _) = address.place, let settings { tls = (settings, host) }
            guard let stream = RedisStream(descriptor, tls), let replies = RedisReplies(limit: limit) else {
                return lost(.connectionFailed.with(detail: "there is no memory"))
            }
            (self.stream, self.replies) = (stream, replies)
            (stage, due, heard, moved) = (.connected, nil, .now, .now)
        }

        /// Sends what comes before all other commands.
        private func greet() {
            let number = number
            let credentials = address.credentials()
            if !credentials.isEmpty {
                tell([.word("AUTH")] + credentials.map(Data.word)) { reply in
                    guard case .refused(let reason) = reply else { return }
                    self.lost(number, .rejected.with(detail: "\(self.address.name) refuses the password (\(reason))"))
                }
            }
            tell(["CLIENT", "SETNAME", "dipper"].map(Data.word)) { _ in }
            // A user may lack the right to this command, but not the server.
            tell([.word("PING")]) { reply in
                if case .refused(let reason) = reply, reason != "NOPERM" {
                    return self.lost(number, .rejected.with(detail: "\(self.address.name) says \(reason)"))
                }
                guard number == self.number else { return }
                (self.isGreeted, self.failure, self.greeted) = (true, nil, .now)
                // Before anything is looked for there.
                self.pay()
                if !self.isStopped { self.endConnects(nil) }
            }
        }

        private func lost(_ number: Int, _ error: DipperError) { if number == self.number { lost(error) } }

        /// Ends the connection, or the attempt to make one, and all commands.
        private func lost(_ error: DipperError) {
            guard stage != .absent else { return }
            number += 1
            forgetSocket()
            addresses = []
            // One that is cut soon after each greeting must not be made over and over.
            let wasGood = isGreeted && Instant.now - greeted >= Self.patience
            failures = wasGood ? 0 : failures + 1
            failure = wasGood ? nil : error
            let pause = min(5, 0.1 * Double(1 << min(failures, 10))) * Double.random(in: 0.5...1)
            due = Instant.now + (wasGood ? .zero : .seconds(pause))
            (stage, isGreeted, overdue, canRead) = (.absent, false, nil, false)
            endCommands(error)
            endConnects(error)
            hear?(nil)
            seat.wake()
        }

        private func endCommands(_ error: DipperError) {
            (commands, lookUps) = (RedisCommands(), [])
            for command in exchange(&pending, with: []) { command.end(.failure(error)) }
        }

        private func forgetSocket() {
            guard descriptor >= 0 else { return }
            watch(0)
            if let stream { stream.end() } else { Glibc.close(descriptor) }
            replies?.end()
            (stream, replies, descriptor) = (nil, nil, -1)
        }

        private func watch(_ events: UInt32) {
            seat.watch(descriptor, for: events, insteadOf: watched)
            watched = events
        }

        // MARK: The loop

        func ready(_ descriptor: Int32, _ events: UInt32) {
            guard descriptor == self.descriptor else { return }
            if stage == .connecting { connected() } else { canRead = true }
        }

        func turn() -> Instant? {
            if isClosed { return nil }
            if stage == .connected { receive() }
            if stage == .connected { flush() }
            let now = Instant.now
            expire(now)
            if let due, due <= now { pass(due, now) }
            if stage == .connected, let first = pending.first, max(heard, first.begun) + Self.patience <= now {
                lost(.timedOut)
            }
            let silence = stage == .connected ? pending.first.map { max(heard, $0.begun) + Self.patience } : nil
            return [due, silence, lookUps.first.map { $0.begun + timeLimit }].compactMap(\.self).min()
        }

        /// The end of a stage.
        private func pass(_ due: Instant, _ now: Instant) {
            self.due = nil
            switch stage {
            case .absent: begin()
            case .resolving:
                // The look-up of the host goes on, and nobody waits for it any more.
                failure = failure ?? .timedOut
                endCommands(.timedOut)
                greet()
                endConnects(.timedOut)
            case .connecting: connectNext(after: .timedOut)
            case .connected: break
            }
        }

        private func expire(_ now: Instant) {
            while let first = lookUps.first, !first.isWaiting || first.begun + timeLimit <= now {
                _ = lookUps.popFirst()
                guard first.isWaiting else { continue }
                if overdue == nil { overdue = first }
                first.end(.failure(.timedOut))
            }
        }

        private func receive() {
            var left = Self.portion
            while canRead, let stream, let replies {
                if left <= 0 { return seat.wake() }
                let room = replies.room
                switch stream.read(into: room) {
                case .moved(let count):
                    left -= count
                    // The socket is empty, and epoll tells of what comes now.
                    if count < room.count, !stream.holdsBytes { canRead = false }
                    heard = .now
                    moved = heard
                    do throws(DipperError) {
                        try replies.take(count)
                        while let reply = try replies.next() {
                            if case .list(let words) = reply, words.count == 3, words[0] == .word("message") {
                                hear?((words[1], words[2]))
                                if self.replies !== replies { return }
                                continue
                            }
                            guard let command = pending.popFirst() else { throw .malformedResponse }
                            if command === overdue {
                                overdue = nil
                                endConnects(nil)
                            }
                            command.end(.success(reply))
                            // The reply may have ended the connection.
                            if self.replies !== replies { return }
                        }
                    } catch {
                        return lost(error)
                    }
                case .blocked: canRead = false
                case .ended(let error): return lost(error)
                }
            }
        }

        private func flush() {
            var left = Self.portion
            var waits = false
            while commands.count > 0, let stream {
                if left <= 0 {
                    seat.wake()
                    break
                }
                let step = commands.send { stream.write($0) }
                if case .moved(let count) = step {
                    left -= count
                    heard = .now
                    if exchange(&isFull, with: false) { moved = heard }
                    continue
                }
                if case .ended(let error) = step { return lost(error) }
                if case .blocked(let untilWritable) = step { waits = untilWritable }
                isFull = true
                break
            }
            watch(EPOLLIN.rawValue | (waits ? EPOLLOUT.rawValue : 0))
        }
    }
#endif
