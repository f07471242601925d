import Dipper
import DipperTesting
import TestSupport
import Testing

@Suite("Processors make the sizes and pixels that are worked out by hand", .timeLimit(.minutes(2)))
struct ProcessorPixelTests {
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
