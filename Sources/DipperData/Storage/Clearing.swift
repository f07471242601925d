import Foundation

/// The job that removes all entries and partial bodies.
struct Clearing: DiskJob {
    private var shards: [String]?
    private var names: [String] = []
    private var last = ""
    /// Whether everything has been removed.
    private(set) var isDone = false
    private var cleaned = EntryIndex.Totals()

    mutating func step(_ tier: DiskTier) throws -> Bool {
        let opened = tier.opened
        guard let files = opened.files, !files.isReadOnly else { return false }
        if shards == nil {
            tier.accesses.withLock { $0 = [:] }
            opened.partials?.removeAll()
            opened.indexFile?.removeOlder()
            shards = files.shards()
            return true
        }
        if names.isEmpty, let shard = shards?.popLast() {
            names = files.names(inShard: shard)
            return true
        }
        if !names.isEmpty {
            let some = Array(names.suffix(128))
            names.removeLast(some.count)
            try remove(some, files, opened.index)
            return true
        }
        guard let rows = try opened.index?.rows(after: last, limit: 128), let end = rows.last else {
            isDone = opened.index != nil
            return false
        }
        try remove(rows.map(\.name), files, opened.index)
        last = end.name
        return true
    }

    private mutating func remove(_ names: [String], _ files: BlobFiles, _ index: EntryIndex?) throws {
        guard let index else {
            for name in names where files.isEntry(name) { files.remove(name) }
            return
        }
        try index.compare(names) { name, listed in
            guard let listed else {
                if files.isEntry(name) { files.remove(name) }
                return .keep
            }
            files.remove(name)
            cleaned.add(.init(bytes: listed.size, entries: 1))
            return .remove
        }
    }

    func tell(_ tier: DiskTier) { tier.tell(cleaned, .cleared) }
}
