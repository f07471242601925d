import Foundation

/// The job that verifies the store: it runs a sweep, then reads every entry and removes damaged ones.
struct Verification: DiskJob {
    private(set) var report: StoreReport
    private let isCounted: Bool
    private var sweep: Sweep?
    private var last: Int?

    /// - Parameters:
    ///   - problems: the problems that SQLite finds in the index.
    ///   - isCounted: whether the totals of the index match its rows.
    init(problems: [String], isCounted: Bool) {
        report = StoreReport()
        report.indexProblems = problems
        self.isCounted = isCounted
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.index else {
            report.indexProblems = ["the store cannot be opened"]
            return false
        }
        do {
            if sweep == nil {
                tier.reopenIfLost()
                sweep = tier.opened.index.map { Sweep($0) }
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
        guard reading.key?.string == row.key else {
            let isReadOnly = tier.opened.files?.isReadOnly == true
            if try isReadOnly || tier.remove(row.id, .entry, ifStill: content) { report.damaged += 1 }
            return
        }
        if case .unreadable = reading {
            report.unreadable += 1
            return
        }
        report.sound += 1
        report.bytes += row.size
    }
}
