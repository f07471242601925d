import Foundation

/// The comparison of playing a long animation: processor time, memory and punctuality.
struct Animating: Comparison {
    let name = "animation"
    let title = "Playing an animation"

    private static let frames = 500
    private static let delay = 40
    private static let bufferCount = 3
    private static let player = "AnimationPlayer"
    private static let decoder = "its frame decoder alone"
    private static let sleeper = "a thread that only sleeps, beside it"
    private static let giflib = "giflib in C"
    private static let pixbuf = "gdk-pixbuf in C"
    private static let pillow = "Pillow"

    private struct Run {
        /// The processor time per frame, in milliseconds.
        let processor: Double
        let peak: Double
        var before = Double.nan
        var shown = Double.nan
        /// The number of frames that came late or not at all.
        var late = Double.nan
        var latest = Double.nan
        /// Late wake-ups and the largest delay in milliseconds of a thread that only slept meanwhile.
        var sleeper: (late: Double, latest: Double)?
    }

    func run(_ bench: Bench) async throws -> [Table] {
        let file = try Self.file(bench)
        let pixbuf = try bench.compile("animation_pixbuf", "gdk-pixbuf-2.0")
        let giflib = try bench.compile("animation_giflib", flags: ["-lgif"])
        var runs: [String: [Run]] = [:]
        for round in 0..<bench.rounds(2) {
            let competitors: [(String, () throws -> Run)] = [
                (Self.player, { try Self.child(file, []) }),
                (Self.decoder, { try Self.child(file, ["--decodes-only"]) }),
                (Self.giflib, { try Self.peer(giflib, [file.path]) }),
                (Self.pixbuf, { try Self.peer(pixbuf, [file.path, "\(Self.frames)", "\(Self.delay)"]) }),
                (Self.pillow, { try Self.peer(bench.python(), [bench.peer("animation.py"), file.path]) }),
            ]
            for (name, measure) in competitors {
                let run = try measure()
                runs[name, default: []].append(run)
                if let slept = run.sleeper {
                    runs[Self.sleeper, default: []].append(
                        Run(processor: .nan, peak: .nan, late: slept.late, latest: slept.latest))
                }
                say(
                    "  \(round) · \(name): \(run.processor.short) ms a frame, peak \(run.peak.short) MB "
                        + "(before \(run.before.short)), \(run.shown.short) shown, \(run.late.short) late, "
                        + "the latest by \(run.latest.short) ms")
            }
        }
        return [table(runs)]
    }

    /// Returns the animation's file; the first call creates it in `.work`.
    private static func file(_ bench: Bench) throws -> URL {
        let file = bench.work.appendingPathComponent("pictures/animation.gif")
        guard !FileManager.default.fileExists(atPath: file.path) else { return file }
        say("making an animation in .work/pictures")
        let unfinished = file.deletingPathExtension().appendingPathExtension("new.gif")
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        let photograph = bench.photographs.appendingPathComponent("mountain-trail.jpg")
        try Command.run(
            bench.python(),
            [bench.peer("make_animation.py"), photograph.path, "\(frames)", "\(delay)", unfinished.path])
        try FileManager.default.moveItem(at: unfinished, to: file)
        return file
    }

    private static func child(_ file: URL, _ flags: [String]) throws -> Run {
        let numbers = try Command.run(
            Command.myself,
            ["animation-child", "--file", file.path, "--delay", "\(delay)", "--buffer-count", "\(bufferCount)"]
                + flags
        ).numbers(9)
        guard numbers[4] == Double(frames) else { throw BenchError("the animation has \(numbers[4]) frames") }
        return Run(
            processor: numbers[2], peak: numbers[1], before: numbers[0], shown: numbers[3],
            late: numbers[5] + numbers[4] - numbers[3],
            latest: numbers[6], sleeper: flags.isEmpty ? (numbers[7], numbers[8]) : nil)
    }

    private static func peer(_ program: String, _ arguments: [String]) throws -> Run {
        let numbers = try Command.run(program, arguments).numbers(2)
        return Run(processor: numbers[0], peak: numbers[1])
    }

    private func table(_ runs: [String: [Run]]) -> Table {
        func median(_ name: String, _ value: (Run) -> Double) -> Double { (runs[name] ?? []).map(value).median }
        let names = [Self.player, Self.sleeper, Self.decoder, Self.giflib, Self.pixbuf, Self.pillow]
        let own = runs[Self.player] ?? []
        let perSecond = 1e3 / Double(Self.delay)
        var table = Table(
            "GIF, \(Self.frames) frames of 640 × 480, \(Self.delay) ms each",
            says:
                "The player shows all frames once on the real clock, in a child process, with \(Self.bufferCount) frames "
                + "decoded ahead; the others go through the frames as fast as they can. Memory: VmHWM.",
            header: [
                "", "ms of the processor a frame", "% of a processor while it plays", "before, MB", "peak, MB",
                "frames shown", "late by > 16.7 ms, or left out", "the latest, ms",
            ],
            rows: names.map { name in
                [
                    name, median(name, \.processor).short, (median(name, \.processor) * perSecond / 10).short,
                    median(name, \.before).short, median(name, \.peak).short, median(name, \.shown).short,
                    median(name, \.late).short, median(name, \.latest).short,
                ]
            })
        let frame = 640.0 * 480 * 4 / 1_048_576
        table.checks = [
            Check(
                "peak above before, highest of the runs", own.map { $0.peak - $0.before }.max() ?? .nan, .atMost,
                Double(Self.bufferCount) * frame + 32, " MB"),
            Check("frames late or left out, best run", own.map(\.late).min() ?? .nan, .atMost, 0, ""),
            Check(
                "processor ÷ gdk-pixbuf", median(Self.player, \.processor) / median(Self.pixbuf, \.processor), .atMost,
                0.5),
            Check(
                "frame decoder ÷ giflib", median(Self.decoder, \.processor) / median(Self.giflib, \.processor), .atMost,
                0.6),
        ]
        table.remarks = [
            "Before: with the file and the first frame in memory, and no player. Lateness is counted from the frame that was "
                + "the most punctual, on a machine that others used too: the best run says what the player does, the thread that "
                + "only sleeps what the machine did. gdk-pixbuf's figure holds the reading of the file, which it does at once."
        ]
        return table
    }
}
