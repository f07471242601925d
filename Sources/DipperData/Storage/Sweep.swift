import Foundation

/// The job that compares rows and files: it removes files that no row names, and rows whose files are missing or
/// incomplete, as after a power cut.
struct Sweep: DiskJob {
    private let index: EntryIndex
    private let request: EntryIndex.SweepRequest?
    private let isForFiles: Bool
    private var shards: [String]?
    private var names: [String] = []
    /// The stores whose files have been met, and whether they are open.
    private var stores: [Substring: Bool] = [:]
    private var table: EntryIndex.Table? = .entry
    private var last: Int?

    /// The number of files that no row named.
    private(set) var unlisted = 0
    /// The number of rows whose files were missing or incomplete.
    private(set) var unfinished = 0

    /// - Parameters:
    ///   - request: what the sweep answers. It then ends early if the store is closed.
    ///   - isForFiles: whether the sweep looks at files alone.
    init(_ index: EntryIndex, _ request: EntryIndex.SweepRequest? = nil, isForFiles: Bool = false) {
        self.index = index
        self.request = request
        self.isForFiles = isForFiles
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard tier.opened.index === index, let files = tier.opened.files, let lock = files.lock,
            !(request != nil && tier.isClosed)
        else { return false }
        if shards == nil { shards = try files.shards() }
        if !names.isEmpty {
            try compare(files, lock)
        } else if let shard = shards?.last {
            names = try files.names(inShard: shard)
            shards?.removeLast()
        } else if let table, !isForFiles {
            try compareRows(of: table, files, tier)
        } else {
            if let request { try end(request, tier) }
            return false
        }
        return true
    }

    private mutating func compare(_ files: BlobFiles, _ lock: StoreLock) throws {
        let some = names.suffix(64)
        for name in some.compactMap({ BlobName($0) }) {
            // The row of an open store's file may be about to come; of a closed one, no row comes after this question.
            let isOpen = stores[name.store] ?? (name.store != lock.id && lock.isOpen(name.store))
            stores[name.store] = isOpen
            if !isOpen, try !index.names(name.text, name.id), files.remove([name.text]) { unlisted += 1 }
        }
        names.removeLast(some.count)
    }

    private mutating func compareRows(of table: EntryIndex.Table, _ files: BlobFiles, _ tier: DiskTier) throws {
        let rows = try index.rows(in: table, after: last, limit: 128)
        for row in rows {
            guard let blob = row.blob, try files.size(of: blob) != row.size - row.trailer.count else { continue }
            let content = EntryIndex.Content(blob: blob, trailer: row.trailer, expires: .infinity)
            if try tier.remove(row.id, table, ifStill: content), table == .entry { unfinished += 1 }
        }
        last = rows.last?.id
        if rows.isEmpty { self.table = table == .entry ? .partial : nil }
    }

    private func end(_ request: EntryIndex.SweepRequest, _ tier: DiskTier) throws {
        // The files of open stores have not been looked at.
        if !stores.values.contains(true) { try index.answer(request) }
        tier.logger.info("files and index have been compared")
        tier.keepLimit()
    }
}
