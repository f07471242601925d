import Foundation

/// The measurements of a run, written to a file as JSON.
package struct Report: Codable {
    /// The median, 99th percentile and maximum of several values, in milliseconds.
    package struct Spread: Codable {
        package var median = 0.0
        package var p99 = 0.0
        package var max = 0.0

        init(_ values: [Double]) {
            let sorted = values.sorted()
            guard let last = sorted.last else { return }
            func rounded(_ value: Double) -> Double { (value * 1_000).rounded() / 1_000 }
            median = rounded(sorted[sorted.count / 2])
            p99 = rounded(sorted[min(sorted.count - 1, sorted.count * 99 / 100)])
            max = rounded(last)
        }
    }

    package struct Frames: Codable {
        package let count: Int
        /// The share of frames in which all visible photographs were shown.
        package let complete: Double
        /// Time in the program's own functions since the frame before.
        package let own: Spread
        /// Time in which the thread ran in the program's own functions since the frame before.
        package let running: Spread
        /// The longest single call of the program's own functions, in milliseconds.
        package let longestOwn: Double
        /// The number of frames in which the program's own functions took more than 16 ms.
        package let ownOver16: Int
        /// Time from one frame to the next.
        package let interval: Spread
        /// Time of GTK's layout and drawing, the program's own functions included.
        package let paint: Spread
    }

    package struct Memory: Codable {
        package let seconds: Double
        /// The resident memory of the process, in bytes.
        package let resident: Int
        /// The size of the decoded pictures that the cache keeps in memory, in bytes.
        package let cached: Int
    }

    package struct Place: Codable {
        /// Path and query of the photograph, as in the server's log.
        package let uri: String
        /// The rectangle of the cell, in pixels of the window.
        package let x, y, width, height: Double
        package let frames: Int
    }

    package struct Rest: Codable {
        /// Start and end of the rest, in milliseconds since the start of the run.
        package let start, end: Double
        /// Milliseconds from the start of the run until all visible photographs were shown; `nil` if that did not
        /// happen during the rest.
        package let settled: Double?
        package let first, last: Int
        package let places: [Place]
        /// The file name of the screenshot: empty if it failed, `nil` if none was taken.
        package let screenshot: String?
    }

    package struct Request: Codable {
        package let uri: String
        /// Milliseconds since the start of the run.
        package let milliseconds: Double
    }

    package let count: Int
    package let columns: Int
    package let seconds: Double
    package let frames: Frames
    package let memory: [Memory]
    package let rests: [Rest]
    package let requests: [Request]
    /// The photograph at the cursor, and the first and last visible ones, at the end of the run.
    package let cursor, first, last: Int
    /// The largest number of fetches that run at the same time, in both queues together.
    package let slots: Int

    func write(to file: URL) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(self).write(to: file, options: .atomic)
    }
}

extension Report {
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
