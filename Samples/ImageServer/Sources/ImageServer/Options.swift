import ArgumentParser
import Dipper
import DipperRedis
import Foundation
import Logging

struct Options: ParsableArguments {
    @Option(help: ArgumentHelp("The address to listen on.", valueName: "address"))
    var host = "127.0.0.1"

    @Option(help: ArgumentHelp("The port to listen on; 0 for any free port.", valueName: "number"))
    var port = 8080

    @Option(
        help: ArgumentHelp(
            "The folder of the cache. Servers of one user on one machine may share it, and then fetch and make each "
                + "picture once. (default: a folder image-server in $XDG_CACHE_HOME or ~/.cache)", valueName: "folder"))
    var folder: String?

    @Option(help: ArgumentHelp("The most memory for pictures that are kept.", valueName: "MB"))
    var memory = 256

    @Option(help: ArgumentHelp("The most that the folder holds.", valueName: "MB"))
    var disk = 4096

    @Option(
        help: ArgumentHelp(
            "A file with the keys that sign paths, one a line; the first one signs. Without it, the environment variable "
                + "IMAGE_SERVER_KEY is the key.", valueName: "file"))
    var keyFile: String?

    @Flag(name: .customLong("unsafe"), help: "Accept the word `unsafe` in place of a signature.")
    var allowsUnsigned = false

    @Option(
        help: ArgumentHelp(
            "A host that pictures may come from, or *.DOMAIN; may be repeated. Redirects are not followed then. "
                + "(default: all hosts)", valueName: "host"))
    var allowHost: [String] = []

    @Flag(help: "Also fetch from loopback and private addresses.")
    var allowPrivate = false

    @Option(
        help: ArgumentHelp(
            "A Redis or Valkey server through which machines share what they fetch and make, as redis://HOST, "
                + "rediss://HOST or unix:///PATH; may be repeated. A password in it is in the list of processes: write "
                + "@FILE for the first line of a file.", valueName: "URL"))
    var shared: [String] = []

    @Option(help: ArgumentHelp("The longest that --shared may take to answer.", valueName: "milliseconds"))
    var sharedTimeout = 20

    @Option(
        help: ArgumentHelp(
            "Open a page that shows what the cache does, and can change it, on this port of the loopback address; 0 for "
                + "any free port. Its URL, which has a secret, is printed.", valueName: "port"))
    var inspect: Int?

    @Option(help: ArgumentHelp("The most pixels of a source, in millions.", valueName: "number"))
    var maxPixels = 50

    @Option(help: ArgumentHelp("The largest file of a source.", valueName: "MB"))
    var maxBody = 32

    @Option(help: ArgumentHelp("The largest width and height of an answer.", valueName: "pixels"))
    var maxSide = 4096

    @Option(
        help: ArgumentHelp(
            "The most pictures that may be made at the same time, a quarter of them from one host; further ones end with "
                + "503. Pictures that are kept do not count.", valueName: "number"))
    var maxMaking = 256

    @Option(help: ArgumentHelp("The most pictures that may wait to be prefetched.", valueName: "number"))
    var maxPrefetches = 10_000

    @Option(help: ArgumentHelp("The most connections; further ones wait.", valueName: "number"))
    var maxConnections = 1024

    @Option(help: ArgumentHelp("The longest that a source may take.", valueName: "seconds"))
    var timeout = 20

    @Option(help: ArgumentHelp("How long a picture is fresh whose server says nothing about it.", valueName: "seconds"))
    var freshness = 86_400

    @Option(help: ArgumentHelp("The longest that the end takes, with answers being made.", valueName: "seconds"))
    var shutdownTimeout = 30

    @Option(help: ArgumentHelp("trace, debug, info, notice, warning or error.", valueName: "level"))
    var logLevel = "info"

