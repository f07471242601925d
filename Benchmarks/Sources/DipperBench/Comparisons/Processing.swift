import Dipper
import Foundation

/// The comparison of processing a large picture that is already decoded.
struct Processing: Comparison {
    let name = "processors"
    let title = "Processors"

    private static let ours = "Dipper"
    private static let vips = "libvips, one thread"
    private static let pillow = "Pillow"
    private static let blur = "blur, σ = 10"
    private static let round = "round corners, 200"
    private static let resize = "to 1000 × 750"

    func run(_ bench: Bench) async throws -> [Table] {
        let pictures = try SamplePictures(bench)
        let picture = try CodecRegistry.standard.decode(Data(contentsOf: pictures.jpeg))
        let (pillow, vips) = (try PicturePeer.pillow(bench), try PicturePeer.vips(bench))
        defer {
            pillow.end()
            vips.end()
        }
        func ours(_ setting: String, _ processor: any ImageProcessor) -> TimedCompetitor {
            TimedCompetitor(name: Self.ours, setting: setting) {
                try Timing { keep(try processor.process(picture, ProcessingContext())) }
            }
        }
        func peers(_ setting: String, _ run: @escaping (PicturePeer, URL) throws -> Timing) -> [TimedCompetitor] {
            [(Self.vips, vips), (Self.pillow, pillow)].map { name, peer in
                TimedCompetitor(name: name, setting: setting) { try run(peer, pictures.jpeg) }
            }
        }
        let small = PixelSize(width: 1000, height: 750)
        var turns = [ours(Self.blur, .blur(10))]
        turns += peers(Self.blur) { try $0.blur($1, sigma: 10) }
        turns.append(ours(Self.round, .roundedCorners(radius: 200)))
        turns += peers(Self.round) { try $0.roundCorners($1, radius: 200) }
        turns.append(ours(Self.resize, .resize(to: TargetSize(small))))
        turns += peers(Self.resize) { try $0.resize($1, to: small) }
        var figures = Figures()
        try await figures.measure(rounds: bench.rounds(11), turns)
        let settings = [Self.blur, Self.round, Self.resize]
        var table = Table(
            "4000 × 3000 in memory",
            says:
                "Four bytes a pixel, opaque. Milliseconds of the processor, all threads together, and of the clock.",
            unit: "ms", competitors: [Self.ours, Self.vips, Self.pillow],
            settings: settings.flatMap { [$0, $0 + Figures.onTheClock] }, figures: figures)
        table.checks = settings.map { setting in
            Check("\(setting) ÷ libvips", figures.ratio(Self.ours, Self.vips, setting), .atMost, 1)
        }
        table.remarks = [
            "Blur: ours is within 1 of 255 of the exact filter; `vips_gaussblur` is a convolution with whole weights that "
                + "leaves out those below a fifth of the largest; Pillow adds up boxes, three times. Round corners: ours "
                + "computes what is inside of each pixel and multiplies colours by it; for the peers the mask is drawn "
                + "before the time begins, from an SVG and by `ImageDraw`, and becomes the alpha of the picture "
                + "(`vips_bandjoin`, `putalpha`)."
        ]
        return [table]
    }
}
