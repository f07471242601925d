#if Redis
    public import DipperData
    import Foundation

    /// Leases on the servers of a tier, by which the caches of several machines fetch each key, and make each picture,
    /// once for all.
    ///
    /// ```swift
    /// let tier = try RedisTier("rediss://fleet:\(password)@cache.example.org/pictures")
    /// configuration.tiers = [tier]
    /// configuration.leases.services = [RedisLeases(tier)]
    /// ```
    ///
    /// The cache that holds the lease of a key fetches it. The others wait for its news, which the server publishes, and
    /// find the entry in the tier. A holder renews its lease each second; if it is killed or stopped, the lease ends after
    /// three seconds, and those that wait take over. A message that is lost costs them `LeaseOptions.patience` at most.
    /// While no server is there, each cache fetches for itself. A holder that goes on after it has lost its lease does not
    /// replace the record of the cache that has taken over.
    ///
    /// Leases use the connections of the tier, and one more to each server for messages.
    public final class RedisLeases: LeaseService {
        public let name: String
        public let placesExpire = true
        private let tier: RedisTier
        /// The leases on each server of the tier, in its order.
        private let lines: [RedisLine]
        private let member = String(UInt64.random(in: 0 ... .max), radix: 16)

        /// Creates leases on the servers of a tier, which a cache must have among its tiers. Nothing is connected yet.
        public init(_ tier: RedisTier) {
            self.tier = tier
            name = "leases on \(tier.name)"
            lines = tier.servers.map { [member] in RedisLine($0, member: member) }
        }

        deinit {
            let lines = lines
            Loop.post { for line in lines { line.listener.close() } }
        }

        public func claim(_ key: CacheKey, _ report: @escaping @Sendable (LeaseEvent) -> Void) -> any LeaseClaim {
            RedisClaim(key.digest, "\(member).\(String(UInt64.random(in: 0 ... .max), radix: 16))", report, self)
        }

        @Loop fileprivate func line(of name: String) -> RedisLine? {
            let server = tier.server(of: name)
            return lines.first { $0.server === server }
        }
    }

    @Loop
    private final class RedisClaim: LeaseClaim {
        nonisolated let name: String
        nonisolated let token: String
        nonisolated let report: @Sendable (LeaseEvent) -> Void
        private nonisolated let service: RedisLeases
        /// The server that was asked last.
        private(set) var line: RedisLine?
        var lookedUp = Date.distantPast
        var place: LeasePlace?
        /// The tokens of those who hold the places that were refused.
        var holders: [LeasePlace: String] = [:]
        var queue = FetchQueue.slow
        /// The claims that wait for this one, by their tokens.
        var waiting: [String: FetchQueue] = [:]
        var isOver = false

        nonisolated init(
            _ name: String, _ token: String, _ report: @escaping @Sendable (LeaseEvent) -> Void, _ service: RedisLeases
        ) {
            (self.name, self.token, self.report, self.service) = (name, token, report, service)
        }

        nonisolated func take(_ place: LeasePlace, since lookedUp: Date) {
            Loop.run {
                let line = service.line(of: name)
                if let old = self.line, old !== line { old.end(self, .abandoned) }
                self.line = line
                self.lookedUp = lookedUp
                line?.take(place, self)
            }
        }
        nonisolated func watch(in queue: FetchQueue) {
            Loop.run {
                self.queue = queue
                line?.watch(self)
            }
        }
        nonisolated func tell(_ news: LeaseNews) { Loop.run { line?.tell(news, self) } }
        nonisolated func end(_ outcome: LeaseNews) {
            Loop.run {
                isOver = true
                line?.end(self, outcome)
            }
        }
    }

    /// The leases on one server.
    @Loop
    private final class RedisLine {
        /// The time after which a place is free unless it is renewed, in milliseconds.
        private static let life = 3_000
        /// The time for which the news of an end are kept that nobody can look up, in milliseconds.
        private static let memory = 60_000

        nonisolated let server: RedisServer
        nonisolated let listener: RedisServer
        private nonisolated let member: String
        /// By the names of the records.
        private var watchers: [String: [RedisClaim]] = [:]
        /// The claims that have places, by their tokens.
        private var held: [String: RedisClaim] = [:]
        /// Whether those who wait can reach this process.
        private var isReachable = false
        /// The work that waits for that.
        private var delayed: [() -> Void] = []

        nonisolated init(_ server: RedisServer, member: String) {
            (self.server, self.member) = (server, member)
            listener = server.listener()
            Loop.post {
                for connection in [server, self.listener] { connection.hear = { [weak self] in self?.heard($0) } }
            }
        }

        // MARK: Scripts, which the server carries out as one step

        /// Takes a place, or takes it once more, unless its life is zero. Answers with a plus sign and the end of the
        /// record, with the token of the holder, or with news that came after the look-up.
        private static let taking = """
            \(RedisServer.readingEnd)
            if ARGV[2] ~= '0' and redis.call('GET', KEYS[1]) == ARGV[1] then
                redis.call('PEXPIRE', KEYS[1], ARGV[2])
                return '+' .. present
            end
            local left = redis.call('PTTL', KEYS[2])
            if left > 0 and left > \(memory) - tonumber(ARGV[3]) then return '=' .. redis.call('GET', KEYS[2]) end
            if ARGV[2] ~= '0' and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
                return '+' .. present
            end
            return redis.call('GET', KEYS[1])
            """
        /// Renews or gives back a place, and publishes the news, if it is still that of the token.
        private static let telling = """
            if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
            if ARGV[2] ~= '0' then
                redis.call('PEXPIRE', KEYS[1], ARGV[2])
            else
                redis.call('DEL', KEYS[1])
                if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[3], 'PX', \(memory))
                else redis.call('DEL', KEYS[2]) end
            end
            redis.call('PUBLISH', ARGV[4], ARGV[5])
            return 1
            """

        private func run(
            _ script: String, _ place: LeasePlace, _ claim: RedisClaim, _ words: [String],
            _ answer: @escaping RedisServer.Answer
        ) {
            let address = server.address
            let keys = [address.key(claim.name, place), address.key("\(claim.name):end"), address.key(claim.name)]
            server.ask(
                [.word("EVAL"), .word(script), .word("3")] + keys + ([claim.token] + words).map(Data.word), answer)
        }

        private func channel(_ name: String) -> String { "\(server.address.prefix):\(name):news" }
        private func channel(ofMember member: some StringProtocol) -> String {
            "\(server.address.prefix):\(member):member"
        }

        // MARK: Places

        func take(_ place: LeasePlace, _ claim: RedisClaim) {
            whenReachable {
                if claim.isOver || claim.line !== self { return }
                self.ask(place, claim, Self.life) { self.taken(place, claim, $0) }
            }
        }

        private func taken(_ place: LeasePlace, _ claim: RedisClaim, _ reply: Result<RedisReply, DipperError>) {
            if case .success(.bytes(let text)) = reply, text.first == UInt8(ascii: "+") {
                // Nobody waits for it any more, or another server has the record by now.
                if claim.isOver || claim.line !== self { return tell(.abandoned, claim, place) }
                if let other = claim.place, other != place { tell(.abandoned, claim, other) }
                stopWatching(claim)
                claim.place = place
                held[claim.token] = claim
                let present = Data(text.dropFirst())
                server.leases[claim.name] = .init(token: claim.token, present: present)
                let lifetime = Duration.milliseconds(Self.life)
                return claim.report(.taken(place, mayBeKept: !present.isEmpty, lifetime: lifetime))
            }
            guard claim.line === self else { return }
            switch reply {
            case .success(.bytes(let text)):
                let news = Self.news(text)
                if news == nil {
                    let holder = String(decoding: text, as: UTF8.self)
                    // The time for which this claim has waited is no fault of a new holder.
                    if let old = claim.holders[place], old != holder { return dismiss(claim, .gone(place)) }
                    claim.holders[place] = holder
                }
                claim.report(.refused(place))
                if let news { claim.report(.told(news, by: place)) }
            default: claim.report(.unavailable)
            }
        }

        private func ask(
            _ place: LeasePlace, _ claim: RedisClaim, _ life: Int, _ answer: @escaping RedisServer.Answer
        ) {
            let age = min(max(0, Date().timeIntervalSince(claim.lookedUp)) * 1_000, Double(Self.memory))
            run(Self.taking, place, claim, ["\(life)", "\(age)"], answer)
        }

        private static func news(_ text: Data) -> LeaseNews? {
            guard text.first == UInt8(ascii: "=") else { return nil }
            return UInt64(String(decoding: text.dropFirst(), as: UTF8.self)).flatMap(LeaseNews.init(code:))
        }

        func tell(_ news: LeaseNews, _ claim: RedisClaim) {
            whenReachable {}
            if let place = claim.place { tell(news, claim, place) }
        }

        private func tell(_ news: LeaseNews, _ claim: RedisClaim, _ place: LeasePlace) {
            let isRemembered = news != .kept && news != .abandoned
            let words = [
                news.isEnd ? "0" : "\(Self.life)", isRemembered ? "\(news.code)" : "",
                channel(claim.name), "\(place.rawValue) \(news.code)",
            ]
            run(Self.telling, place, claim, words) { reply in
                guard case .success(.number(0)) = reply, claim.line === self, claim.place == place else { return }
                claim.place = nil
                self.held[claim.token] = nil
                claim.report(.lost)
            }
        }

        func end(_ claim: RedisClaim, _ outcome: LeaseNews) {
            stopWatching(claim)
            if server.leases[claim.name]?.token == claim.token { server.leases[claim.name] = nil }
            guard let place = exchange(&claim.place, with: nil) else { return }
            held[claim.token] = nil
            tell(outcome, claim, place)
        }

        // MARK: Waiting

        func watch(_ claim: RedisClaim) {
            guard !claim.holders.isEmpty, !claim.isOver else { return }
            announce(claim, claim.queue)
            let present = watchers[claim.name] ?? []
            if present.contains(where: { $0 === claim }) { return }
            watchers[claim.name] = present + [claim]
            guard present.isEmpty else { return check(claim) }
            listener.ask([.word("SUBSCRIBE"), .word(channel(claim.name))]) { reply in
                if case .success = reply {
                    // What was told before is lost.
                    for claim in self.watchers[claim.name] ?? [] { self.check(claim) }
                } else {
                    Loop.post { for claim in self.watchers[claim.name] ?? [] { self.lose(claim) } }
                }
            }
        }

        /// Finds out whether the holders still hold their places.
        private func check(_ claim: RedisClaim) {
            for (place, holder) in claim.holders {
                ask(place, claim, 0) { reply in
                    guard claim.holders[place] == holder, case .success(let reply) = reply else { return }
                    switch reply {
                    case .bytes(let text):
                        if let news = Self.news(text) { self.dismiss(claim, .told(news, by: place)) }
                    case .nothing: self.dismiss(claim, .gone(place))
                    default: break
                    }
                }
            }
        }

        private func dismiss(_ claim: RedisClaim, _ event: LeaseEvent) {
            forget(claim)
            claim.report(event)
        }

        private func lose(_ claim: RedisClaim) {
            for place in claim.holders.keys { dismiss(claim, .unheard(place)) }
        }

        private func forget(_ claim: RedisClaim) {
            claim.holders = [:]
            guard let present = watchers[claim.name], present.contains(where: { $0 === claim }) else { return }
            let rest = present.filter { $0 !== claim }
            watchers[claim.name] = rest.isEmpty ? nil : rest
            if rest.isEmpty { listener.ask([.word("UNSUBSCRIBE"), .word(channel(claim.name))]) { _ in } }
        }

        func stopWatching(_ claim: RedisClaim) {
            announce(claim, nil)
            forget(claim)
        }

        /// Tells the holders in which queue a call waits; `nil` for none.
        private func announce(_ claim: RedisClaim, _ queue: FetchQueue?) {
            for holder in claim.holders.values {
                let channel = channel(ofMember: holder.prefix { $0 != "." })
                let message = "\(holder) \(claim.token) \(queue.map { $0 == .fast ? "fast" : "slow" } ?? "-")"
                server.ask([.word("PUBLISH"), .word(channel), .word(message)]) { _ in }
            }
        }

        // MARK: Messages

        /// Does something when those who wait can reach this process, or cannot.
        private func whenReachable(_ body: @escaping () -> Void) {
            if isReachable { return body() }
            delayed.append(body)
            guard delayed.count == 1 else { return }
            listener.ask([.word("SUBSCRIBE"), .word(channel(ofMember: member))]) { reply in
                if case .success = reply { self.isReachable = true }
                for body in exchange(&self.delayed, with: []) { body() }
            }
        }

        private func heard(_ message: (channel: Data, text: Data)?) {
            guard let message else {
                isReachable = false
                for claim in watchers.values.joined() { lose(claim) }
                return
            }
            let words = String(decoding: message.text, as: UTF8.self).split(separator: " ").map(String.init)
            if words.count == 3, let claim = held[words[0]] {
                claim.waiting[words[1]] = words[2] == "fast" ? .fast : words[2] == "slow" ? .slow : nil
                let queues = claim.waiting.values
                return claim.report(.awaited(in: queues.contains(.fast) ? .fast : queues.first))
            }
            let name = message.channel.dropFirst(server.address.prefix.utf8.count + 1).dropLast(":news".utf8.count)
            guard words.count == 2, let place = UInt8(words[0]).flatMap(LeasePlace.init(rawValue:)),
                let news = UInt64(words[1]).flatMap(LeaseNews.init(code:))
            else { return }
            for claim in watchers[String(decoding: name, as: UTF8.self)] ?? [] where claim.holders[place] != nil {
                let event = LeaseEvent.told(news, by: place)
                if news.isEnd { dismiss(claim, event) } else { claim.report(event) }
            }
        }
    }

    extension RedisAddress {
        fileprivate func key(_ name: String, _ place: LeasePlace) -> Data { key("\(name):\(place.rawValue)") }
    }

    extension RedisServer {
        /// A lease of this process.
        struct Lease {
            let token: String
            /// The end of the record that was there when the lease was taken; empty for none.
            let present: Data
        }

        /// Reads the end of a record, by which it is told from another: a cache's records end with a checksum.
        fileprivate static let readingEnd = """
            local present = redis.pcall('GETRANGE', KEYS[3], -32, -1)
            if type(present) ~= 'string' then present = '' end
            """

        /// Stores a record. If this process has lost the lease of its name meanwhile, does so only if nobody else has the
        /// lease, and the record is as it was.
        private static let storing = """
            local first, second = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
            if first ~= ARGV[1] and second ~= ARGV[1] then
                \(readingEnd)
                if first or second or present ~= '' and present ~= ARGV[3] then return false end
            end
            return redis.call('SET', KEYS[3], ARGV[2], unpack(ARGV, 4))
            """

        /// - Parameter life: the words of SET that limit the record's life.
        func storing(_ record: Data, _ name: String, _ life: [Data]) -> [Data] {
            let key = address.key(name)
            guard let lease = leases[name] else { return [.word("SET"), key, record] + life }
            let keys = [address.key(name, .first), address.key(name, .second), key]
            let words = [.word(lease.token), record, lease.present] + life
            return [.word("EVAL"), .word(Self.storing), .word("3")] + keys + words
        }
    }
#endif
