import ArgumentParser
import Dipper
import DipperInspector
import Foundation

struct StatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats", abstract: "Print the number of entries in the cache and their total size.")

    @OptionGroup var store: StoreOptions

    func run() async throws {
        try await store.withCache { cache in
            let (folder, count, size) = (store.directory.path, cache.diskCount, cache.diskSize)
            let text = "\(folder): \(count) entries, \(ByteCount.describe(size))"
            store.tell(["folder": folder, "entries": count, "bytes": size], or: text)
        }
    }
}

struct ListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the entries of the cache.",
        discussion: """
            Prints the size, age, key and URL of each entry. URLs are shown without passwords and secret parameters. \
            The commands show, export and remove accept the key in place of the URL.
            """)

    @OptionGroup var store: StoreOptions

    func run() async throws {
        try await store.withCache { cache in
            if cache.listEntries({ store.tell($0.json, or: $0.line) }) { return }
            throw CommandFailure("the index of the cache could not be read: entries may be missing from the list")
        }
    }
}

struct ShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Print the metadata of an entry.")

    @OptionGroup var entry: EntryOptions
    @OptionGroup var store: StoreOptions

    func run() async throws {
        try await store.withCache { cache in
            let key = try entry.key(in: cache)
            guard let found = cache.entry(for: key), let response = cache.readResponse(for: key) else {
                throw entry.isMissing
            }
            let fresh =
                response.freshUntil.map { $0 == .distantPast ? "never" : "until \($0.ISO8601Format())" } ?? "always"
            let fields = response.headers.fields.map { ($0.name, ReadableFields.shown($0.name, $0.value)) }
            if store.json {
                var line = found.json
                line.add("bodyBytes", response.data.count)
                line.add("status", response.status)
                line.add("fresh", fresh)
                line.add("file", cache.file(for: key)?.path)
                line.add("headers", Dictionary(grouping: fields) { $0.0.lowercased() }.mapValues { $0.map(\.1) })
                return tell(line.text)
            }
            tell("url       \(found.shownURL)")
            tell("key       \(key.digest)")
            tell("size      \(response.data.count) bytes (\(found.size) on disk)")
            tell("status    \(response.status)")
            tell("stored    \(found.stored)")
            tell("accessed  \(found.accessed)")
            tell("fresh     \(fresh)")
            tell("expires   \(found.expires.map { "\($0)" } ?? "never")")
            if let file = cache.file(for: key) { tell("file      \(file.path)") }
            for (name, value) in fields { tell("          \(name): \(value)") }
        }
    }
}

struct InspectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "Open a live page about the cache, until it is interrupted.",
        discussion: """
            Prints the address of the page, which only this machine reaches and only who has the address can read. Another \
            program may use the cache meanwhile: the page shows its entries, but not its fetches; see --inspect of get.
            """)

    @Option(help: ArgumentHelp("The port of the page. (default: any free port)", valueName: "PORT"))
    var port = 0
    @Flag(help: "Let the page change nothing.") var readOnly = false
    @OptionGroup var decoding: DecodingOptions
    @OptionGroup var store: StoreOptions

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port must be a number from 0 to 65535.") }
    }

    func run() async throws {
        try await store.withCache { cache in
            var options = Inspector.Options()
            (options.port, options.isReadOnly) = (port, readOnly)
            cache.isolateOthers(decoding.options())
            let inspector = Inspector(cache, options)
            let page = try inspector.start()
            store.tell(["inspector": page.absoluteString], or: page.absoluteString)
            await Interrupt.wait()
            await inspector.stop()
        }
        throw ExitCode(130)
    }
}

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write the bytes of an entry to a file or to standard output.")

    @OptionGroup var entry: EntryOptions
    @Argument(help: ArgumentHelp("The file to write; - for standard output.", valueName: "FILE")) var file: String
    @OptionGroup var store: StoreOptions

    func run() async throws {
        try await store.withCache { cache in
            let key = try entry.key(in: cache)
            guard let data = cache.readData(for: key) else { throw entry.isMissing }
            try BodyFiles.write(data, to: file)
            let line: JSONLine = ["key": key.digest, "file": file, "bytes": data.count]
            if store.json, file != "-" { tell(line.text) }
        }
    }
}

