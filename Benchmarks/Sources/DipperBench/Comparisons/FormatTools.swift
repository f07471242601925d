import Foundation

/// The comparison of the tool, for formats that are behind traits, with the tools that their libraries come with.
struct FormatTools: Comparison {
    let name = "tools"
    let title = "HEIC and JPEG XL, beside their libraries' tools"

    private static let apart = "dipper convert"
    private static let here = "dipper convert --isolation off"
    private static let peer = "the library's tool"

    func run(_ bench: Bench) async throws -> [Table] {
        let dipper = bench.package.deletingLastPathComponent().appendingPathComponent(".build-traits/release/dipper")
            .path
        guard FileManager.default.isExecutableFile(atPath: dipper) else {
            throw Unsuitable("dipper with all formats is not built; `make bench` builds it")
        }
        let (heic, jxl) = try Self.files(bench)
        let small = bench.work.appendingPathComponent("small.png").path
        let whole = bench.work.appendingPathComponent("small.ppm").path
        var figures = Figures()
        let settings = [
            ("HEIC", heic, try Command.require("heif-thumbnailer"), ["-p", "-s", "400", heic.path, small]),
            ("JPEG XL", jxl, try Command.require("djxl"), ["--quiet", jxl.path, whole]),
        ]
        for (setting, file, program, arguments) in settings {
            func competitor(_ name: String, _ options: [String]) -> TimedCompetitor {
                let arguments = ["convert", file.path, small, "--resize", "400x300"] + options
                return TimedCompetitor(name: name, setting: setting) { try Self.run(dipper, arguments) }
            }
            try await figures.measure(
                rounds: bench.rounds(9),
                [
                    competitor(Self.apart, []), competitor(Self.here, ["--isolation", "off"]),
                    TimedCompetitor(name: Self.peer, setting: setting) { try Self.run(program, arguments) },
                ])
        }
        func rows(_ suffix: String) -> [String] { settings.map { $0.0 + suffix } }
        var table = Table(
            "A picture of 12 megapixels to 400 × 300",
            says:
                "A program from its start to its end, in milliseconds. heif-thumbnailer writes 400 × 300 as PNG; djxl writes the "
                + "whole picture as PPM, by two threads. A helper's processor time is not "
                + "that of the tool, so only the clock compares the first line.",
            unit: "ms", competitors: [Self.apart, Self.here, Self.peer], settings: rows("") + rows(Figures.onTheClock),
            figures: figures)
        table.checks = settings.flatMap { setting, _, _, _ in
            [
                Check("\(setting), processor", figures.ratio(Self.here, Self.peer, setting), .atMost, 1),
                Check(
                    "\(setting), clock", figures.ratio(Self.apart, Self.peer, setting + Figures.onTheClock), .atMost, 1),
            ]
        }
        return [table]
    }

    private static func run(_ program: String, _ arguments: [String]) throws -> Timing {
        let (processor, clock) = (processorSecondsOfChildren(), monotonicSeconds())
        try Command.run(program, arguments)
        return Timing(
            processor: (processorSecondsOfChildren() - processor) * 1e3, wall: (monotonicSeconds() - clock) * 1e3)
    }

    /// The processor time of all programs that have been run and waited for.
    private static func processorSecondsOfChildren() -> Double {
        var usage = rusage()
        getrusage(Int32(RUSAGE_CHILDREN.rawValue), &usage)
        return [usage.ru_utime, usage.ru_stime].map { Double($0.tv_sec) + Double($0.tv_usec) * 1e-6 }.reduce(0, +)
    }

    /// Returns the two pictures; the first call creates them in `.work`.
    private static func files(_ bench: Bench) throws -> (heic: URL, jxl: URL) {
        let pictures = try SamplePictures(bench)
        let heic = pictures.folder.appendingPathComponent("photo.heic")
        let jxl = pictures.folder.appendingPathComponent("photo.jxl")
        if !FileManager.default.fileExists(atPath: jxl.path) {
            say("making a HEIC and a JPEG XL in .work/pictures")
            try Command.run(Command.require("heif-enc"), ["-q", "60", pictures.jpeg.path, "-o", heic.path])
            try Command.run(
                Command.require("cjxl"), ["--lossless_jpeg=0", "-d", "1.5", pictures.jpeg.path, jxl.path])
        }
        return (heic, jxl)
    }
}
