import Foundation

/// The job that compares rows and files: it removes files that no row names, and rows whose files are missing or
/// incomplete, as after a power cut.
struct Sweep: DiskJob {
    private let index: EntryIndex
    private let isNoted: Bool
    private let isForFiles: Bool
    private var shards: [String]?
    private var names: [BlobName] = []
    /// The stores whose files have been met, and whether they are open.
    private var stores: [Substring: Bool] = [:]
    private var table: EntryIndex.Table? = .entry
    private var last: Int?

    /// The number of files that no row named.
    private(set) var unlisted = 0
    /// The number of rows whose files were missing or incomplete.
    private(set) var unfinished = 0

    /// - Parameters:
    ///   - isNoted: whether the sweep is noted in the index once it is done, and ends early if the store is closed.
    ///   - isForFiles: whether the sweep looks at files alone.
    init(_ index: EntryIndex, isNoted: Bool = false, isForFiles: Bool = false) {
        self.index = index
        self.isNoted = isNoted
        self.isForFiles = isForFiles
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard tier.opened.index === index, let files = tier.opened.files, let staging = files.staging,
            !(isNoted && tier.isClosed)
        else { return false }
        if shards == nil { shards = files.shards() }
        if !names.isEmpty {
            try compare(files, staging)
        } else if let shard = shards?.popLast() {
            names = files.names(inShard: shard)
        } else if let table, !isForFiles {
            try compareRows(of: table, files, tier)
        } else {
            if isNoted { try end(tier) }
            return false
        }
        return true
    }

    private mutating func compare(_ files: BlobFiles, _ staging: StagingFolder) throws {
        let some = names.suffix(64)
        for name in some where try !index.names(name.text, name.id) {
            // The row of an open store's file may be about to come.
            let isOpen = stores[name.store] ?? (name.store != staging.name && staging.isOpen(name.store))
            stores[name.store] = isOpen
            if !isOpen, files.remove([name.text]) { unlisted += 1 }
        }
        names.removeLast(some.count)
    }

    private mutating func compareRows(of table: EntryIndex.Table, _ files: BlobFiles, _ tier: DiskTier) throws {
        let rows = try index.rows(in: table, after: last, limit: 256)
        last = rows.last?.id
        if rows.isEmpty { self.table = table == .entry ? .partial : nil }
        for row in rows {
            guard let blob = row.blob, files.size(of: blob) != row.size - row.trailer.count else { continue }
            let content = EntryIndex.Content(blob: blob, trailer: row.trailer, expires: .infinity)
            if tier.removeDamaged(row.id, table, content), table == .entry { unfinished += 1 }
        }
    }

    private func end(_ tier: DiskTier) throws {
        // The files of open stores have not been looked at.
        if !stores.values.contains(true) { try index.setSwept(tier.options.boot) }
        tier.logger.info("files and index have been compared")
        tier.keepLimit()
    }
}
