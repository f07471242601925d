import Dipper
import DipperRedis
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

/// The server with all its parts, ready to run.
struct ImageServer: Sendable {
    let signer: Signer
    let service: PictureService
    private let tier: RedisTier?
    private let options: Options
    private let logger: Logger

    init(_ options: Options) throws {
        var logger = Logger(label: "image-server")
        logger.logLevel = Logger.Level(rawValue: options.logLevel) ?? .info
        (self.options, self.logger) = (options, logger)
        signer = try options.signer()
        tier = try options.tier()
        service = PictureService(
            options.cache(tier, logger), mostMaking: options.maxMaking, mostPrefetches: options.maxPrefetches)
    }

    /// Serves until a signal arrives, or the task is cancelled. Then answers that are being made still end, for a while,
    /// and the cache is shut down after them.
    /// - Parameter listening: called with the address as soon as connections are accepted.
    func run(until signals: [UnixSignal], listening: @escaping @Sendable (String) -> Void) async throws {
        if let tier {
            // The server works without it, and finds it when it comes back.
            do { try await tier.connect() } catch { logger.warning("\(tier.name): \(error)") }
        }
        let routes = Routes(service: service, signer: signer, limits: options.limits(), logger: logger)
        let http = HTTP1Channel.Configuration(
            additionalChannelHandlers: [SlowClients(patience: .seconds(30))],
            idleTimeout: .seconds(60),
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 32 << 10, maxHeaderFieldCount: 100))
        let host = options.host.contains(":") ? "[\(options.host)]" : options.host
        // Hummingbird writes the number of each request into its logger, which takes longer than to find the answer.
        let silent = Logger(label: "hummingbird") { _ in SwiftLogNoOpLogHandler() }
        let application = Application(
            responder: routes,
            server: HTTPServerBuilder { Connections(channels: HTTP1Channel(responder: $0, configuration: http)) },
            configuration: ApplicationConfiguration(
                address: .hostname(options.host, port: options.port), backlog: 1024,
                availableConnectionsDelegate: MaximumAvailableConnections(options.maxConnections, logger: logger)),
            onServerRunning: { listening("http://\(host):\($0.localAddress?.port ?? 0)") }, logger: silent)
        // They end in the opposite order: first the server, when all answers are on their way, then the cache.
        var group = ServiceGroupConfiguration(
            services: [service, application], gracefulShutdownSignals: signals, logger: logger)
        group.maximumGracefulShutdownDuration = .seconds(options.shutdownTimeout)
        try await ServiceGroup(configuration: group).run()
    }
}
