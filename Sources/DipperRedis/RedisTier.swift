#if Redis
    public import DipperData
    public import Foundation

    /// A tier on one or several servers of Redis or Valkey, by which the caches of several machines, or of several processes
    /// with folders of their own, share what they fetch.
    ///
    /// ```swift
    /// var configuration = DataCache.Configuration(directory: folder)
    /// configuration.tiers = [try RedisTier("rediss://fleet:\(password)@cache.example.org/pictures")]
    /// let cache = DataCache(configuration)
    /// ```
    ///
    /// A server is named by a URL:
    ///
    /// | URL | |
    /// |---|---|
    /// | `redis://HOST:PORT` | without TLS, for a network that nobody else reads |
    /// | `rediss://HOST:PORT` | with TLS; the certificate and the name of the host are checked |
    /// | `unix:///PATH` | a Unix-domain socket |
    ///
    /// The port is 6379 unless the URL has another. `USER:PASSWORD@`, or `:PASSWORD@` for the default user, stands before
    /// the host, percent-encoded; it appears in no log, error or description. The keys on the server are a prefix, a colon
    /// and the `Tier`'s name of the record; the prefix is `dipper`, the path of the URL, or its parameter `prefix`. The path
    /// is no number of a database. Caches share what has the same prefix.
    ///
    /// Of several servers, each record has one, which every cache finds by itself whatever the order of the URLs
    /// (rendezvous hashing). If that server is down, the next one in rank takes its records until it is back.
    ///
    /// The tier connects when it is first used, and again after a loss. While no server is there, calls fail at once, which
    /// the cache counts as misses. A connection carries the commands of all calls, without waiting for the replies of
    /// earlier ones; beyond 4,096 commands or 32 MiB, calls fail at once too.
    public final class RedisTier: Tier {
        /// The options of a tier.
        public struct Options: Sendable {
            /// The longest that a look-up may take. `DataCache.Configuration.tierTimeLimit` limits it as well.
            public var timeLimit = Duration.milliseconds(20)
            /// A file, in PEM form, with the certificates of the authorities to trust for `rediss:`; `nil` for those of the
            /// system.
            public var authorities: URL?

            /// Creates the default options.
            public init() {}
        }

        /// The size of the largest record to store or read, in bytes.
        private static let recordLimit = 8 << 20
        /// In milliseconds: ten years.
        private static let longest = 315_360_000_000.0

        /// The servers, without passwords.
        public let name: String
        let servers: [RedisServer]

        /// Creates a tier on one server. Nothing is connected yet.
        /// - Throws: `DipperError.invalidURL` or `DipperError.unsupportedScheme`, which do not quote the URL.
        public convenience init(_ url: String, _ options: Options = Options()) throws(DipperError) {
            try self.init([url], options)
        }

        /// Creates a tier on several servers. Nothing is connected yet.
        ///
        /// ```swift
        /// let tier = try RedisTier(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
        /// ```
        /// - Throws: `DipperError.invalidURL` or `DipperError.unsupportedScheme`, which do not quote the URLs.
        public init(_ urls: [String], _ options: Options = Options()) throws(DipperError) {
            // Clocks trap if a sum does not fit.
            let timeLimit = min(options.timeLimit, .seconds(1_000_000))
            var servers: [RedisServer] = []
            for url in urls {
                servers.append(
                    RedisServer(
                        try RedisAddress(url), authorities: options.authorities?.path, limit: Self.recordLimit,
                        timeLimit: timeLimit))
            }
            guard !servers.isEmpty else { throw .invalidURL.with(detail: "a tier needs a server") }
            self.servers = servers
            name = "redis " + servers.map { $0.address.name }.joined(separator: ", ")
        }

        deinit {
            let servers = servers
            Loop.post { for server in servers { server.close() } }
        }

        /// Connects to all servers, and returns when each is connected. A cache does not need that: it is for programs that
        /// want to tell of a wrong address or password when they start, or whose first calls must find what is there.
        ///
        /// ```swift
        /// do { try await tier.connect() } catch { logger.warning("\(tier.name): \(error)") }
        /// ```
        /// - Throws: the first failure, a `DipperError`, about a second after the beginning at the latest for each address of
        ///   a server.
        public func connect() async throws {
            let failure = await withTaskGroup(of: DipperError?.self) { group in
                for server in servers {
                    group.addTask {
                        await withCheckedContinuation { continuation in
                            Loop.post { server.connect { continuation.resume(returning: $0) } }
                        }
                    }
                }
                return await group.reduce(nil) { $0 ?? $1 }
            }
            if let failure { throw failure }
        }

        /// Returns the record of a name; `nil` for none.
        /// - Throws: a `DipperError` if no server can be asked, or the reply takes longer than ``Options/timeLimit``.
        public func record(named name: String) async throws -> Data? {
            let result: Result<Data?, DipperError> = await withCheckedContinuation { continuation in
                Loop.post { self.find(name) { continuation.resume(returning: $0) } }
            }
            return try result.get()
        }

        /// Stores a record under a name. If this process has lost the lease of the name (``RedisLeases``) and another has
        /// taken it since, the record of that one stays.
        /// - Throws: `DipperError.notWritten` if the server has no room, which is no failure of the tier; another
        ///   `DipperError` if no server can be asked.
        public func store(_ record: Data, named name: String, until expiration: Date?) async throws {
            let left = expiration.map { $0.timeIntervalSinceNow * 1_000 } ?? Self.longest
            guard left >= 1, record.count <= Self.recordLimit else { return }
            let life = expiration == nil ? [] : ["PX", "\(Int(min(left, Self.longest)))"].map(Data.word)
            let reply = try await perform { answer in
                let server = self.server(of: name)
                server.ask(server.storing(record, name, life), answer)
            }
            if reply == .refused("OOM") { throw DipperError.notWritten.with(detail: "the server has no room") }
            guard [.text("OK"), .nothing].contains(reply) else { throw DipperError(unexpected: reply) }
        }

        /// Removes the record of a name from all servers; from those that are not there, as soon as they are.
        /// - Throws: a `DipperError` if no server could be asked.
        public func removeRecord(named name: String) async throws {
            var failure: DipperError?
            var isRemoved = false
            for server in servers {
                let key = server.address.key(name)
                do throws(DipperError) {
                    let reply = try await perform { server.ask([.word("DEL"), key], $0) }
                    guard case .number = reply else { throw DipperError(unexpected: reply) }
                    isRemoved = true
                } catch {
                    failure = failure ?? error
                    if servers.count > 1 { Loop.post { server.owe(key) } }
                }
            }
            if !isRemoved, let failure { throw failure }
        }

        /// The server of a name, or the next one in rank that is of use.
        @Loop func server(of name: String) -> RedisServer {
            if servers.count == 1 { return servers[0] }
            let ranked = servers.map { ($0.address.rank(for: name), $0) }.sorted { $0.0 > $1.0 }.map(\.1)
            return ranked.first { $0.refusal == nil } ?? ranked[0]
        }

        private func perform(
            _ body: @escaping @Loop (_ answer: @escaping RedisServer.Answer) -> Void
        ) async throws(DipperError) -> RedisReply {
            let result = await withCheckedContinuation { continuation in
                Loop.post { body { continuation.resume(returning: $0) } }
            }
            return try result.get()
        }
    }

    extension RedisTier: LoopTier {
        @Loop package func find(_ name: String, _ answer: @escaping @Loop (Result<Data?, DipperError>) -> Void) {
            let server = server(of: name)
            server.ask([.word("GET"), server.address.key(name)], isLookUp: true) { reply in
                switch reply {
                // A value of another kind is no record.
                case .success(.nothing), .success(.refused("WRONGTYPE")): answer(.success(nil))
                case .success(.bytes(let record)): answer(.success(record))
                case .success(let reply): answer(.failure(DipperError(unexpected: reply)))
                case .failure(let error): answer(.failure(error))
                }
            }
        }
    }

    extension RedisAddress {
        func key(_ name: String) -> Data { .word("\(prefix):\(name)") }
    }

    extension DipperError {
        fileprivate init(unexpected reply: RedisReply) {
            if case .refused(let reason) = reply {
                self = .rejected.with(detail: "the server refuses the command (\(reason))")
            } else {
                self = .malformedResponse
            }
        }
    }
#endif
