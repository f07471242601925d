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

/// Listing and verifying. Safe from any thread; changes are made by the writer's.
extension DiskTier {
    /// Entries and bytes on disk, those on their way not included.
    var totals: EntryIndex.Totals { (try? presentIndex?.totals()) ?? .init() }

    /// The index, unless the folder has been removed; then it is opened again in the background.
    private var presentIndex: EntryIndex? {
        let opened = opened
        guard let index = opened.index else { return nil }
        if opened.isPresent { return index }
        writer.run { self.reopenIfLost() }
        return nil
    }

    /// Calls back with each entry, in the order of their names. False if that cannot be all of them: the index could not
    /// be read, or had to be made anew.
    @discardableResult
    func forEachEntry(_ body: (CachedEntry) -> Void) -> Bool {
        guard let index = presentIndex else { return !opened.isIndexHeld }
        do {
            var last = ""
            while case let rows = try index.rows(after: last, limit: 256), let end = rows.last {
                for row in present(rows) { body(CachedEntry(row)) }
                last = end.name
            }
            return !opened.isIndexNew
        } catch {
            indexFailed(error)
            return false
        }
    }

    func details(of key: CacheKey) -> CachedEntry? {
        guard let row = try? presentIndex?.row(options.naming.name(key)), row.key == key.string else { return nil }
        return present([row]).first.map(CachedEntry.init)
    }

    /// The file that holds the entry, its bytes first; `nil` for entries that are too small to have one, or that lie
    /// there compressed.
    func file(for key: CacheKey) -> URL? {
        let name = options.naming.name(key)
        guard let files = opened.files, files.coding(of: name) == .identity, info(of: key) != nil else { return nil }
        return URL(fileURLWithPath: files.location(name))
    }

    /// Reads every entry and puts right what is not.
    func verify() async -> StoreReport {
        await synchronize()
        // SQLite looks at all of the index in one go; the writer's thread goes on meanwhile.
        let (problems, isCounted) = await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: self.checkIndex()) }
        }
        return await withCheckedContinuation { continuation in
            start(Verification(problems: problems, isCounted: isCounted)) { job in
                continuation.resume(returning: job.report)
            }
        }
    }

    private func checkIndex() -> (problems: [String], isCounted: Bool) {
        guard let index = opened.index else { return ([], true) }
        do {
            return (try index.integrityProblems(), try index.isCounted())
        } catch {
            return (["\(error)"], false)
        }
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
