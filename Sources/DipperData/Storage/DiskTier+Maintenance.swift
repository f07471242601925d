import Dispatch
import Foundation

/// The result of ``DataCache/verify()``.
public struct StoreReport: Sendable, Hashable {
    /// The number of sound entries.
    public var sound = 0
    /// The size of the sound entries on disk, in bytes.
    public var bytes = 0
    /// The number of damaged entries, which the cache has removed.
    public var damaged = 0
    /// The number of entries with missing or incomplete files, as after a power cut. The cache has removed them.
    public var unfinished = 0
    /// The number of files without an entry, from interrupted writes. The cache has removed them.
    public var unlisted = 0
    /// The number of entries, left alone, that need another ``RecordCodec``, that the configured codec refuses, or
    /// whose files the system does not read.
    public var unreadable = 0
    /// The problems that SQLite found in the index, or the error that prevented the check.
    public var indexProblems: [String] = []

    /// Creates an empty report.
    public init() {}

    /// Whether neither an entry nor the index is damaged.
    public var isSound: Bool { damaged == 0 && indexProblems.isEmpty }
}

extension DiskTier {
    var totals: EntryIndex.Totals { (try? presentIndex?.totals()) ?? .init() }

    private var presentIndex: EntryIndex? {
        let opened = opened
        guard let index = opened.index else { return nil }
        if opened.isPresent { return index }
        writer.run { self.reopenIfLost() }
        return nil
    }

    /// Calls `body` with each entry, in no particular order.
    /// - Returns: `false` if entries may be missing: another process holds the index, or the index or the folder could
    ///   not be read or was replaced meanwhile. `true` if there is no index for another reason.
    @discardableResult
    func forEachEntry(_ body: (CachedEntry) -> Void) -> Bool {
        let opened = opened
        guard let index = presentIndex else { return opened.index == nil && !opened.isIndexHeld }
        do {
            var last: Int?
            var removals = staged.withLock { $0.area.removals }
            while case let rows = try index.rows(after: last, limit: 256), let end = rows.last {
                for row in present(rows, removals) { body(CachedEntry(row)) }
                last = end.id
                removals = staged.withLock { $0.area.removals }
            }
            return presentIndex === index && !self.opened.isIndexNew
        } catch {
            indexFailed(error)
            return false
        }
    }

    func details(of key: CacheKey) -> CachedEntry? {
        let rows = try? presentIndex?.rows(after: EntryIndex.id(of: key) &- 1, limit: 1)
        guard let row = rows?.first, row.key == key.string else { return nil }
        return present([row]).first.map(CachedEntry.init)
    }

    /// `nil` if there is no entry, or if its body is in the index, compressed or encoded by a codec.
    func file(for key: CacheKey) -> URL? {
        let opened = opened
        guard info(of: key) != nil, let content = try? opened.index?.content(EntryIndex.id(of: key)),
            content.layout?.coding == .identity, let blob = content.blob, let files = opened.files
        else { return nil }
        return URL(fileURLWithPath: files.location(blob))
    }

    func verify() async -> StoreReport {
        await synchronize()
        return await withCheckedContinuation { continuation in
            // SQLite checks the whole index in one call; the writer thread goes on meanwhile.
            DispatchQueue(label: "dipper.verify").async {
                let (problems, isCounted) = self.checkIndex()
                self.start(Verification(problems, isCounted: isCounted) { continuation.resume(returning: $0) })
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

private struct Verification: DiskJob {
    private var report = StoreReport()
    private let isCounted: Bool
    private let whenDone: @Sendable (StoreReport) -> Void
    private var sweep: OrphanSweep?
    private var last: Int?

    /// - Parameter isCounted: whether the totals of the index match its rows.
    init(_ problems: [String], isCounted: Bool, whenDone: @escaping @Sendable (StoreReport) -> Void) {
        self.isCounted = isCounted
        self.whenDone = whenDone
        report.indexProblems = problems
    }

    func end(_ tier: DiskTier) { whenDone(report) }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.index else {
            report.indexProblems = ["the store cannot be opened"]
            return false
        }
        do {
            if sweep == nil {
                tier.reopenIfLost()
                sweep = tier.opened.index.map { OrphanSweep($0) }
            }
            if let isUnfinished = try sweep?.step(tier), isUnfinished { return true }
            return try checkRows(tier, index)
        } catch {
            if IndexFailure(error) != .busy { report.indexProblems.append("\(error)") }
            throw error
        }
    }

    private mutating func checkRows(_ tier: DiskTier, _ index: EntryIndex) throws -> Bool {
        let rows = try index.rows(after: last, limit: 64)
        if rows.isEmpty {
            if !isCounted { try index.recount() }
            if let sweep {
                report.unlisted = sweep.unlisted
                report.unfinished = sweep.unfinished
            }
            return false
        }
        var bytes = 0
        for row in rows where bytes < 4 << 20 {
            try check(row, tier, index)
            bytes += row.size
            last = row.id
        }
        return true
    }

    private mutating func check(_ row: EntryIndex.Row, _ tier: DiskTier, _ index: EntryIndex) throws {
        // Another process may have replaced or removed the entry.
        guard let content = try index.content(row.id), content.trailer == row.trailer else { return }
        let found: RecordFormat.Reading?
        do throws(FileError) {
            found = try tier.read(content, tier.opened)
        } catch {
            report.unreadable += 1
            return
        }
        guard let reading = found else { return }
        if reading.key?.string != row.key {
            if try !tier.opened.isWritable || tier.remove(row.id, .entry, ifStill: content) { report.damaged += 1 }
        } else if case .unreadable = reading {
            report.unreadable += 1
        } else {
            report.sound += 1
            report.bytes += row.size
        }
    }
}
