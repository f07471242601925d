import Foundation

/// What ``DataCache/verify()`` found.
public struct StoreReport: Sendable, Hashable {
    /// Entries that are whole.
    public var sound = 0
    /// Bytes of those, as they lie on disk.
    public var bytes = 0
    /// Entries whose bytes were not what was written. They have been removed.
    public var damaged = 0
    /// Rows without an entry, left by a write that was cut off. They have been removed.
    public var unfinished = 0
    /// Files without a row, which are now listed again.
    public var unlisted = 0
    /// What SQLite found wrong with the index.
    public var indexProblems: [String] = []

    /// Nothing found yet.
    public init() {}

    /// True if nothing that was written has been harmed.
    public var isSound: Bool { damaged == 0 && indexProblems.isEmpty }
}

/// Listing, trimming, verifying. Safe from any thread; changes are made by the writer's.
extension DiskTier {
    /// Entries and bytes on disk, those on their way not included.
    var totals: EntryIndex.Totals {
        (try? opened.index?.totals()) ?? .init()
    }

    /// Removes entries stored before the moment, in the background.
    func remove(storedBefore limit: TimeInterval) {
        writer.run { self.removeNow(storedBefore: limit) }
    }

    /// Removes entries that have expired, in the background.
    func removeExpiredLater() {
        writer.run {
            self.removeExpired()
            // Beginnings of bodies have a longest life of their own.
            PartialFiles(root: self.options.folder).trimToLife(now: Date().timeIntervalSince1970)
        }
    }

    /// Removes the least recently used entries until no more than this is left, in the background.
    func trim(toSize size: Int) {
        writer.run { self.removeOldest(untilSize: max(0, size)) }
    }

    /// Calls back with each entry, in the order of their names.
    func forEachEntry(_ body: (CachedEntry) -> Void) {
        do {
            var last = ""
            while let rows = try opened.index?.rows(after: last, limit: 256), let end = rows.last {
                for row in rows { body(CachedEntry(row)) }
                last = end.name
            }
        } catch {
            indexFailed(error)
        }
    }

    func details(of key: CacheKey) -> CachedEntry? {
        guard let row = try? opened.index?.row(options.naming.name(key)), row.key == key.string else { return nil }
        return CachedEntry(row)
    }

    /// The file that holds the entry, its bytes first; `nil` for entries that are too small to have one, or that lie
    /// there compressed.
    func file(for key: CacheKey) -> URL? {
        let name = options.naming.name(key)
        guard let files = opened.files, files.coding(of: name) == .identity else { return nil }
        return URL(fileURLWithPath: files.location(name))
    }

    /// Reads every entry and puts right what is not. On the writer's thread.
    func verify() async -> StoreReport {
        await withCheckedContinuation { continuation in
            let isRunning = writer.run { continuation.resume(returning: self.verifyNow()) }
            if !isRunning { continuation.resume(returning: StoreReport()) }
        }
    }

    private func verifyNow() -> StoreReport {
        var report = StoreReport()
        guard let index = opened.index, let files = opened.files else {
            report.indexProblems = ["the store cannot be opened"]
            return report
        }
        do {
            report.indexProblems = try index.integrityProblems()
            for shard in files.shards() {
                for name in files.names(inShard: shard) where try index.row(name) == nil {
                    guard let file = files.readMetadata(name),
                        let head = file.bytes.withUnsafeBytes({ EntryRecord.decodeMetadata($0) })
                    else {
                        files.remove(name)
                        report.damaged += 1
                        continue
                    }
                    report.unlisted += 1
                    try index.addMissing([
                        .init(
                            name: name, key: head.key.string, url: head.info.url, size: file.size,
                            stored: head.info.stored, accessed: head.info.stored, lifetime: head.lifetime)
                    ])
                }
            }
            var last = ""
            while true {
                let rows = try index.rows(after: last, limit: 64)
                guard let end = rows.last else { break }
                for row in rows { try check(row, files, index, &report) }
                last = end.name
            }
            try index.recount()
        } catch {
            report.indexProblems.append("\(error)")
            indexFailed(error)
        }
        return report
    }

    private func check(
        _ row: EntryIndex.Row, _ files: BlobFiles, _ index: EntryIndex, _ report: inout StoreReport
    ) throws {
        let record: EntryRecord?
        if let file = try? files.read(row.name) {
            defer { free(file.bytes) }
            record = EntryRecord.decode(UnsafeRawBufferPointer(start: file.bytes, count: file.count)) { _ in Data() }
        } else if let small = try index.smallRecord(row.name) {
            record = small.withUnsafeBytes { EntryRecord.decode($0) { _ in Data() } }
        } else {
            // Another process may be about to put the file in place.
            let isYoung = abs(now().timeIntervalSince1970 - row.accessed) < 60
            if isYoung, files.hasOtherWriters() { return }
            report.unfinished += 1
            try index.remove(row.name) { !files.exists(row.name) }
            return
        }
        guard let record, record.key.string == row.key else {
            report.damaged += 1
            removeNow([row.name])
            return
        }
        report.sound += 1
        report.bytes += row.size
    }
}

extension CachedEntry {
    init(_ row: EntryIndex.Row) {
        self.init(
            key: CacheKey(verbatim: row.key), url: row.url, size: row.size,
            stored: Date(timeIntervalSince1970: row.stored), accessed: Date(timeIntervalSince1970: row.accessed),
            expires: row.lifetime.expires.isFinite ? Date(timeIntervalSince1970: row.lifetime.expires) : nil)
    }
}
