import ArgumentParser
import Dipper
import Foundation
import Logging

struct StoreOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The folder of the cache. (default: $XDG_CACHE_HOME/dipper or ~/.cache/dipper)", valueName: "DIR"))
    var cacheDir: String?

    @Flag(help: "Print JSON, one object per line.")
    var json = false

    @Flag(help: "Leave the signatures of S3, Google, Azure and CloudFront out of the keys of URLs.")
    var ignoreSignatures = false

    @Option(
        help: ArgumentHelp(
            "A parameter to leave out of the keys of URLs; may be repeated. `a*` means all that begin with `a`.",
            valueName: "NAME"))
    var ignoreParameter: [String] = []

    var directory: URL {
        if let cacheDir { return URL(fileURLWithPath: cacheDir, isDirectory: true) }
        return DataCache.Configuration.usersCaches.appendingPathComponent("dipper")
    }

    /// - Parameter makesFolder: whether the cache makes its folder. If not, a missing folder is an error if the user has
    ///   named it, and an empty cache otherwise. An empty folder stays empty.
    func configuration(makesFolder: Bool) throws -> DataCache.Configuration {
        var configuration = DataCache.Configuration(directory: directory)
        if !makesFolder {
            let isMissing = access(directory.path, F_OK) != 0
            if isMissing, cacheDir != nil || errno != ENOENT { throw CommandFailure(cannot: "open", directory.path) }
            let names = try? FileManager.default.contentsOfDirectory(atPath: directory.path)
            if names?.isEmpty ?? isMissing { configuration.directory = nil }
        }
        if ignoreSignatures || !ignoreParameter.isEmpty {
            let rule = ignoreSignatures ? KeyRule.signatures : .leavingOut()
            configuration.keyRule = ignoreParameter.reduce(rule) { $0.leavingOut($1) }
        }
        configuration.name = "dipper"
        configuration.logger = Logger(label: "dipper") { _ in MessageLog() }
        configuration.callbackQueue = .serial(label: "dipper.output")
        return configuration
    }

    func tell(_ line: @autoclosure () -> JSONLine, or text: @autoclosure () -> String) {
        dipper.tell(json ? line().text : text())
    }

    func withCache<Value>(_ body: (DataCache) async throws -> Value) async throws -> Value {
        let cache = try DataCache(configuration(makesFolder: false))
        if let problem = cache.storeProblem, !problem.isReadable {
            await cache.shutdown()
            // The cache has logged the reason.
            throw ExitCode.failure
        }
        // The command asks only once, so the whole index must be open, even if another process holds it.
        await cache.indexOpened()
        let result: Result<Value, any Error>
        do { result = .success(try await body(cache)) } catch { result = .failure(error) }
        await cache.shutdown()
        return try result.get()
    }
}

struct EntryOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "The URL of the entry, or its key as printed by `dipper list`, or at least the first 8 digits of the key.",
            valueName: "URL|KEY"))
    var url: String

    @OptionGroup var header: HeaderOptions

    /// If the arguments give a key, this method reads the keys of all entries.
    func key(in cache: DataCache) throws -> CacheKey {
        let digits = url.lowercased()
        if (8...64).contains(digits.utf8.count), digits.allSatisfy(\.isHexDigit) {
            var found: [CacheKey] = []
            cache.forEachEntry { if $0.key.digest.hasPrefix(digits) { found.append($0.key) } }
            if found.count > 1 {
                throw CommandFailure("\(found.count) entries have keys that begin with '\(digits)'")
            }
            if let key = found.first { return key }
        }
        return cache.complete(header.request(url)).cacheKey
    }

    var isMissing: CommandFailure { CommandFailure("'\(Redaction.standard.text(url))' is not in the cache") }
}

/// The headers that a URL is fetched with, which are part of the entry's key.
struct HeaderOptions: ParsableArguments {
    @Option(
        name: .customLong("header"),
        help: ArgumentHelp("A header of each request; may be repeated.", valueName: "'NAME: VALUE'"))
    var headers: [HeaderArgument] = []

    func validate() throws {
        guard headers.allSatisfy({ !$0.name.isEmpty }) else { throw ValidationError("--header takes 'NAME: VALUE'.") }
    }

    func request(_ url: String) -> DataRequest {
        DataRequest(string: url).with(\.headers, HTTPHeaders(headers.map { .init($0.name, $0.value) }))
    }
}

/// A header given as `Name: value`. Without a colon the name is empty, which ``HeaderOptions/validate()`` refuses: the
/// error of the argument parser would print a value that may be secret.
struct HeaderArgument: ExpressibleByArgument {
    let name: String
    let value: String

    init(argument: String) {
        let colon = argument.firstIndex(of: ":") ?? argument.startIndex
        name = argument[..<colon].trimmingCharacters(in: .whitespaces)
        value = argument[colon...].dropFirst().trimmingCharacters(in: .whitespaces)
    }
}

/// Returns a number with one of the units, in capitals or not, or without a unit; `nil` if the text is none.
private func amount(_ text: String, _ units: [(String, Double)]) -> Double? {
    let (unit, size) = units.first { text.lowercased().hasSuffix($0.0.lowercased()) } ?? ("", 1)
    guard let number = Double(text.dropLast(unit.count)), number >= 0 else { return nil }
    return number * size
}

/// A number of bytes, such as `100MB`, `1.5GiB`, `4096`.
struct ByteCount: ExpressibleByArgument {
    let bytes: Int

    init?(argument: String) {
        let units: [(String, Double)] = [
            ("KiB", 1_024), ("MiB", 1_048_576), ("GiB", 1_073_741_824), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9),
            ("K", 1_024), ("M", 1_048_576), ("G", 1_073_741_824), ("B", 1),
        ]
        guard let number = amount(argument.trimmingCharacters(in: .whitespaces), units), number < 9e18 else {
            return nil
        }
        bytes = Int(number)
    }

    static func describe(_ bytes: Int) -> String {
        switch bytes {
        case ..<1_000: "\(bytes) B"
        case ..<1_000_000: String(format: "%.1f kB", Double(bytes) / 1e3)
        case ..<1_000_000_000: String(format: "%.1f MB", Double(bytes) / 1e6)
        default: String(format: "%.2f GB", Double(bytes) / 1e9)
        }
    }
}

/// A span of time, such as `7d`, `12h`, `30m`, `45s`.
struct Age: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        let units: [(String, Double)] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 604_800)]
        guard let seconds = amount(argument, units), seconds < 1e15 else { return nil }
        duration = .seconds(seconds)
    }

    static func describe(since date: Date) -> String {
        let seconds = Int(min(1e12, max(0, Date().timeIntervalSince(date))))
        return switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7_200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3_600) h"
        default: "\(seconds / 86_400) d"
        }
    }
}
