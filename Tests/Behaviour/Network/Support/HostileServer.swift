import FaultServer
import TestSupport
import Testing

/// A server that answers by a script, and a cache with small limits that sends one request per call.
struct HostileServer: Sendable {
    enum Outcome: Equatable, Sendable {
        case body(String)
        case error(DipperError)
    }

    let server: RawServer
    let cache: DataCache

    init(
        greeting: [RawStep] = [], _ change: (inout DataCache.Configuration) -> Void = { _ in },
        script: @escaping @Sendable (RawServer.Request) -> [RawStep]
    ) async throws {
        server = try await RawServer.start(greeting: greeting, script: script)
        cache = DataCache(Self.configuration(change))
    }

    static func configuration(_ change: (inout DataCache.Configuration) -> Void = { _ in }) -> DataCache.Configuration {
        var configuration = DataCache.Configuration()
        configuration.logger.logLevel = .critical
        configuration.retryPolicy = .never
        configuration.network.maximumBodySize = 200_000
        configuration.network.maximumDecodedSize = 100_000
        configuration.network.maximumHeaderSize = 50_000
        change(&configuration)
        return configuration
    }

    func outcome(_ path: String = "/") async -> Outcome { await outcome(DataRequest(string: server.url(path))) }

    func outcome(_ request: DataRequest) async -> Outcome {
        switch await cache.getData(request).result {
        case .success(let body): .body(String(decoding: body, as: UTF8.self))
        case .failure(let error): .error(error)
        }
    }

    func response(_ path: String = "/") async throws -> DataResponse {
        try await cache.getData(DataRequest(string: server.url(path))).response
    }

    /// Waits until the cache has closed a connection, and checks that the kernel took less than 24 MiB on each; the
    /// server would have sent without end.
    func expectLeft() async {
        await server.waitUntilLeft(1)
        let sent = server.connections.map(\.bytesSent).max() ?? 0
        #expect(sent < 24 << 20)
    }

    func stop() async {
        await cache.shutdown()
        await server.stop()
    }
}

struct HostileAnswer: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let steps: [RawStep]
    let outcome: HostileServer.Outcome

    init(_ name: String, _ steps: [RawStep], _ outcome: HostileServer.Outcome) {
        testDescription = name
        self.steps = steps
        self.outcome = outcome
    }

    init(_ name: String, _ steps: [RawStep], _ error: DipperError) { self.init(name, steps, .error(error)) }

    init(_ name: String, _ text: String, _ error: DipperError) {
        self.init(name, [.send(text), .close], .error(error))
    }

    init(_ name: String, _ text: String, body: String) { self.init(name, [.send(text), .close], .body(body)) }

    func check(_ change: (inout DataCache.Configuration) -> Void = { _ in }) async throws {
        let hostile = try await HostileServer(change) { _ in steps }
        let outcome = await hostile.outcome()
        #expect(outcome == self.outcome, "\(outcome)")
        // A server that closes the connection may do so before the cache does.
        let closes = if case .close? = steps.last { true } else { false }
        if !closes, case .error = outcome { await hostile.expectLeft() }
        await hostile.stop()
    }
}

/// Runs a test with a server that has faults, and a cache that sends one request per call, with the library's limits.
func withFaultServer(
    _ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in },
    _ body: (FaultServer, DataCache) async throws -> Void
) async throws {
    let server = try await FaultServer.start()
    var configuration = DataCache.Configuration(directory: folder?.url)
    configuration.logger.logLevel = .critical
    configuration.retryPolicy = .never
    change(&configuration)
    let cache = DataCache(configuration)
    try await body(server, cache)
    await cache.shutdown()
    await server.stop()
}

/// The tests that `make check` runs and `make test` leaves out.
enum Checks {
    static let areOn = ProcessInfo.processInfo.environment["DIPPER_CHECK"] == "1"
}

extension Trait where Self == ConditionTrait {
    static var inCheck: Self { .enabled(if: Checks.areOn, "runs in make check: set DIPPER_CHECK=1") }
}
