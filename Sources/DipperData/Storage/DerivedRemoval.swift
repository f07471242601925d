import Foundation

/// The job that removes the entries derived from an entry.
struct DerivedRemoval: DiskJob {
    private let key: CacheKey
    private var areListedGone = false
    private var shards: [String]?
    private var names: [String] = []

    init(of key: CacheKey) {
        self.key = key
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.index, let files = tier.opened.files, !files.isReadOnly else { return false }
        if !areListedGone {
            let first = key.derivedPrefix
            // `$` follows `#`, so this key comes right after all keys with the prefix.
            let end = String(first.dropLast()) + "$"
            let removed = try index.removeSome(of: .derived(from: first, before: end)) { files.remove($0) }
            areListedGone = removed.entries == 0
            return true
        }
        // Files that an unfinished sweep has not listed in the index yet.
        if shards == nil {
            guard let position = try index.sweepPosition(), position.phase == .files else { return false }
            shards = files.shards().filter { $0 > position.last }
        }
        if names.isEmpty {
            guard let shard = shards?.popLast() else { return false }
            names = files.names(inShard: shard)
            return true
        }
        try index.compare(names.suffix(64)) { name, listed in
            guard let row = files.row(of: name), CacheKey(verbatim: row.key).isDerived(of: key) else { return .keep }
            files.remove(name)
            return listed?.isSmall == false ? .remove : .keep
        }
        names.removeLast(min(64, names.count))
        return true
    }
}
