import Foundation

/// The job that verifies the store: it runs a sweep, then reads every entry and removes damaged ones.
struct Verification: DiskJob {
    private(set) var report: StoreReport
    private let isCounted: Bool
    private var sweep: Sweep?
    private var last = ""

    /// - Parameters:
    ///   - problems: the problems that SQLite finds in the index.
    ///   - isCounted: whether the totals of the index match its rows.
    init(problems: [String], isCounted: Bool) {
        report = StoreReport()
        report.indexProblems = problems
        self.isCounted = isCounted
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.index, let files = tier.opened.files else {
            report.indexProblems = ["the store cannot be opened"]
            return false
        }
        do {
            if sweep == nil { sweep = Sweep(index, isNoted: false) }
            if let isUnfinished = try sweep?.step(tier), isUnfinished { return true }
            return try checkRows(tier, files, index)
        } catch {
            if IndexFailure(error) != .busy { report.indexProblems.append("\(error)") }
            throw error
        }
    }

    private mutating func checkRows(_ tier: DiskTier, _ files: BlobFiles, _ index: EntryIndex) throws -> Bool {
        let rows = try index.rows(after: last, limit: 64)
        if rows.isEmpty {
            if !isCounted { try index.recount() }
            if let sweep {
                report.unlisted = sweep.unlisted
                report.unfinished = sweep.unfinished
                report.damaged += sweep.damaged
            }
            return false
        }
        var bytes = 0
        for row in rows where bytes < 4 << 20 {
            try check(row, tier, files, index)
            bytes += row.size
            last = row.name
        }
        return true
    }

    private mutating func check(
        _ row: EntryIndex.Row, _ tier: DiskTier, _ files: BlobFiles, _ index: EntryIndex
    ) throws {
        let format = tier.options.format
        let reading: RecordFormat.Reading
        if let file = try? files.read(row.name) {
            defer { free(file.bytes) }
            reading = format.decode(UnsafeRawBufferPointer(start: file.bytes, count: file.count)) { _ in Data() }
        } else if let small = try index.smallRecord(row.name) {
            reading = small.withUnsafeBytes { format.decode($0) { _ in Data() } }
        } else {
            // Another process has removed the entry, or is about to put its file in place.
            return
        }
        guard reading.key?.string == row.key else {
            if try tier.removeIfDamaged(row.name, of: row.key) { report.damaged += 1 }
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