struct RemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove an entry, and all pictures made from it.")

    @OptionGroup var entry: EntryOptions
    @OptionGroup var store: StoreOptions

    func run() async throws {
        try await store.remove { cache in
            let key = try entry.key(in: cache)
            guard cache.entry(for: key) != nil else { throw entry.isMissing }
            cache.removeData(for: key)
            cache.removeDerived(of: key)
        }
    }
}

struct TrimCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trim", abstract: "Remove old entries, then the least recently used entries.")

    @Option(help: ArgumentHelp("The largest size of the cache afterwards, such as 100MB.", valueName: "SIZE"))
    var size: ByteCount?

    @Option(help: ArgumentHelp("Remove entries that were stored longer ago than this, such as 7d.", valueName: "AGE"))
    var olderThan: Age?

    @OptionGroup var store: StoreOptions

    func validate() throws {
        guard size != nil || olderThan != nil else { throw ValidationError("Give --size or --older-than.") }
    }

    func run() async throws {
        try await store.remove { cache in
            if let olderThan { cache.flush(olderThan: olderThan.duration) }
            if let size { cache.trimDisk(to: size.bytes) }
        }
    }
}

struct ClearCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "clear", abstract: "Remove all entries.")

    @OptionGroup var store: StoreOptions

    func run() async throws {
        try await store.remove { $0.clear() }
    }
}

struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Read every entry, and remove damaged entries.",
        discussion: "The exit status is 1 if an entry or the index was damaged.")

    @OptionGroup var store: StoreOptions

    func run() async throws {
        let report = try await store.withCache { await $0.verify() }
        if store.json {
            let line: JSONLine = [
                "sound": report.isSound, "entries": report.sound, "bytes": report.bytes, "damaged": report.damaged,
                "unreadable": report.unreadable, "unfinished": report.unfinished, "unlisted": report.unlisted,
                "problems": report.indexProblems,
            ]
            tell(line.text)
        } else {
            tell("\(report.sound) entries are sound, \(ByteCount.describe(report.bytes))")
            if report.unreadable > 0 { tell("\(report.unreadable) entries need a codec and have been left alone") }
            if report.unfinished > 0 { tell("\(report.unfinished) entries without their bytes were removed") }
            if report.unlisted > 0 { tell("\(report.unlisted) files of unfinished writes were removed") }
            if report.damaged > 0 { tell("\(report.damaged) damaged entries were removed") }
            for problem in report.indexProblems { tell("index: \(problem)") }
        }
        if !report.isSound { throw ExitCode(1) }
    }
}

extension StoreOptions {
    fileprivate func remove(_ body: (DataCache) throws -> Void) async throws {
        try await withCache { cache in
            let (count, size) = (cache.diskCount, cache.diskSize)
            try body(cache)
            await cache.synchronize()
            // Others may have written meanwhile.
            let (removed, bytes) = (max(0, count - cache.diskCount), max(0, size - cache.diskSize))
            tell(
                ["removed": removed, "bytes": bytes],
                or: "\(removed) \(removed == 1 ? "entry" : "entries") removed, \(ByteCount.describe(bytes))")
            try await cache.finishRemovals()
        }
    }
}

extension CachedEntry {
    // mutant Secrets: `url.isEmpty ? "\(key)" : Redaction.standard.text(url) }` => `url.isEmpty ? "\(key)" : url }`
    fileprivate var shownURL: String { url.isEmpty ? "\(key)" : Redaction.standard.text(url) }

    fileprivate var json: JSONLine {
        [
            "url": shownURL, "key": key.digest, "bytes": size, "stored": stored.ISO8601Format(),
            "accessed": accessed.ISO8601Format(), "expires": expires?.ISO8601Format(),
        ]
    }

    fileprivate var line: String {
        let (size, age) = (ByteCount.describe(self.size).padded(9), Age.describe(since: stored).padded(9))
        return "\(size)\(age)  \(key.digest.prefix(12))  \(shownURL)"
    }
}
