import CGTK
import Dipper
import Foundation
import SampleServer

/// Scrolls the window by a ``Script``, if the options ask for it, and records measurements of each frame.
final class Recorder {
    private let window: GalleryWindow
    private let cache: ImageCache
    private let server: AssetServer
    private let scrollFor: Double?
    private let screenshots: Screenshots?
    private let start = ContinuousClock.now
    private var script = Script()

    // Milliseconds, one value for each frame.
    private var own: [Double] = []
    private var running: [Double] = []
    private var intervals: [Double] = []
    private var paints: [Double] = []
    private var longestOwn = 0.0
    private var completeFrames = 0
    private var paintStart: ContinuousClock.Instant?
    private var frameTime: Int64?
    private var memory: [Report.Memory] = []

    private struct Rest {
        let start: Double
        var settled: Double?
        var shot: Screenshots.Shot?
    }
    private var rest: Rest?
    private var rests: [Report.Rest] = []

    init(_ window: GalleryWindow, _ cache: ImageCache, _ server: AssetServer, _ options: Options) {
        self.window = window
        self.cache = cache
        self.server = server
        scrollFor = options.scrollFor
        screenshots = options.screenshots.map(Screenshots.init)
        Signals.tick(window.grid.pointer) { [weak self] time in self?.frame(time) ?? false }
        if let clock = gtk_widget_get_frame_clock(window.pointer) {
            let clock = UnsafeMutableRawPointer(clock)
            Signals.connect(clock, "before-paint") { [weak self] in self?.paintStart = .now }
            Signals.connect(clock, "after-paint") { [weak self] in self?.painted() }
        }
        Signals.every(milliseconds: 500) { [weak self] in self?.recordMemory() }
    }

    private var milliseconds: Double { start.duration(to: .now) / .milliseconds(1) }

    // MARK: Frames

    /// Records a frame and scrolls by the script.
    /// - Returns: Whether GTK must call again for the next frame.
    private func frame(_ time: Int64) -> Bool {
        let grid = window.grid
        guard !grid.visible.isEmpty else { return true }
        if grid.completeCount == grid.visible.count { completeFrames += 1 }
        if let frameTime { intervals.append(Double(time - frameTime) / 1_000) }
        frameTime = time
        guard let scrollFor else { return true }
        let isResting = if case .rest = script.move { true } else { false }
        if isResting { stay() } else { leave() }
        // The run ends after this time even if the script is in a rest that waits for its screenshot.
        if milliseconds > scrollFor * 1_000 {
            leave()
            window.close()
            return false
        }
        if let position = script.position(
            at: Double(time) / 1e6, top: grid.position, page: grid.page, end: grid.end, mayGoOn: mayGoOn)
        {
            leave()
            grid.position = position
        }
        return true
    }

    private func painted() {
        if let paintStart { paints.append(paintStart.duration(to: .now) / .milliseconds(1)) }
        let reading = Meter.shared.take()
        own.append(reading.total / .milliseconds(1))
        running.append(reading.running / .milliseconds(1))
        longestOwn = max(longestOwn, reading.longest / .milliseconds(1))
    }

    // MARK: Rests

    private var mayGoOn: Bool { screenshots == nil || rest?.shot?.file != nil }

    private func stay() {
        var now = rest ?? Rest(start: milliseconds)
        if now.settled == nil, window.grid.isSettled {
            now.settled = milliseconds
        } else if now.settled != nil, now.shot == nil, let screenshots {
            // The screenshot is taken one frame after settling, when GTK has drawn the settled state.
            now.shot = screenshots.take()
        }
        rest = now
    }

    private func leave() {
        guard let rest else { return }
        let grid = window.grid
        let places = grid.visible.map { index in
            let place = grid.place(of: index, in: window.pointer)
            return Report.Place(
                uri: grid.photographs.uri(of: index), x: place.x, y: place.y,
                width: Double(grid.layout.cell.width), height: Double(grid.layout.cell.height),
                frames: grid.frameCount(of: index))
        }
        rests.append(
            Report.Rest(
                start: rest.start, end: milliseconds, settled: rest.settled, first: grid.visible.lowerBound,
                last: grid.visible.upperBound - 1, places: places, screenshot: rest.shot?.file))
        self.rest = nil
    }

    // MARK: Report

    private func recordMemory() {
        let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
        guard fields.count > 1, let pages = Int(fields[1]) else { return }
        memory.append(
            Report.Memory(
                seconds: milliseconds / 1_000, resident: pages * Int(sysconf(Int32(_SC_PAGESIZE))),
                cached: cache.memorySize))
    }

    func report() -> Report {
        let grid = window.grid
        let count = max(1, intervals.count + 1)
        return Report(
            count: grid.photographs.count, columns: grid.layout.columns, seconds: milliseconds / 1_000,
            frames: Report.Frames(
                count: count, complete: Double(completeFrames) / Double(count), own: .init(own),
                running: .init(running), longestOwn: longestOwn, ownOver16: own.count { $0 > 16 },
                interval: .init(intervals),
                paint: .init(paints)),
            memory: memory, rests: rests,
            requests: server.log.entries.map {
                Report.Request(uri: $0.uri, milliseconds: start.duration(to: $0.time) / .milliseconds(1))
            },
            cursor: grid.cursor, first: grid.visible.lowerBound, last: grid.visible.upperBound - 1,
            slots: cache.data.fastQueue.maxConcurrent + cache.data.slowQueue.maxConcurrent)
    }
}
