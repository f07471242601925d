import Foundation

/// What a run was like, as it is written to a file.
package struct Report: Codable {
    /// Of several values, in milliseconds.
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
        /// The share of frames in which all that could be seen was there.
        package let complete: Double
        /// Time in our own functions since the frame before.
        package let own: Spread
        /// The same, without the time in which the thread did not run.
        package let running: Spread
        /// The longest single stay in them.
        package let longestOwn: Double
        /// Frames in which ours took more than 16 ms.
        package let ownOver16: Int
        /// From one frame to the next.
        package let interval: Spread
        /// GTK's layout and drawing, ours in it included.
        package let paint: Spread
    }

    package struct Memory: Codable {
        package let seconds: Double
        /// Of the process, in bytes.
        package let resident: Int
        /// Decoded pictures that the cache keeps, in bytes.
        package let cached: Int
    }

    package struct Place: Codable {
        /// As the server's log has it.
        package let uri: String
        /// In pixels of the window.
        package let x, y, width, height: Double
        /// Frames shown, of a picture that moves.
        package let frames: Int
    }

    package struct Rest: Codable {
        /// Milliseconds since the start.
        package let start, end: Double
        /// When all that could be seen was there; `nil` for not before the end.
        package let settled: Double?
        package let first, last: Int
        package let places: [Place]
        package let screenshot: String?
    }

    package struct Request: Codable {
        package let uri: String
        /// Since the start.
        package let milliseconds: Double
    }

    package let count: Int
    package let columns: Int
    package let seconds: Double
    package let frames: Frames
    package let memory: [Memory]
    package let rests: [Rest]
    package let requests: [Request]
    /// Where the cursor was at the end, and what could be seen.
    package let cursor, first, last: Int
    /// Jobs that hold a place in the queues at most.
    package let slots: Int

    func write(to file: URL) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(self).write(to: file, options: .atomic)
    }
}
