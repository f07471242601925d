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
        Case("resize-fit", of: "soft", within: 1, .downsample(width: 20, height: 20)),
        Case("resize-stretch", of: "photo", within: 1, .downsample(width: 25, height: 30, .stretch)),
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

    // MARK: Worked out by hand

    @Test(
        "cropping to a ratio keeps the largest part",
        arguments: [
            (40, 30, 16.0 / 9, "40x23"), (40, 30, 4.0 / 3, "40x30"), (40, 30, 1, "30x30"), (40, 30, 0.8, "24x30"),
            (30, 40, 1, "30x30"), (40, 30, 1e-9, "1x30"), (40, 30, 1e9, "40x1"), (1, 1, 3, "1x1"), (1, 1, 0.1, "1x1"),
            (40, 30, .leastNonzeroMagnitude, "1x30"), (40, 30, .greatestFiniteMagnitude, "40x1"),
        ] as [(Int, Int, Double, String)])
    func ratio(width: Int, height: Int, ratio: Double, size: String) throws {
        let result = try ImageProcessors.Crop(toRatio: ratio).process(.filled(with: .black, width, height), .init())
        #expect(result.size.description == size)
    }

    @Test(
        "cropping to a ratio keeps the pixels at the anchor",
        arguments: [(.left, 0), (.center, 1), (.right, 2)] as [(ImageProcessors.Anchor, Int)])
    func anchor(anchor: ImageProcessors.Anchor, x: Int) throws {
        let image = try Processed.noise(3, 1)
        let result = try ImageProcessors.Crop(toRatio: 1, anchor: anchor).process(image, .init())
        #expect(result.size.description == "1x1" && result[0, 0] == image[x, 0])
    }

    @Test(
        "a white balance multiplies colours and leaves alpha",
        arguments: [
            (6500, 100, [122, 89, 122, 255, 49, 36, 49, 80, 200, 178, 200, 200, 0, 0, 0, 0]),
            (6500, -100, [78, 107, 78, 255, 31, 43, 31, 80, 157, 200, 157, 200, 0, 0, 0, 0]),
            (4000, 0, [85, 100, 132, 255, 34, 40, 53, 80, 170, 200, 200, 200, 0, 0, 0, 0]),
            (9000, 0, [106, 99, 89, 255, 43, 40, 35, 80, 200, 198, 177, 200, 0, 0, 0, 0]),
        ] as [(Double, Double, [UInt8])])
    func whiteBalance(temperature: Double, tint: Double, expected: [UInt8]) throws {
        // An opaque grey, a translucent grey, a translucent white and nothing.
        let greys: [UInt8] = [100, 100, 100, 255, 40, 40, 40, 80, 200, 200, 200, 200, 0, 0, 0, 0]
        let image = try TestPicture(size: PixelSize(width: 4, height: 1), pixels: greys).image()
        let balance = ImageProcessors.WhiteBalance(temperature: temperature, tint: tint)
        #expect(try balance.process(image, .init()).pixels == expected)
    }

    @Test("the lowest and the highest temperature and tint are allowed")
    func bounds() throws {
        let image = Image.filled(with: .black, 1, 1)
        for temperature in [2000.0, 15_000] {
            for tint in [-1000.0, 1000] {
                let balance = ImageProcessors.WhiteBalance(temperature: temperature, tint: tint)
                #expect(try balance.process(image, .init()).pixels == [0, 0, 0, 255])
            }
        }
    }

    @Test("a storyboard has whole copies, each like the resized picture")
    func storyboard() throws {
        let image = try Processed.noise(37, 29)
        let copy = try ImageProcessors.Resize(width: 12, height: 14, .stretch).process(image, .init())
        let grid = try ImageProcessors.Storyboard(columns: 3, rows: 2).process(image, .init())
        #expect(grid.size == PixelSize(width: 36, height: 28))
        for y in 0..<28 {
            for x in 0..<36 { #expect(grid[x, y] == copy[x % 12, y % 14], "\(x), \(y)") }
        }
        let pixels = try ImageProcessors.Storyboard(columns: 37, rows: 29).process(image, .init()).pixels
        let colors = stride(from: 0, to: pixels.count, by: 4).map { Array(pixels[$0..<$0 + 4]) }
        #expect(Set(colors).count == 1)
    }

    @Test(
        "a soul-out lays the copy over the picture with its opacity",
        arguments: [(0, 100), (0.5, 130), (1, 161)] as [(Double, UInt8)])
    func soulOut(opacity: Double, expected: UInt8) throws {
        // Over a white of alpha 100: 50 + 100 × 205 / 255, and 100 + 100 × 155 / 255.
        let image = Image.filled(with: Color(hex: 0xffffff, alpha: 100 / 255.0), 5, 3)
        let result = try ImageProcessors.SoulOut(opacity: opacity).process(image, .init())
        #expect(result.pixels == [UInt8](repeating: expected, count: 5 * 3 * 4))
    }

    @Test("the copy of a soul-out is larger, and its middle is that of the picture")
    func centred() throws {
        // A red square of 2 × 2 pixels in the middle of nothing.
        let pixels = (0..<64).flatMap { (index: Int) -> [UInt8] in
            (3...4).contains(index % 8) && (3...4).contains(index / 8) ? [255, 0, 0, 255] : [0, 0, 0, 0]
        }
        let image = try TestPicture(size: PixelSize(width: 8, height: 8), pixels: pixels).image()
        let result = try ImageProcessors.SoulOut(scale: 2, opacity: 1).process(image, .init())
        #expect(result[3, 3] == SIMD4(255, 0, 0, 255) && result[2, 2].w > 64)
        func alpha(_ x: Int, _ y: Int) -> Int { Int(result[x, y].w) }
        for y in 0..<8 {
            for x in 0..<8 {
                #expect(abs(alpha(x, y) - alpha(7 - x, y)) <= 1 && abs(alpha(x, y) - alpha(x, 7 - y)) <= 1)
            }
        }
    }

    @Test("a soul-out of any scale has the picture's size", arguments: [1, 1.01, 1.3, 2, 9.5])
    func soulOutSize(scale: Double) throws {
        for (width, height) in [(1, 1), (2, 1), (37, 29)] {
            let image = try Processed.noise(width, height)
            #expect(try ImageProcessors.SoulOut(scale: scale).process(image, .init()).size == image.size)
        }
    }
}
