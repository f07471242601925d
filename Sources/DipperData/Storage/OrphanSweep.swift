import Foundation

/// Removes files that no row names, and rows whose files are missing or incomplete, as after a power cut.
struct OrphanSweep: DiskJob {
    private let index: EntryIndex
    private let request: EntryIndex.SweepRequest?
    private var shards: [String]?
    private var names: [String] = []
    /// Whether each store is open whose files have been met.
    private var stores: [Substring: Bool] = [:]
    /// The table whose rows are looked at next; `nil` after the last one.
    private var table: EntryIndex.Table?
    private var last: Int?
    private(set) var isIncomplete = false

    private(set) var unlisted = 0
    private(set) var unfinished = 0

    /// - Parameter request: answered by the sweep, which ends early if the store is closed.
    init(_ index: EntryIndex, _ request: EntryIndex.SweepRequest? = nil, isForFiles: Bool = false) {
        self.index = index
        self.request = request
        table = isForFiles ? nil : .entry
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard tier.opened.index === index, tier.opened.isPresent, let files = tier.opened.files,
            let lock = files.lock, !(request != nil && tier.isClosed)
        else {
            isIncomplete = true
            return false
        }
        if shards == nil { shards = look { try files.shards() } ?? [] }
        if !names.isEmpty {
            try compare(files, lock)
        } else if let shard = shards?.popLast() {
            names = look { try files.names(inShard: shard) } ?? []
        } else if let table {
            try compareRows(of: table, files, tier)
        } else {
            if let request { try answer(request, tier) }
            return false
        }
        return true
    }

    func end(_ tier: DiskTier) {}

    private mutating func compare(_ files: BlobFiles, _ lock: StoreLock) throws {
        let some = names.suffix(64)
        for name in some.compactMap({ BlobName($0) }) {
            // An open store may be about to add the row; a closed one adds none after this question.
            let isOpen = stores[name.store] ?? (name.store != lock.id && lock.isOpen(name.store))
            stores[name.store] = isOpen
            if try index.names(name.text, name.id) { continue }
            if isOpen || !files.remove([name.text]) { isIncomplete = true } else { unlisted += 1 }
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

    private mutating func compareRows(of table: EntryIndex.Table, _ files: BlobFiles, _ tier: DiskTier) throws {
        let rows = try index.rows(in: table, after: last, limit: 128)
        for row in rows {
            guard let blob = row.blob, let size = look({ try files.size(of: blob) }),
                size != row.size - row.trailer.count
            else { continue }
            let content = EntryIndex.Content(blob: blob, trailer: row.trailer, expires: .infinity)
            if try tier.remove(row.id, table, ifStill: content), table == .entry { unfinished += 1 }
        }
        last = rows.last?.id
        if rows.isEmpty { self.table = table == .entry ? .partial : nil }
    }

    private func answer(_ request: EntryIndex.SweepRequest, _ tier: DiskTier) throws {
        if !isIncomplete { try index.answer(request) }
        tier.logger.info("files and index have been compared")
        tier.keepLimit()
    }
}

enum Boot {
    /// The kernel's identifier of the current boot; empty if there is none.
    static let current: String = {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
    }()
}