    @Flag(help: "Fetch from a small server of the program's own with photographs, and print an example of a path.")
    var demo = false

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port is a number up to 65535.") }
        guard Logger.Level(rawValue: logLevel) != nil else { throw ValidationError("--log-level is not known.") }
        let positive = [memory, disk, maxPixels, maxBody, maxSide, maxMaking, maxPrefetches, maxConnections, timeout]
        guard (positive + [sharedTimeout, shutdownTimeout]).allSatisfy((1...1_000_000).contains), freshness >= 0 else {
            throw ValidationError("Sizes, numbers and times are at least 1 and at most 1000000.")
        }
    }

    /// - Throws: `ValidationError` if nothing would be accepted, or a key is too short to protect anything.
    func signer() throws -> Signer {
        let text: String
        if let keyFile {
            do { text = try String(contentsOfFile: keyFile, encoding: .utf8) } catch {
                throw ValidationError("The file of --key-file cannot be read.")
            }
        } else {
            text = ProcessInfo.processInfo.environment["IMAGE_SERVER_KEY"] ?? ""
        }
        var keys = text.split(whereSeparator: \.isNewline).map { Array($0.utf8) }
        if demo, keys.isEmpty { keys = [(0..<32).map { _ in UInt8.random(in: .min ... .max) }] }
        guard keys.allSatisfy({ $0.count >= 16 }) else { throw ValidationError("A key has at least 16 characters.") }
        guard allowsUnsigned || !keys.isEmpty else {
            throw ValidationError("Give a key by --key-file or IMAGE_SERVER_KEY, or allow all with --unsafe.")
        }
        return Signer(keys: keys, allowsUnsigned: allowsUnsigned)
    }

    func limits() -> PictureQuery.Limits {
        var limits = PictureQuery.Limits()
        (limits.side, limits.hosts) = (maxSide, allowHost)
        return limits
    }

    func tier() throws -> RedisTier? {
        let urls = try shared.map { text in
            guard text.hasPrefix("@") else { return text }
            guard let file = try? String(contentsOfFile: String(text.dropFirst()), encoding: .utf8),
                let line = file.split(whereSeparator: \.isNewline).first
            else { throw ValidationError("The file of --shared names no server.") }
            return String(line)
        }
        var options = RedisTier.Options()
        options.timeLimit = .milliseconds(sharedTimeout)
        return try urls.isEmpty ? nil : RedisTier(urls, options)
    }

    func cache(_ tier: RedisTier?, _ logger: Logger) -> ImageCache.Configuration {
        var configuration =
            folder.map { ImageCache.Configuration(directory: URL(fileURLWithPath: $0, isDirectory: true)) }
            ?? ImageCache.Configuration(name: "image-server")
        configuration.data.name = "pictures"
        configuration.data.logger = logger
        // Clients get files. Their pixels are in memory only while they are made, or to make another size.
        configuration.data.memoryLimit = (memory << 20) / 4 * 3
        configuration.memoryLimit = (memory << 20) / 4
        configuration.data.diskLimit = disk << 20
        configuration.data.tiers = tier.map { [$0] } ?? []
        configuration.data.leases.services = tier.map { [RedisLeases($0)] } ?? []
        configuration.data.tierTimeLimit = .milliseconds(sharedTimeout)

        configuration.data.freshness = .shared(defaultFreshness: .after(.seconds(freshness)))
        // The client waits: it may decide whether to try again.
        configuration.data.retryPolicy = .never
        configuration.data.timeout = .seconds(timeout)
        configuration.data.fastQueue = QueueConfiguration(maxConcurrent: 64, maxPerHost: 16)
        configuration.data.slowQueue = QueueConfiguration(maxConcurrent: 4)

        // Strangers name the sources.
        configuration.data.network.addressPolicy = allowPrivate || demo ? .any : .publicOnly
        configuration.data.network.maximumBodySize = maxBody << 20
        configuration.data.maximumRedirects = allowHost.isEmpty ? 5 : 0
        configuration.data.readsFileURLs = false
        configuration.limits.pixels = maxPixels * 1_000_000
        configuration.isolation = .preferred
        // An animation may take a hundred times as long as a picture.
        configuration.options.firstFrameOnly = true
        return configuration
    }
}
