import Foundation

/// The comparison of playing a long moving PNG: processor time and memory, beside a browser.
struct MovingPNG: Comparison {
    let name = "apng"
    let title = "Playing a moving PNG"

    private static let (frames, delay, width, height) = (500, 40, 800, 600)
    private static let player = "AnimationPlayer"
    private static let browser = "Chromium, less an empty page"
    private static let pillow = "Pillow, decoding alone"

    func run(_ bench: Bench) async throws -> [Table] {
        let file = try Self.file(bench)
        let chromium = Chromium(bench)
        let folder = file.deletingLastPathComponent()
        let empty = try Self.page(folder, "empty", "")
        let moving = try Self.page(folder, "moving", "<img src=\"\(file.lastPathComponent)\">")
        var processor: [String: [Double]] = [:]
        var (before, peak, shown): ([Double], [Double], [Double]) = ([], [], [])
        for _ in 0..<bench.rounds(3) {
            let numbers = try Command.run(
                Command.myself,
                ["animation-child", "--file", file.path, "--delay", "\(Self.delay)", "--buffer-count", "3"]
            ).numbers(5)
            guard numbers[4] == Double(Self.frames) else {
                throw BenchError("the animation has \(numbers[4]) frames")
            }
            before.append(numbers[0])
            peak.append(numbers[1])
            processor[Self.player, default: []].append(numbers[2])
            shown.append(numbers[3])
            if let chromium {
                let seconds = 10.0
                let atRest = try await chromium.processorSeconds(showing: empty, for: seconds)
                let playing = try await chromium.processorSeconds(showing: moving, for: seconds)
                processor[Self.browser, default: []].append((playing - atRest) / seconds * Double(Self.delay))
            }
            let pillow = try Command.run(bench.python(), [bench.peer("animation.py"), file.path]).numbers(2)
            processor[Self.pillow, default: []].append(pillow[0])
        }
        func median(_ name: String) -> Double { (processor[name] ?? []).median }
        var table = Table(
            "Moving PNG, \(Self.frames) frames of \(Self.width) × \(Self.height), \(Self.delay) ms each",
            says:
                "A window that moves over a photograph that rests. The player shows all frames once on the real clock, with "
                + "three frames decoded ahead. Chromium, without a window, plays for ten seconds, all its processes counted; "
                + "what it takes for an empty page is subtracted, and what is left holds the drawing.",
            header: ["", "ms of the processor a frame"],
            rows: [Self.player, Self.browser, Self.pillow].map { [$0, median($0).short] })
        let more = zip(peak, before).map { $0 - $1 }.max() ?? .nan
        let frame = Double(Self.width * Self.height * 4) / 1_048_576
        table.checks = [
            Check("player's peak above before", more, .atMost, 8 * frame, " MB"),
            Check("frames left out, best run", Double(Self.frames) - (shown.max() ?? .nan), .atMost, 0, ""),
        ]
        if chromium != nil {
            table.checks.append(
                Check("processor ÷ Chromium", median(Self.player) / median(Self.browser), .atMost, 0.8))
        }
        table.remarks = ["Before: with the file and the first frame in memory, and no player."]
        return [table]
    }

    /// Returns the animation's file; the first call creates it in `.work`.
    private static func file(_ bench: Bench) throws -> URL {
        let file = bench.work.appendingPathComponent("pictures/window.png")
        guard !FileManager.default.fileExists(atPath: file.path) else { return file }
        say("making a moving PNG in .work/pictures")
        let unfinished = file.deletingPathExtension().appendingPathExtension("new.png")
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        let photograph = bench.photographs.appendingPathComponent("mountain-trail.jpg")
        try Command.run(
            bench.python(),
            [
                bench.peer("make_moving_png.py"), photograph.path, "\(width)", "\(height)", "\(frames)", "\(delay)",
                unfinished.path,
            ])
        try FileManager.default.moveItem(at: unfinished, to: file)
        return file
    }

    private static func page(_ folder: URL, _ name: String, _ body: String) throws -> URL {
        let page = folder.appendingPathComponent("\(name).html")
        try Data("<!doctype html><title>\(name)</title><body>\(body)</body>\n".utf8).write(to: page)
        return page
    }
}
