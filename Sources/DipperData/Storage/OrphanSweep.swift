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
    func verify() async -> StoreReport {
        await synchronize()
        return await withCheckedContinuation { continuation in
            // SQLite checks the whole index in one call; the writer thread goes on meanwhile.
            DispatchQueue(label: "dipper.verify").async {
                let (problems, isCounted) = self.checkIndex()
                var sweep = OrphanSweep(.verification(isCounted: isCounted))
                sweep.report.indexProblems = problems
                sweep.whenEnded = { continuation.resume(returning: $0) }
                self.start(sweep, .verification)
            }
        }
    }

    private func checkIndex() -> (problems: [String], isCounted: Bool) {
        guard let index = opened.index else { return ([], true) }
        do {
            let (problems, isCounted) = (try index.integrityProblems(), try index.isCounted())
            // The damage may be where no call reads. A file that could not be read is a problem, too, and may pass.
            if !problems.isEmpty { indexFailed(IndexError(cause: EntryIndex.Suspicion(), index: index)) }
            return (problems, isCounted)
        } catch {
            indexFailed(error)
            return (["\(error)"], false)
        }
    }
}

/// Removes files that no row names, and rows whose files are missing or incomplete, as after a power cut. A
/// verification also reads all entries, and removes damaged ones.
struct OrphanSweep: DiskJob {
    enum Purpose {
        /// A request of the index, by its number.
        case due(Int)
        /// Removes rows that no longer count because the store has been cleared, then files without rows.
        case clearing
        /// - isCounted: whether the totals of the index match its rows.
        case verification(isCounted: Bool)
    }

    private let purpose: Purpose
    /// A verification takes the index that is open when it begins.
    private var index: EntryIndex?
    private var shards: [String]?
    private var names: [String] = []
    private var stores: [Substring: Bool] = [:]
    private var table: EntryIndex.Table?
    private var last: Int?
    private var hasRemovedCleared = false
    private var isIncomplete = false
    var report = StoreReport()
    var whenEnded: @Sendable (StoreReport) -> Void = { _ in }

    init(_ purpose: Purpose, _ index: EntryIndex? = nil) {
        self.purpose = purpose
        self.index = index
        if case .clearing = purpose { table = nil } else { table = .entry }
    }

    private var isVerification: Bool { if case .verification = purpose { true } else { false } }

    func end(_ tier: DiskTier) {
        var report = report
        if isVerification, index == nil {
            report.indexProblems = [tier.isClosed ? "the cache has been shut down" : "the store cannot be opened"]
        } else if isVerification, table != nil, report.indexProblems.isEmpty {
            report.indexProblems = ["not all entries could be checked"]
        }
        whenEnded(report)
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        if index == nil {
            tier.reopenIfLost()
            index = tier.opened.index
        }
        let opened = tier.opened
        guard let index, index === opened.index, opened.isPresent, let files = opened.files,
            isVerification || opened.isWritable
        else {
            isIncomplete = true
            if case .clearing = purpose, !opened.isWritable { tier.state.withLock { $0.hasFailedRemoval = true } }
            return false
        }
        do {
            return try step(tier, index, files)
        } catch {
            if IndexFailure(error) != .busy { report.indexProblems.append("\(error)") }
            throw error
        }
    }

    private mutating func step(_ tier: DiskTier, _ index: EntryIndex, _ files: BlobFiles) throws -> Bool {
        if case .clearing = purpose, !hasRemovedCleared {
            let step = try index.removeSome(of: .cleared, atMost: tier.mostRemoved)
            tier.remove(step.blobs)
            hasRemovedCleared = step.rest == nil
            return true
        }
        if shards == nil { shards = files.isReadOnly ? [] : look { try files.shards() } ?? [] }
        if !names.isEmpty {
            try compareNames(index, files, tier)
        } else if let shard = shards?.popLast() {
            names = look { try files.names(inShard: shard) } ?? []
        } else if let table {
            try compareRows(of: table, index, files, tier)
        } else {
            try finish(tier, index)
            return false
        }
        return true
    }

    private mutating func compareNames(_ index: EntryIndex, _ files: BlobFiles, _ tier: DiskTier) throws {
        let some = names.suffix(64)
        for name in some.compactMap({ BlobName($0) }) {
            // An open store may be about to add the row; a closed one adds none after this question.
            let isOpen = stores[name.store] ?? files.isOpenElsewhere(name.store)
            stores[name.store] = isOpen
            if try index.names(name.text, name.id) { continue }
            if isOpen || !tier.remove([name.text]) { isIncomplete = true } else { report.unlisted += 1 }
        }
        names.removeLast(some.count)
    }

    private mutating func look<Found>(_ body: () throws -> Found) -> Found? {
        do {
            return try body()
        } catch {
            isIncomplete = true
            return nil
        }
    }

    private mutating func compareRows(
        of table: EntryIndex.Table, _ index: EntryIndex, _ files: BlobFiles, _ tier: DiskTier
    ) throws {
        let rows = try index.rows(in: table, after: last, limit: 64)
        if rows.isEmpty { (self.table, last) = (table == .entry ? .partial : nil, nil) }
        var bytes = 0
        for row in rows where bytes < 4 << 20 {
            let wanted = row.size - row.trailer.count
            if let blob = row.blob, !files.isReadOnly, let size = look({ try files.size(of: blob) }),
                // The file of a partial body grows before its row.
                table == .partial ? size ?? -1 < wanted : size != wanted
            {
                let content = EntryIndex.Content(blob: blob, trailer: row.trailer, expires: .infinity)
                if try tier.remove(row.id, table, ifStill: content), table == .entry { report.unfinished += 1 }
            } else if isVerification, table == .entry {
                bytes += row.size
                try check(row, tier, index)
            }
            last = row.id
        }
    }

    private mutating func check(_ row: EntryIndex.Row, _ tier: DiskTier, _ index: EntryIndex) throws {
        // Another process may have replaced or removed the entry.
        guard let content = try index.content(row.id), content.trailer == row.trailer else { return }
        let found: RecordFormat.Reading?
        do throws(FileError) {
            found = try tier.read(content, .init(key: CacheKey(verbatim: row.key)), tier.opened.files)
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

    private func finish(_ tier: DiskTier, _ index: EntryIndex) throws {
        switch purpose {
        case .due(let number):
            if !isIncomplete { try index.endSweep(number, boot: tier.options.boot) }
            tier.logger.info("files and index have been compared")
            tier.keepLimit()
        case .verification(isCounted: false): try index.recount()
        case .verification: break
        case .clearing:
            if isIncomplete { try index.requestSweep() }
            try? index.emptyLog()
        }
    }
}

enum Boot {
    /// The kernel's identifier of the current boot; empty if there is none.
    static let current: String = {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
    }()
}
