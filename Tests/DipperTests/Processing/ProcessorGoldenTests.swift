import Dipper
import Testing

@Suite("Processors make what their formulas say", .timeLimit(.minutes(5)))
struct ProcessorGoldenTests {
    /// A processor, its test picture, and the largest difference, in steps of 1/255, that rounding explains.
    struct Case: CustomTestStringConvertible {
        let name: String
        let picture: String
        let tolerance: Int
        let processor: any ImageProcessor
        var testDescription: String { name }

        init(_ name: String, of picture: String, within tolerance: Int, _ processor: any ImageProcessor) {
            (self.name, self.picture, self.tolerance, self.processor) = (name, picture, tolerance, processor)
        }
    }

    private static let orange = Color(hex: 0xff8000, alpha: 0.5)

    static let sizes = [
        Case("resize-fit", of: "soft", within: 1, Resize(width: 20, height: 20)),
        Case("resize-stretch", of: "photo", within: 1, Resize(width: 25, height: 30, .stretch)),
        Case("scale-up", of: "soft", within: 1, Scale(by: 1.5)),
        Case("crop-center", of: "photo", within: 0, Crop(width: 20, height: 16)),
        Case("crop-corner", of: "photo", within: 0, Crop(width: 20, height: 16, anchor: .bottomRight)),
        Case("crop-rectangle", of: "photo", within: 0, Crop(to: PixelRect(x: 30, y: -4, width: 99, height: 24))),
        Case("fitting-fit", of: "soft", within: 1, Fitting(width: 32, height: 32, background: Color(hex: 0x336699))),
        Case("fitting-fill-top", of: "photo", within: 1, Fitting(width: 16, height: 24, .aspectFill.at(.topLeft))),
        Case("fitting-center", of: "layer", within: 1, Fitting(width: 40, height: 14, .center, background: orange)),
        Case("fitting-corner", of: "photo", within: 0, Fitting(width: 30, height: 40, .bottomRight)),
        Case("rotate-quarter", of: "photo", within: 0, Rotate(degrees: -270)),
        Case("flip-horizontal", of: "photo", within: 0, Flip.horizontal),
        // Pixman weighs by 128 steps between pixels.
        Case("rotate-30", of: "photo", within: 2, Rotate(degrees: 30, background: Color(hex: 0x208020))),
        Case("rotate-cut", of: "soft", within: 2, Rotate(degrees: -100, expands: false)),
    ]

    /// The reference counts 1024 points of each pixel.
    static let shapes = [
        Case("round", of: "photo", within: 1, RoundCorners(radius: 10)),
        Case("round", of: "photo", within: 1, RoundCorners(radius: .fractionOfWidth(0.25))),
        Case(
            "round-some", of: "soft", within: 1,
            RoundCorners(radius: 20.5, corners: [.topLeft, .bottomRight], background: Color(hex: 0x204060))),
        Case("circle", of: "photo", within: 1, Circle()),
        Case("border", of: "soft", within: 1, Border(Color(hex: 0xff0000, alpha: 0.6), width: 2.5)),
        Case(
            "border-round", of: "photo", within: 2,
            RoundCorners(radius: 12) |> Border(.white, width: 3, radius: 12)),
    ]

    static let filters = [
        Case("blur-0.6", of: "soft", within: 1, GaussianBlur(sigma: 0.6)),
        Case("blur-2", of: "soft", within: 1, GaussianBlur(sigma: 2)),
        Case("blur-4", of: "soft", within: 1, GaussianBlur(sigma: 4)),
        Case("blur-8", of: "soft", within: 1, GaussianBlur(sigma: 8)),
        Case("blur-25", of: "soft", within: 1, GaussianBlur(sigma: 25)),
        Case("colors-brightness", of: "soft", within: 1, ColorControls(brightness: 0.2)),
        Case("colors-contrast", of: "soft", within: 1, ColorControls(contrast: 1.6)),
        Case("colors-saturation", of: "photo", within: 1, ColorControls(saturation: 2)),
        Case("colors-exposure", of: "photo", within: 1, ColorControls(exposure: 0.7)),
        Case(
            "colors-all", of: "soft", within: 1,
            ColorControls(brightness: -0.1, contrast: 1.3, saturation: 0.4, exposure: -0.8)),
        Case("black-white", of: "soft", within: 1, Monochrome()),
        Case("monochrome", of: "soft", within: 1, Monochrome(color: Color(hex: 0xc09060), intensity: 0.75)),
        Case("tint", of: "soft", within: 1, Tint(Color(hex: 0x00a0ff, alpha: 0.4))),
        Case("overlay", of: "soft", within: 1, Overlay(Color(hex: 0xff2000), fraction: 0.25)),
    ]

    @Test("sizes, frames and turns", arguments: sizes)
    func checkSizes(_ test: Case) throws { try check(test) }

    @Test("shapes", arguments: shapes)
    func checkShapes(_ test: Case) throws { try check(test) }

    @Test("filters", arguments: filters)
    func checkFilters(_ test: Case) throws { try check(test) }

    @Test("every mode of blending, within 2 of 255", arguments: BlendMode.allCases)
    func modes(_ mode: BlendMode) throws {
        let layer = try Processed.picture("layer")
        try check(Case("blend-\(mode.rawValue)", of: "backdrop", within: 2, Blend(layer, mode)))
        // The other way round.
        let below = Blend(try Processed.picture("backdrop"), mode, side: .below)
        try check(Case("blend-\(mode.rawValue)", of: "layer", within: 2, below))
    }

    @Test("blending with a colour above or below, and with a mark in a corner")
    func placing() throws {
        try check(Case("blend-with-color", of: "soft", within: 1, Blend(Color(hex: 0xff8040), .multiply)))
        try check(Case("blend-below", of: "soft", within: 1, Blend(Color(hex: 0x8000ff), side: .below)))
        let mark = Blend(try Processed.picture("layer"), anchor: .bottomRight, opacity: 0.5)
        try check(Case("blend-mark", of: "photo", within: 2, mark))
    }

    private func check(_ test: Case) throws {
        let image = try test.processor.process(Processed.picture(test.picture), .init())
        let difference = try Difference(image, Golden("processed/\(test.name).rgba"))
        #expect(difference.largest <= test.tolerance, "\(test.name): \(difference)")
        #expect(image.isOpaque == image.pixels.enumerated().allSatisfy { $0.offset % 4 != 3 || $0.element == 255 })
    }
}
