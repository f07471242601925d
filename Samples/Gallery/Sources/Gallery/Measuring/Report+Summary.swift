import Foundation

extension Report {
    /// A summary of the run in a few lines, for the terminal.
    var summary: String {
        let addresses = Set(requests.map(\.uri)).count
        let most = memory.map(\.cached).max() ?? 0
        // The cache counts as full from 99 % of its largest size.
        let full = memory.first { $0.cached * 100 >= most * 99 }
        return """
            \(frames.count) frames in \(text(seconds)) s, \(text(frames.complete * 100)) % of them with all there that could \
            be seen.
            Own code: \(text(frames.own.median)) ms a frame (median), at most \(text(frames.own.max)) ms, of which the \
            thread ran at most \(text(frames.running.max)) ms; \(frames.ownOver16) frames above 16 ms.
            Resident: \(megabytes(full?.resident)) MB when the cache was full after \(text(full?.seconds ?? 0)) s, \
            \(megabytes(memory.last?.resident)) MB at the end.
            \(requests.count) requests for \(addresses) addresses.
            """
    }

    private func text(_ value: Double) -> String {
        value.formatted(.number.precision(.fractionLength(1)).locale(Locale(identifier: "en_US_POSIX")))
    }

    private func megabytes(_ bytes: Int?) -> Int { (bytes ?? 0) >> 20 }
}
