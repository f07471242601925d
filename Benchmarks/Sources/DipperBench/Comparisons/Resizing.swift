import Dipper
import Foundation

/// The comparison of resizing a large picture that is already decoded.
struct Resizing: Comparison {
    let name = "resize"
    let title = "Resizing"

    private static let ours = "Resize"
    private static let vips = "vips_resize, one thread"
    private static let pillow = "Pillow, LANCZOS"
    private static let simd = "pillow-simd, LANCZOS"
    private static let openCV = "OpenCV, INTER_AREA, one thread"
    private static let sizes = [PixelSize(width: 400, height: 300), PixelSize(width: 1000, height: 750)]

    func run(_ bench: Bench) async throws -> [Table] {
        let pictures = try SamplePictures(bench)
        let picture = try CodecRegistry.standard.decode(Data(contentsOf: pictures.jpeg))
        let peers = [
            (Self.simd, try PicturePeer.pillowSIMD(bench)), (Self.openCV, try .openCV(bench)),
            (Self.vips, try .vips(bench)), (Self.pillow, try .pillow(bench)),
        ]
        defer { for (_, peer) in peers { peer.end() } }
        var figures = Figures()
        var turns: [TimedCompetitor] = []
        for size in Self.sizes {
            let setting = Self.setting(size)
            let resize = ImageProcessors.Resize(to: TargetSize(size))
            turns.append(
                TimedCompetitor(name: Self.ours, setting: setting) {
                    try Timing { keep(try resize.process(picture, ProcessingContext())) }
                })
            turns += peers.map { name, peer in
                TimedCompetitor(name: name, setting: setting) { try peer.resize(pictures.jpeg, to: size) }
            }
        }
        try await figures.measure(rounds: bench.rounds(15), turns)
        var table = Table(
            "4000 × 3000 in memory, to smaller sizes",
            says:
                "Four bytes a pixel, colours multiplied by alpha, Lanczos with three lobes; OpenCV, which averages with no "
                + "other filter, takes the mean of an area. Milliseconds of the processor, all threads together, and of the "
                + "clock.",
            unit: "ms", competitors: [Self.ours] + peers.map(\.0),
            settings: Self.sizes.flatMap { [Self.setting($0), Self.setting($0) + Figures.onTheClock] },
            figures: figures)
        table.checks = Self.sizes.flatMap { size in
            [("pillow-simd", Self.simd), ("OpenCV", Self.openCV), ("libvips", Self.vips)].map { name, peer in
                let setting = Self.setting(size)
                return Check("\(setting) ÷ \(name)", figures.ratio(Self.ours, peer, setting), .atMost, 1)
            }
        }
        return [table]
    }

    private static func setting(_ size: PixelSize) -> String { "\(size.width) × \(size.height)" }
}
