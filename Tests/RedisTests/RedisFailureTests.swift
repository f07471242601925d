import DipperData
import Logging
import TestSupport
import Testing

@testable import DipperRedis

@Suite(
    "A Redis that fails", .timeLimit(.minutes(2)),
    .enabled(if: RedisProcess.isInstalled, "redis-server is not installed (package redis-server)"))
struct RedisFailureTests {
    /// The time that a number of look-ups take, one after the other, all of which must fail.
    private func failing(_ count: Int, _ tier: RedisTier) async -> Duration {
        await ContinuousClock().measure {
            for number in 0..<count { #expect(await tier.error(of: name(number)) != nil) }
        }
    }

    @Test("after SIGKILL calls fail at once, and the tier connects again by itself when the server is back")
    func killed() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        try await tier.store(Data("a".utf8), named: name(1), until: nil)
        server.kill()
        // The first one may be under way when the connection is lost.
        _ = await tier.error(of: name(1))
        try await #require(throws: DipperError.self) { try await tier.connect() }
        // None waits for its time limit.
        #expect(await failing(1_000, tier) < .seconds(20))
        await #expect(throws: DipperError.self) {
            try await tier.store(Data("b".utf8), named: name(1), until: nil)
        }
        try await server.start()
        await tier.reconnected()
        #expect(try await tier.record(named: name(1)) == nil)
        try await tier.store(Data("c".utf8), named: name(1), until: nil)
        #expect(try await tier.record(named: name(1)) == Data("c".utf8))
    }

    @Test("a look-up of a stopped server takes its time limit, those after it do not wait, until the server goes on")
    func stopped() async throws {
        let server = try await RedisProcess()
        var options = RedisTier.Options()
        #expect(options.timeLimit == .milliseconds(20))
        options.timeLimit = .milliseconds(400)
        let tier = try RedisTier(server.url, options)
        await tier.reconnected()
        server.send(SIGSTOP)
        let first = await ContinuousClock().measure { #expect(await tier.error(of: name(1)) == .timedOut) }
        #expect(first >= .milliseconds(400))
        // None waits for its time limit.
        #expect(await failing(100, tier) < .seconds(20))
        server.send(SIGCONT)
        await tier.reconnected()
        #expect(try await patient(server.url).record(named: name(1)) == nil)
    }

    @Test("a server that stays stopped is left, and used again after it goes on")
    func stoppedForLong() async throws {
        let server = try await RedisProcess()
        let tier = try RedisTier(server.url)
        await tier.reconnected()
        server.send(SIGSTOP)
        #expect(await tier.error(of: name(1)) == .timedOut)
        await #expect(throws: DipperError.timedOut) { try await tier.connect() }
        // Of a new connection, which the kernel has taken in place of the server.
        await #expect(throws: DipperError.timedOut) { try await tier.connect() }
        server.send(SIGCONT)
        await tier.reconnected()
        try await tier.store(Data("a".utf8), named: name(1), until: nil)
        #expect(try server.keys.count == 1)
    }

    @Test("calls of a cache end well while its server is killed, and do not wait for it")
    func cacheWithoutServer() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        let test = TestCache { $0.tiers = [tier] }
        for number in 0..<40 {
            test.transport.script(url("\(number)"), [.body(Data("\(number)".utf8))])
            if number == 20 { server.kill() }
            #expect(try await test.cache.getData(url("\(number)")).value == Data("\(number)".utf8))
        }
    }

    @Test("FLUSHALL makes all records misses")
    func flushed() async throws {
        let server = try await RedisProcess()
        let tier = try patient(server.url)
        try await tier.store(Data("a".utf8), named: name(1), until: nil)
        try server.ask("FLUSHALL")
        #expect(try await tier.record(named: name(1)) == nil)
    }

    @Test("a server without room for a record stores none, says so and goes on answering")
    func full() async throws {
        let server = try await RedisProcess([
            "--port", "0", "--maxmemory", "6mb", "--maxmemory-policy", "noeviction",
        ])
        let tier = try patient(server.url)
        var refused = 0
        for number in 0..<20 {
            do {
                try await tier.store(bytes(1 << 20, number), named: name(number), until: nil)
            } catch {
                #expect(error as? DipperError == .notWritten)
                refused += 1
            }
        }
        let stored = try server.keys.count
        #expect(stored + refused == 20)
        #expect(stored > 0 && stored < 20)
        #expect(try await tier.record(named: name(0)) == bytes(1 << 20, 0))
        #expect(try await tier.record(named: name(19)) == nil)
        try await tier.removeRecord(named: name(0))
    }

    @Test("the password of the URL is sent; a wrong one is told without being shown, and used for no call")
    func password() async throws {
        let server = try await RedisProcess(["--port", "0", "--requirepass", "correct horse"])
        try runProgram(
            "/usr/bin/redis-cli",
            [
                "-s", server.socket, "-a", "correct horse", "ACL", "SETUSER", "fleet", "on", ">fl/t", "~dipper:*",
                "+get",
                "+set", "+del",
            ])
        func tier(_ user: String) throws -> RedisTier { try patient("unix://\(user)@\(server.socket)") }
        for user in [":correct%20horse", "default:correct horse", "fleet:fl%2Ft"] {
            let tier = try tier(user)
            try await tier.connect()
            try await tier.store(Data(user.utf8), named: name(1), until: nil)
            #expect(try await tier.record(named: name(1)) == Data(user.utf8))
        }
        for user in [":batterystaple", "fleet:batterystaple", "nobody:batterystaple"] {
            let tier = try tier(user)
            let error = await #expect(throws: DipperError.rejected) { try await tier.connect() }
            #expect("\(error as Any)".contains("WRONGPASS"))
            let other = await tier.error(of: name(1))
            #expect(other == .rejected)
            for text in [
                "\(error as Any)", "\(other as Any)", tier.name, "\(tier)", "\(error?.localizedDescription ?? "")",
            ] {
                #expect(!text.contains("battery"))
            }
        }
        let without = try patient(server.url)
        let error = await #expect(throws: DipperError.rejected) { try await without.connect() }
        #expect("\(error as Any)".contains("NOAUTH"))
    }

    @Test("the log of a cache tells of a wrong password, and does not show it")
    func loggedPassword() async throws {
        let server = try await RedisProcess(["--port", "0", "--requirepass", "right"])
        let tier = try patient("unix://:batterystaple@\(server.socket)")
        let lines = Box<[String]>([])
        let test = TestCache {
            $0.tiers = [tier]
            $0.logger = .recording(lines: { line in lines.update { $0.append(line) } })
        }
        for number in 0..<4 {
            test.transport.script(url("\(number)"), [.body(Data("x".utf8))])
            _ = try await test.cache.getData(url("\(number)")).value
        }
        try await lines.wait { $0.contains { $0.contains("a tier fails and rests") && $0.contains("WRONGPASS") } }
        #expect(!lines.value.contains { $0.contains("battery") })
    }

    @Test("with rediss the certificate must be of a trusted authority, and for the host")
    func tls() async throws {
        let folder = TemporaryFolder()
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        for authority in ["ca", "other"] {
            try shell(
                "openssl req -x509 \(key) -days 2 -subj /CN=\(authority) -keyout \(authority).key -out \(authority).pem",
                in: folder)
        }
        for (name, hosts) in [("good", "DNS:localhost,IP:127.0.0.1"), ("misnamed", "DNS:elsewhere.test")] {
            try folder.place("subjectAltName=\(hosts)", at: "\(name).txt")
            try shell("openssl req \(key) -subj /CN=\(name) -keyout \(name).key -out \(name).csr", in: folder)
            try shell(
                "openssl x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
                    + "-extfile \(name).txt -out \(name).pem", in: folder)
        }
        func start(_ name: String) async throws -> (RedisProcess, Int) {
            let port = try RedisProcess.freePort()
            let options = [
                "--port", "0", "--tls-port", "\(port)", "--tls-auth-clients", "no", "--tls-cert-file",
                "\(folder.path)/\(name).pem", "--tls-key-file", "\(folder.path)/\(name).key", "--tls-ca-cert-file",
                "\(folder.path)/ca.pem",
            ]
            return (try await RedisProcess(options), port)
        }
        let (good, misnamed) = (try await start("good"), try await start("misnamed"))
        let ca = "\(folder.path)/ca.pem"
        for host in ["localhost", "127.0.0.1"] {
            let tier = try patient("rediss://\(host):\(good.1)", authorities: ca)
            try await tier.connect()
            for (number, size) in [10, 70_000, 8 << 20].enumerated() {
                try await tier.store(bytes(size, number), named: name(number), until: nil)
                #expect(try await tier.record(named: name(number)) == bytes(size, number))
            }
        }
        let refused: [(String, String?)] = [
            ("rediss://localhost:\(good.1)", "\(folder.path)/other.pem"), ("rediss://localhost:\(good.1)", nil),
            ("rediss://localhost:\(misnamed.1)", ca), ("rediss://localhost:\(good.1)", "/nowhere.pem"),
        ]
        for (url, authorities) in refused {
            let tier = try patient(url, authorities: authorities)
            await #expect(throws: DipperError.tlsRejected) { try await tier.connect() }
            #expect(await tier.error(of: name(1)) == .tlsRejected)
        }
        // A connection that is cut was one of TLS all the same.
        let tier = try patient("rediss://localhost:\(good.1)", authorities: ca)
        try await tier.connect()
        good.0.kill()
        var error: DipperError?
        repeat {
            error = await tier.error(of: name(1))
            #expect(error == .connectionLost || error == .connectionFailed)
        } while error == .connectionLost
        try await good.0.start()
        // Without TLS nothing is read, and the server ends the connection.
        await #expect(throws: DipperError.self) { try await patient("redis://localhost:\(good.1)").connect() }
        let plain = try RedisProcess.freePort()
        let unsafe = try await RedisProcess(["--port", "\(plain)"])
        await #expect(throws: DipperError.self) {
            try await patient("rediss://localhost:\(plain)", authorities: ca).connect()
        }
        withExtendedLifetime((good, misnamed, unsafe)) {}
    }

    private func shell(_ command: String, in folder: TemporaryFolder) throws {
        try runProgram("/bin/sh", ["-c", command], in: folder.path)
    }

    // MARK: Servers that are none

    @Test(
        "what is no reply, and a reply that nobody could use, ends the connection and not the program",
        arguments: [
            "HTTP/1.1 400 Bad Request\r\n\r\n", "$100000000000\r\n", "$9999999\r\n", "*1000000000\r\n", "$abc\r\n",
            "$-5\r\n",
            "$99999999999999999999999999\r\n", ":1\r\n:2\r\n",
            "+" + String(repeating: "x", count: 400_000),
            "$5\r\nshort", "$70000\r\nshort", ">2\r\n+a\r\n+b\r\n", "\0\0\0\0",
        ])
    func garbage(reply: String) async throws {
        let server = try ScriptedRedis { words, connection in
            guard connection.number > 0 else {
                connection.send(reply)
                return connection.cut()
            }
            connection.send("$2\r\nok\r\n")
        }
        let tier = try patient(server.url)
        #expect(await tier.error(of: name(1)) != nil)
        await tier.reconnected()
        #expect(try await tier.record(named: name(1)) == Data("ok".utf8))
    }

    @Test("a late reply answers nobody else, and replies in small pieces are put together")
    func lateReply() async throws {
        let gate = Door()
        let server = try ScriptedRedis { words, connection in
            let name = words[1].dropFirst("dipper:".count)
            if name == TestName.late { gate.pass() }
            for byte in Data("$\(name.utf8.count)\r\n\(name)\r\n".utf8) { connection.send(Data([byte])) }
        }
        var options = RedisTier.Options()
        options.timeLimit = .milliseconds(400)
        let tier = try RedisTier(server.url, options)
        await tier.reconnected()
        #expect(await tier.error(of: TestName.late) == .timedOut)
        gate.stayOpen()
        await tier.reconnected()
        var found = 0
        for number in 0..<20 {
            guard let record = try? await tier.record(named: name(number)) else { continue }
            found += 1
            #expect(record == Data(name(number).utf8))
        }
        #expect(found > 0)
    }

    @Test("a call waits for a record that is long in coming as long as its cache allows, and then asks the network")
    func tierTimeLimit() async throws {
        let isOver = Box(false)
        let server = try ScriptedRedis { words, connection in
            guard words[0] == "GET" else { return connection.send("+OK\r\n") }
            connection.send("$8000000\r\n")
            while !isOver.value {
                connection.send(Data(count: 1))
                usleep(10_000)
            }
            connection.cut()
        }
        defer { isOver.update { $0 = true } }
        let tier = try patient(server.url)
        let test = TestCache { $0.tiers = [tier] }
        test.transport.script(url("a"), [.body(Data("net".utf8))])
        let task = test.cache.getData(url("a"))
        try await server.commands.wait { !$0.isEmpty }
        try await test.clock.waitForSleepers(1)
        #expect(test.transport.transfers.isEmpty)
        test.clock.advance(by: .milliseconds(20))
        #expect(try await task.response.source == .network)
    }

    @Test("one long record that arrives slowly keeps no other call from being sent")
    func slowRecord() async throws {
        let isOver = Box(false)
        let server = try ScriptedRedis { words, connection in
            guard words[1].hasSuffix(name(1)) else { return connection.send("$2\r\nok\r\n") }
            connection.send("$200000\r\n")
            var left = 200_000
            // A slow link.
            while left > 1, !isOver.value {
                connection.send(Data(count: 1))
                left -= 1
                usleep(10_000)
            }
            connection.send(Data(count: left))
            connection.send("\r\n")
        }
        var options = RedisTier.Options()
        options.timeLimit = .seconds(2)
        let tier = try RedisTier(server.url, options)
        await tier.reconnected()
        #expect(await tier.error(of: name(1)) == .timedOut)
        let second = await ContinuousClock().measure { #expect(await tier.error(of: name(2)) == .timedOut) }
        #expect(second >= .seconds(2), "it has not failed at once")
        isOver.update { $0 = true }
        await tier.reconnected()
        #expect(try await patient(server.url).record(named: name(3)) == Data("ok".utf8))
    }

    @Test("a look-up of the host's name that takes too long holds up no change")
    func hangingName() async throws {
        let door = Door()
        let address = try RedisAddress("redis://hangs.test")
        let server = RedisServer(address, authorities: nil, limit: 1 << 20, timeLimit: .milliseconds(20)) { _, _ in
            door.pass()
            return []
        }
        let reply = await withCheckedContinuation { continuation in
            Loop.post {
                server.ask(["SET", "a", "b"].map { Data($0.utf8) }) { continuation.resume(returning: $0) }
            }
        }
        #expect(reply == .failure(.timedOut))
        door.stayOpen()
        Loop.post { server.close() }
    }

    @Test("a server that cuts each connection after its greeting is not asked over and over")
    func cutting() async throws {
        let server = try ScriptedRedis { _, connection in connection.cut() }
        let tier = try patient(server.url)
        for _ in 0..<3 {
            await tier.reconnected()
            #expect(await tier.error(of: name(1)) == .connectionLost)
        }
        _ = await failing(100, tier)
        #expect(server.commands.value.count <= 20)
    }

    @Test("a server that takes nothing gets no more than 32 MB to wait")
    func fullQueue() async throws {
        let gate = Door()
        let server = try ScriptedRedis { _, _ in gate.pass() }
        let tier = try patient(server.url)
        await tier.reconnected()
        let stores = (0..<12).map { number in
            Task { try await tier.store(Data(count: 8 << 20), named: name(number), until: nil) }
        }
        var errors: [DipperError] = []
        for store in stores { if case .failure(let error as DipperError) = await store.result { errors.append(error) } }
        #expect(errors.count { "\($0)".contains("too many commands") } >= 6)
        #expect(errors.allSatisfy { $0 == .timedOut })
        gate.stayOpen()
    }
}

private enum TestName {
    static let late = name(1_000)
}
