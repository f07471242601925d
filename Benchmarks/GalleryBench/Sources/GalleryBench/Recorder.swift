import Dipper
import DipperGTK
import Foundation

/// Scrolls a window by a ``Script``, and measures each frame.
final class Recorder {
    private let window: UnsafeMutablePointer<GtkWidget>
    private let scrolling: UnsafeMutablePointer<GtkAdjustment>
    private let seconds: Double
    private let cached: () -> Int
    /// The rows on screen with the heights at which their pictures are, and whether all pictures are there.
    private let look: () -> (places: [Int: Double], isComplete: Bool)
    private let start = ContinuousClock.now
    private var script = Script()

    // Milliseconds, one value for each frame.
    private var intervals: [Double] = []
    private var paints: [Double] = []
    private var running: [Double] = []
    private var lastFrame: ContinuousClock.Instant?
    private var paintStart = ContinuousClock.now
    private var processorTime = Duration.zero
    private var completeFrames = 0
    private var places: [Int: Double] = [:]
    private var jumps = 0
    private var memory: [Report.Memory] = []

    init(
        _ window: UnsafeMutablePointer<GtkWidget>, _ scrolled: UnsafeMutablePointer<GtkWidget>, seconds: Double,
        cached: @escaping () -> Int, look: @escaping () -> (places: [Int: Double], isComplete: Bool)
    ) {
        (self.window, self.seconds, self.cached, self.look) = (window, seconds, cached, look)
        scrolling = gtk_scrolled_window_get_vadjustment(OpaquePointer(scrolled))
    }

    /// Serves GTK's loop until the time is over.
    func run(_ name: String, count: Int, requests: () -> Int) -> Report {
        guard let clock = gtk_widget_get_frame_clock(window) else { preconditionFailure("The window is shown.") }
        let object = UnsafeMutableRawPointer(clock)
        GtkSignal.connect(object, "before-paint") { [self] in paintStart = .now }
        GtkSignal.connect(object, "update") { [self] in scroll(at: gdk_frame_clock_get_frame_time(clock)) }
        GtkSignal.connect(object, "after-paint") { [self] in painted() }
        // A frame whenever one is due, whether something changes or not.
        gdk_frame_clock_begin_updating(clock)
        while start.duration(to: .now) < .seconds(seconds) { g_main_context_iteration(nil, 1) }
        let refresh = 1_000.0 / 60
        let missed = intervals.reduce(0) { $0 + max(0, ($1 / refresh).rounded() - 1) }
        let shown = Double(intervals.count)
        return Report(
            name: name, count: count, seconds: seconds, frames: intervals.count, inTime: shown / (shown + missed),
            complete: Double(completeFrames) / max(1, shown), interval: .init(intervals), paint: .init(paints),
            thread: .init(running), jumps: jumps, requests: requests(), memory: memory)
    }

    private func scroll(at time: gint64) {
        let page = gtk_adjustment_get_page_size(scrolling)
        let end = max(0, gtk_adjustment_get_upper(scrolling) - page)
        let top = gtk_adjustment_get_value(scrolling)
        if page > 0, let position = script.position(at: Double(time) / 1e6, top: top, page: page, end: end) {
            gtk_adjustment_set_value(scrolling, position)
        }
    }

    private func painted() {
        let now = ContinuousClock.now
        paints.append(paintStart.duration(to: now) / .milliseconds(1))
        if let lastFrame { intervals.append(lastFrame.duration(to: now) / .milliseconds(1)) }
        lastFrame = now
        let (places, isComplete) = look()
        if isComplete { completeFrames += 1 }
        // All rows move together when the view scrolls.
        let moves = places.compactMap { row, place in self.places[row].map { place - $0 } }.sorted()
        jumps += moves.count { abs($0 - moves[moves.count / 2]) > 1 }
        self.places = places
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        let processorTime = Duration.seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        if self.processorTime > .zero { running.append((processorTime - self.processorTime) / .milliseconds(1)) }
        self.processorTime = processorTime
        if paints.count % 30 == 0 { recordMemory() }
    }

    private func recordMemory() {
        let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
        guard fields.count > 1, let pages = Int(fields[1]) else { return }
        memory.append(
            Report.Memory(
                seconds: start.duration(to: .now) / .seconds(1), resident: pages * Int(sysconf(Int32(_SC_PAGESIZE))),
                cached: cached()))
    }
}

/// The measurements of a run, written to a file as JSON.
struct Report: Encodable {
    /// The median, 99th percentile and maximum of several values, in milliseconds.
    struct Spread: Encodable {
        var median = 0.0
        var p99 = 0.0
        var max = 0.0

        init(_ values: [Double]) {
            let sorted = values.sorted()
            guard let last = sorted.last else { return }
            func rounded(_ value: Double) -> Double { (value * 1_000).rounded() / 1_000 }
            median = rounded(sorted[sorted.count / 2])
            p99 = rounded(sorted[min(sorted.count - 1, sorted.count * 99 / 100)])
            max = rounded(last)
        }
    }

    struct Memory: Encodable {
        let seconds: Double
        /// The resident memory of the process, in bytes, which includes the server and its files.
        let resident: Int
        /// The size of the decoded pictures that the cache keeps in memory, in bytes.
        let cached: Int
    }

    let name: String
    let count: Int
    let seconds: Double
    let frames: Int
    /// The share of the frames that were due at 60 Hz.
    let inTime: Double
    /// The share of frames in which all visible photographs were shown.
    let complete: Double
    /// Time from the end of one frame to that of the next.
    let interval: Spread
    /// Time of layout and drawing.
    let paint: Spread
    /// Time for which GTK's thread has run since the frame before.
    let thread: Spread
    /// The number of rows that moved against their neighbours.
    let jumps: Int
    let requests: Int
    let memory: [Memory]

    var summary: String {
        let most = memory.map(\.cached).max() ?? 0
        // The cache counts as full from 99 % of its largest size.
        let full = memory.first { $0.cached * 100 >= most * 99 }
        func text(_ value: Double) -> String {
            value.formatted(.number.precision(.fractionLength(1)).locale(Locale(identifier: "en_US_POSIX")))
        }
        func megabytes(_ memory: Memory?) -> String { "\((memory?.resident ?? 0) >> 20) MB resident" }
        return """
            \(name): \(frames) frames in \(text(seconds)) s, \(text(inTime * 100)) % of those due; in \
            \(text(complete * 100)) % all pictures were there.
              \(text(interval.p99)) ms between frames (99th percentile), at most \(text(interval.max)) ms; GTK's thread \
            ran \(text(thread.median)) ms a frame (median), at most \(text(thread.max)) ms; \(jumps) rows jumped.
              \(megabytes(full)) when the cache was full after \(text(full?.seconds ?? 0)) s, \(megabytes(memory.last)) \
            at the end; \(requests) requests.
            """
    }
}

extension Encodable {
    /// Writes a value as JSON.
    func write(to file: URL) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(self).write(to: file, options: .atomic)
    }
}
