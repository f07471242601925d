import ArgumentParser
import Dipper
import DipperRedis
import Foundation

struct FetchOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Write each body to a file in this folder, which is created if needed; - for standard output, in the order "
                + "of the calls and with nothing else.", valueName: "DIR"))
    var out: String?

    @OptionGroup var pictures: PictureOptions
    @OptionGroup var requests: RequestOptions

    @Option(
        help: ArgumentHelp(
            "The widths in pixels that the server has, as 320,640,1280: {width} in a URL becomes the smallest one that is "
                + "enough for --width or --resize, or else the largest.", valueName: "W,W"))
    var widths: String?

    @Option(help: ArgumentHelp("The width in pixels that is needed; see --widths.", valueName: "W"))
    var width: Int?

    @Option(help: ArgumentHelp("Draw a timeline of all fetches to this file.", valueName: "FILE.svg"))
    var timeline: String?

    @Option(
        defaultAsFlag: 0,
        help: ArgumentHelp(
            "Open a live page about the fetches, and print its address on standard error; without a port on any free one. "
                + "The page ends with the command.", valueName: "PORT"))
    var inspect: Int?

    @Flag(help: "With --inspect: keep the page open after the last fetch, until the command is interrupted.")
    var inspectWait = false
}

extension FetchOptions {
    /// Returns a URL with the width that is needed in place of `{width}`.
    func url(from text: String) -> String {
        guard text.contains("{width}") else { return text }
        let urls = sizes.compactMap { size in
            URL(text: text.replacing("{width}", with: "\(size)")).map { (size, $0) }
        }
        var request = ImageRequest(widths: Dictionary(urls) { first, _ in first })
        if let target = pictures.resize { request = request.processed(by: .resize(to: target)) }
        if let width { request = request.sized(for: PixelSize(width: width, height: width)) }
        return request.url?.absoluteString ?? text
    }

    private var sizes: [Int] { widths?.split(separator: ",").compactMap { Int($0) } ?? [] }

    func validate() throws {
        let commas = widths?.count { $0 == "," } ?? -1
        guard sizes.count == commas + 1, (sizes + [width ?? 1]).allSatisfy({ (1...100_000).contains($0) }) else {
            throw ValidationError("--widths and --width must be numbers from 1 to 100000.")
        }
        guard (0...65_535).contains(inspect ?? 0) else {
            throw ValidationError("--inspect takes a port from 0 to 65535.")
        }
        guard !inspectWait || inspect != nil else { throw ValidationError("--inspect-wait needs --inspect.") }
    }
}

struct RequestOptions: ParsableArguments {
    @OptionGroup var header: HeaderOptions

    @Flag(help: "Fetch from the network, even if the cache has the entry.")
    var refresh = false

    @Flag(help: "Use the cache only, not the network.")
    var cacheOnly = false

    @Flag(help: "Do not read or write the disk.")
    var memoryOnly = false

    @Option(help: ArgumentHelp("The largest number of urgent fetches at a time.", valueName: "N"))
    var maxFast = 8

    @Option(
        help: ArgumentHelp(
            "The largest number of prefetches at a time. No more of them run than keep the link busy, so several only "
                + "with small files on a fast link.", valueName: "N"))
    var maxSlow = 1

    @Option(help: ArgumentHelp("The number of retries after a transient failure.", valueName: "N"))
    var retries = 3

    @Option(
        help: ArgumentHelp(
            "The time limit of a fetch from its start, including retries. Time in the queue, paused or without a "
                + "network does not count.", valueName: "SECONDS"))
    var timeout: Double?

    @Option(
        help: ArgumentHelp(
            "A Redis or Valkey server through which machines share what they fetch, as redis://HOST, rediss://HOST or "
                + "unix:///PATH; may be repeated. A password in it is in the list of processes: write @FILE for the "
                + "first line of a file.", valueName: "URL"))
    var shared: [String] = []

    func validate() throws {
        #if !Redis
            guard shared.isEmpty else {
                throw ValidationError("This dipper has no Redis: build it with --traits Redis,GIF,WebP,AVIF.")
            }
        #endif
        guard shared.isEmpty || !memoryOnly else {
            throw ValidationError("--shared and --memory-only exclude each other.")
        }
        guard [refresh, cacheOnly, memoryOnly].filter({ $0 }).count <= 1 else {
            throw ValidationError("--refresh, --cache-only and --memory-only exclude each other.")
        }
        guard maxFast >= 1 else { throw ValidationError("--max-fast must be at least 1.") }
        guard maxSlow >= 1 else { throw ValidationError("--max-slow must be at least 1.") }
        guard retries >= 0 else { throw ValidationError("--retries must not be negative.") }
        if let timeout, !(timeout > 0 && timeout < 1e9) { throw ValidationError("--timeout must be above 0.") }
    }

    func configuration(_ store: StoreOptions) throws -> DataCache.Configuration {
        var configuration = try store.configuration(makesFolder: !cacheOnly)
        configuration.fastQueue = QueueConfiguration(maxConcurrent: maxFast)
        configuration.slowQueue = .fillsLink(upTo: maxSlow)
        if refresh { configuration.cachePolicy = .ignoreCache }
        if cacheOnly { configuration.cachePolicy = .cacheOnly }
        if memoryOnly { configuration.cachePolicy = .memoryOnly }
        configuration.retryPolicy = .exponential(retries: retries)
        configuration.timeout = timeout.map { .seconds($0) }
        if memoryOnly { configuration.directory = nil }
        #if Redis
            if !shared.isEmpty {
                // A command rather waits, also on a busy machine, than ask a server twice.
                var options = RedisTier.Options()
                options.timeLimit = .seconds(2)
                configuration.tierTimeLimit = options.timeLimit
                let tier = try RedisTier(shared.map(Self.server), options)
                configuration.tiers = [tier]
                configuration.leases.services = [RedisLeases(tier)]
            }
        #endif
        return configuration
    }

    private static func server(_ text: String) throws -> String {
        guard text.hasPrefix("@") else { return text }
        let line = try URLList.read(String(text.dropFirst())).first
        guard let line else { throw CommandFailure("the file of --shared names no server") }
        return line
    }

    /// If all pictures are files, nothing is kept on disk.
    func imageConfiguration(
        _ store: StoreOptions, _ decoding: DecodingOptions, for sources: [PictureSource]
    ) throws -> ImageCache.Configuration {
        var configuration = ImageCache.Configuration()
        configuration.isolation = decoding.isolation
        configuration.data = try self.configuration(store)
        if !sources.contains(where: \.isURL) { configuration.data.directory = nil }
        return configuration
    }
}

extension DataCache {
    /// A command makes its calls at once, so the servers of --shared must be there.
    func connectShared() async {
        #if Redis
            for case let tier as RedisTier in configuration.tiers {
                do { try await tier.connect() } catch { warn("\(tier.name): \(error)") }
            }
        #endif
    }
}

enum URLList {
    /// Returns the lines of a file, or of standard input for `-`, without empty lines and comments (`#`).
    static func read(_ path: String?) throws -> [String] {
        guard let path else { return [] }
        return try String(fieldBytes: BodyFiles.read(path)).split(whereSeparator: \.isNewline)
            .map { $0.trimmingCharacters(in: blanks) }
            .filter { !$0.isEmpty && !$0.hasPrefix("#") }
    }

    /// Programs of Windows put a byte order mark before a text.
    static let blanks = CharacterSet.whitespacesAndNewlines.union(["\u{FEFF}"])
}
