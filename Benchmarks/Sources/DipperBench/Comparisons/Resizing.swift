import Dipper
import Foundation

/// The comparison of resizing a large picture that is already decoded.
struct Resizing: Comparison {
    let name = "resize"
    let title = "Resizing"

    private static let ours = "Resize"
    private static let vips = "vips_resize, one thread"
    private static let pillow = "Pillow, LANCZOS"
    private static let sizes = [PixelSize(width: 400, height: 300), PixelSize(width: 1000, height: 750)]

    func run(_ bench: Bench) async throws -> [Table] {
        let pictures = try SamplePictures(bench)
        let picture = try CodecRegistry.standard.decode(Data(contentsOf: pictures.jpeg))
        let (pillow, vips) = (try PicturePeer.pillow(bench), try PicturePeer.vips(bench))
        defer {
            pillow.end()
            vips.end()
        }
        var figures = Figures()
        var turns: [TimedCompetitor] = []
        for size in Self.sizes {
            let setting = Self.setting(size)
            let resize = ImageProcessors.Resize(to: TargetSize(size))
            turns += [
                TimedCompetitor(name: Self.ours, setting: setting) {
                    try Timing { keep(try resize.process(picture, ProcessingContext())) }
                },
                TimedCompetitor(name: Self.vips, setting: setting) { try vips.resize(pictures.jpeg, to: size) },
                TimedCompetitor(name: Self.pillow, setting: setting) { try pillow.resize(pictures.jpeg, to: size) },
            ]
        }
        try await figures.measure(rounds: bench.rounds(15), turns)
        var table = Table(
            "4000 × 3000 in memory, to smaller sizes",
            says:
                "Four bytes a pixel, colours multiplied by alpha, Lanczos with three lobes. Milliseconds of the processor, "
                + "all threads together, and of the clock.",
            unit: "ms", competitors: [Self.ours, Self.vips, Self.pillow],
            settings: Self.sizes.flatMap { [Self.setting($0), Self.setting($0) + Figures.onTheClock] },
            figures: figures)
        table.checks = Self.sizes.map { size in
            Check(
                "\(Self.setting(size)) ÷ libvips", figures.ratio(Self.ours, Self.vips, Self.setting(size)), .atMost, 1)
        }
        return [table]
    }

    private static func setting(_ size: PixelSize) -> String { "\(size.width) × \(size.height)" }
}
