import Foundation

/// The resources of the process at a quiet moment: no call is running, and the caches have emptied their memory.
struct Sample {
    /// Seconds since the start of the run.
    var seconds: Double
    /// The resident memory, in bytes.
    var bytes: Int
    var descriptors: Int
    var threads: Int

    static func now(_ seconds: Double) -> Sample {
        let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
        let resident = pages.flatMap { $0.count > 1 ? Int($0[1]) : nil } ?? 0
        func count(_ folder: String) -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: folder))?.count ?? 0
        }
        return Sample(
            seconds: seconds, bytes: resident * sysconf(Int32(_SC_PAGESIZE)), descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"))
    }

    var line: String {
        String(
            format: "  %8.0f s %6d MiB %6d descriptors %6d threads", seconds, bytes >> 20, descriptors, threads)
    }
}

/// Compares the resources at the end with those after the warm-up.
///
/// The verdict compares the medians of the first and the last third of the samples taken after the warm-up. At the end
/// the process may use at most 24 MiB or 10 % more resident memory, whichever is more (malloc's partly used pages, open
/// connections), 24 more descriptors (open connections), and 4 more threads (Dispatch and Swift start threads as they
/// see fit).
struct SampleVerdict {
    private(set) var problems: [String] = []
    private(set) var summary = ""

    init(_ samples: [Sample], warmUp: Double) {
        let samples = samples.filter { $0.seconds >= warmUp }
        guard samples.count >= 6 else {
            problems.append("there are only \(samples.count) samples after the warming up")
            return
        }
        let third = samples.count / 3
        func median(_ part: ArraySlice<Sample>, _ value: (Sample) -> Int) -> Int {
            part.map(value).sorted()[part.count / 2]
        }
        func compare(_ name: String, _ bound: (Int) -> Int, _ value: (Sample) -> Int) -> (Int, Int) {
            let (first, last) = (median(samples.prefix(third), value), median(samples.suffix(third), value))
            if last > bound(first) { problems.append("\(name): \(first) after the warming up, \(last) at the end") }
            return (first, last)
        }
        let bytes = compare("resident bytes", { $0 + max(24 << 20, $0 / 10) }) { $0.bytes }
        let descriptors = compare("descriptors", { $0 + 24 }) { $0.descriptors }
        let threads = compare("threads", { $0 + 4 }) { $0.threads }
        summary = """
            resident memory \(bytes.0 >> 10) KiB then, \(bytes.1 >> 10) KiB at the end; \
            descriptors \(descriptors.0), \(descriptors.1); \
            threads \(threads.0), \(threads.1)
            """
    }
}
