import Foundation

/// The job that removes entries and partial bodies stored before `limit`, in seconds since 1970.
struct Flush: DiskJob {
    let limit: TimeInterval
    private var last = ""
    private var isBegun = false
    private var cleaned = EntryIndex.Totals()

    init(limit: TimeInterval) {
        self.limit = limit
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.index, let files = tier.opened.files, !files.isReadOnly else { return false }
        if !isBegun { tier.opened.partials?.trim(writtenAfter: limit, now: limit) }
        isBegun = true
        let rows = try index.rows(after: last, limit: 256)
        guard let end = rows.last else { return false }
        try index.compare(rows.filter { $0.stored < limit }.map(\.name)) { name, listed in
            guard let listed, listed.stored < limit else { return .keep }
            files.remove(name)
            cleaned.add(.init(bytes: listed.size, entries: 1))
            return .remove
        }
        last = end.name
        return true
    }

    func tell(_ tier: DiskTier) { tier.tell(cleaned, .flushed) }
}
