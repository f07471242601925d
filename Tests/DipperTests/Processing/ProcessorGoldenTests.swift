import Dipper
import TestSupport
import Testing

@Suite("Processors make what their formulas say", .timeLimit(.minutes(2)))
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

    static let cases = [
        Case("resize-fit", of: "soft", within: 1, .resize(width: 20, height: 20)),
        Case("resize-stretch", of: "photo", within: 1, .resize(width: 25, height: 30, .stretch)),
        Case("scale-up", of: "soft", within: 1, .scale(by: 1.5)),
        Case("crop-center", of: "photo", within: 0, .crop(width: 20, height: 16)),
        Case("crop-corner", of: "photo", within: 0, .crop(width: 20, height: 16, anchor: .bottomRight)),
        Case("crop-rectangle", of: "photo", within: 0, .crop(to: PixelRect(x: 30, y: -4, width: 99, height: 24))),
        Case("fitting-fit", of: "soft", within: 1, .fitting(width: 32, height: 32, background: Color(hex: 0x336699))),
        Case("fitting-fill-top", of: "photo", within: 1, .fitting(width: 16, height: 24, .aspectFill.at(.topLeft))),
        Case("fitting-center", of: "layer", within: 1, .fitting(width: 40, height: 14, .center, background: orange)),
        Case("fitting-corner", of: "photo", within: 0, .fitting(width: 30, height: 40, .bottomRight)),
        Case("rotate-quarter", of: "photo", within: 0, .rotate(degrees: -270)),
        Case("flip-horizontal", of: "photo", within: 0, .flip(.horizontal)),
        // Pixman weighs by 128 steps between pixels.
        Case("rotate-30", of: "photo", within: 2, .rotate(degrees: 30, background: Color(hex: 0x208020))),
        Case("rotate-cut", of: "soft", within: 2, .rotate(degrees: -100, expands: false)),
        // The reference counts 1024 points of each pixel.
        Case("round", of: "photo", within: 1, .roundedCorners(radius: 10)),
        Case("round", of: "photo", within: 1, .roundedCorners(radius: .fractionOfWidth(0.25))),
        Case(
            "round-some", of: "soft", within: 1,
            .roundedCorners(radius: 20.5, corners: [.topLeft, .bottomRight], background: Color(hex: 0x204060))),
        Case("circle", of: "photo", within: 1, .circle),
        Case("border", of: "soft", within: 1, .border(Color(hex: 0xff0000, alpha: 0.6), width: 2.5)),
        Case(
            "border-round", of: "photo", within: 2,
            .roundedCorners(radius: 12) |> .border(.white, width: 3, radius: 12)),
        Case("colors-brightness", of: "soft", within: 1, .colorControls(brightness: 0.2)),
        Case("colors-contrast", of: "soft", within: 1, .colorControls(contrast: 1.6)),
        Case("colors-saturation", of: "photo", within: 1, .colorControls(saturation: 2)),
        Case("colors-exposure", of: "photo", within: 1, .colorControls(exposure: 0.7)),
        Case(
            "colors-all", of: "soft", within: 1,
            .colorControls(brightness: -0.1, contrast: 1.3, saturation: 0.4, exposure: -0.8)),
        Case("black-white", of: "soft", within: 1, .monochrome),
        Case("monochrome", of: "soft", within: 1, .monochrome(Color(hex: 0xc09060), intensity: 0.75)),
        Case("tint", of: "soft", within: 1, .tint(Color(hex: 0x00a0ff, alpha: 0.4))),
        Case("overlay", of: "soft", within: 1, .overlay(Color(hex: 0xff2000), fraction: 0.25)),
    ]

    @Test("sizes, frames, turns, shapes and colours", arguments: cases)
    func golden(_ test: Case) throws { try check(test) }

    @Test("every mode of blending, within 2 of 255", arguments: ImageProcessors.Blend.Mode.allCases)
    func modes(_ mode: ImageProcessors.Blend.Mode) throws {
        let layer = try Processed.picture("layer")
        try check(Case("blend-\(mode.rawValue)", of: "backdrop", within: 2, .blend(layer, mode)))
        let below = ImageProcessors.Blend(try Processed.picture("backdrop"), mode, side: .below)
        try check(Case("blend-\(mode.rawValue)", of: "layer", within: 2, below))
    }

    @Test("blending with a colour above or below, and with a mark in a corner")
    func placing() throws {
        try check(Case("blend-with-color", of: "soft", within: 1, .blend(Color(hex: 0xff8040), .multiply)))
        try check(Case("blend-below", of: "soft", within: 1, .blend(Color(hex: 0x8000ff), side: .below)))
        let mark = ImageProcessors.Blend(try Processed.picture("layer"), anchor: .bottomRight, opacity: 0.5)
        try check(Case("blend-mark", of: "photo", within: 2, mark))
    }

    @Test(
        "a blur of any picture comes within 1 of 255 of the exact filter",
        arguments: [0.3, 0.5, 1, 2.2, 3.7, 3.8, 5, 7.5, 7.6, 11, 15.2, 31])
    func blur(sigma: Double) throws {
        // Noise, one with the finest lines there are, and a corner as hard as can be.
        var pictures = [try Processed.noise(31, 23, seed: 3)]
        for isCorner in [true, false] {
            let pixels = (0..<31 * 23).flatMap { (index: Int) -> [UInt8] in
                let (x, y) = (index % 31, index / 31)
                let isWhite = isCorner ? x < 12 && y < 9 : (x + y / 2) % 2 == 0
                return isWhite ? [255, 255, 0, 255] : [0, 0, 255, 255]
            }
            pictures.append(try TestPicture(size: PixelSize(width: 31, height: 23), pixels: pixels).image())
        }
        for image in pictures {
            let expected = ReferenceFilter.apply(
                image.pixels, image.size, columns: ReferenceFilter.gauss(image.width, sigma),
                rows: ReferenceFilter.gauss(image.height, sigma))
            let result = try ImageProcessors.Blur(sigma).process(image, .init()).pixels
            // Rounding to bytes is half of one.
            let largest = zip(result, expected).map { abs(Double($0) - $1) }.max() ?? 0
            #expect(largest < 1.2, "\(largest)")
        }
    }

    private func check(_ test: Case) throws {
        let image = try test.processor.process(Processed.picture(test.picture), .init())
        let difference = try Difference(image, Golden("processed/\(test.name).rgba"))
        #expect(difference.largest <= test.tolerance, "\(test.name): \(difference)")
        #expect(image.isOpaque == image.pixels.enumerated().allSatisfy { $0.offset % 4 != 3 || $0.element == 255 })
    }
}
