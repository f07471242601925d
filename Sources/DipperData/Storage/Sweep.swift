import Foundation

/// The job that compares the files with the rows of the index and corrects differences: after a power cut, after a
/// process was killed, and when the index had to be made anew.
///
/// A sweep that records its position in the index can be continued by the next process.
struct Sweep: DiskJob {
    private let index: EntryIndex
    private let isNoted: Bool
    private var position: EntryIndex.SweepPosition
    private var shard: String?
    private var names: [String] = []
    private(set) var isDone = false

    /// The number of files that had no row and have one now.
    private(set) var unlisted = 0
    /// The number of files that were not records and were removed.
    private(set) var damaged = 0
    /// The number of rows that had neither file nor record and were removed.
    private(set) var unfinished = 0

    /// - Parameter isNoted: whether the sweep writes its position to the index, and ends early if the store is closed.
    init(_ index: EntryIndex, from position: EntryIndex.SweepPosition = .init(), isNoted: Bool) {
        self.index = index
        self.position = position
        self.isNoted = isNoted
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard tier.opened.index === index, let files = tier.opened.files, !files.isReadOnly,
            !(isNoted && tier.isClosed)
        else { return false }
        switch position.phase {
        case .files: try compareFiles(files, tier)
        case .rows: try compareRows(files, tier)
        }
        if isDone, isNoted {
            try index.endSweep(boot: tier.options.boot)
            tier.logger.info("files and index have been compared")
            tier.keepLimit()
        }
        return !isDone
    }

    private mutating func compareFiles(_ files: BlobFiles, _ tier: DiskTier) throws {
        if names.isEmpty {
            if let shard { position.last = shard }
            shard = files.shards().first { $0 > position.last }
            if let shard { names = files.names(inShard: shard) } else { position = .init(phase: .rows) }
            if isNoted { try index.setSweepPosition(position) }
            return
        }
        let some = names.suffix(64)
        var (unlisted, damaged) = (0, 0)
        try index.compare(Array(some)) { name, listed in
            guard let size = files.size(of: name) else { return .keep }
            // After a power cut, parts of a file that were not written read as zeros, and the file is not a record.
            guard var row = tier.row(of: name, listed, files) else {
                guard listed != nil || KeyDigest.isDigest(name) else { return .keep }
                files.remove(name)
                damaged += 1
                return listed?.isSmall == false ? .remove : .keep
            }
            guard let listed else {
                unlisted += 1
                return .list(row)
            }
            if listed.isSmall, row.stored <= listed.stored {
                // The small entry in the index has replaced the file.
                files.remove(name)
                return .keep
            }
            row.accessed = listed.accessed
            return listed.isSmall || listed.size != size ? .list(row) : .keep
        }
        names.removeLast(some.count)
        self.unlisted += unlisted
        self.damaged += damaged
    }

    private mutating func compareRows(_ files: BlobFiles, _ tier: DiskTier) throws {
        let rows = try index.rows(after: position.last, limit: 256)
        guard let end = rows.last else {
            isDone = true
            return
        }
        var unfinished = 0
        try index.compare(rows.map(\.name).filter { !files.exists($0) }) { name, listed in
            guard let listed, !listed.isSmall, !files.exists(name) else { return .keep }
            unfinished += 1
            return .remove
        }
        self.unfinished += unfinished
        position.last = end.name
        if isNoted { try index.setSweepPosition(position) }
    }
}

extension DiskTier {
    /// Returns the row that a file's metadata describes; `nil` if the file is not a record or is torn.
    func row(of name: String, _ listed: EntryIndex.Listed?, _ files: BlobFiles) -> EntryIndex.Row? {
        guard let row = files.row(of: name) else { return nil }
        // The metadata may be torn. Unexpected metadata is accepted only if the checksum of the whole file is right.
        let isExpected =
            options.naming.name(CacheKey(verbatim: row.key)) == name
            && (listed.map { $0.stored == row.stored } ?? (row.stored != 0))
            && !row.lifetime.isExpired(at: now().timeIntervalSince1970)
        return isExpected || files.isWhole(name) ? row : nil
    }
}
