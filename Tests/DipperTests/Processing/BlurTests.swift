import DipperTesting
import Dipper
import Foundation
import TestSupport
import Testing

@Suite("Blurring", .timeLimit(.minutes(2)))
struct BlurTests {
    /// The filter by its definition: all weights up to seven standard deviations, with the edge pixels repeated outside
    /// of the picture.
    private func reference(_ image: Image, _ sigma: Double) -> [Double] {
        let reach = Int(sigma * 7) + 2
        var weights = (-reach...reach).map { exp(-Double($0 * $0) / (2 * sigma * sigma)) }
        let sum = weights.reduce(0, +)
        weights = weights.map { $0 / sum }
        let (width, height) = (image.width, image.height)
        func along(_ values: [Double], count: Int, step: Int, lines: [Int]) -> [Double] {
            // What each place takes of each: those beyond the ends are the ends.
            var shares = [[Double]](repeating: [Double](repeating: 0, count: count), count: count)
            for place in 0..<count {
                for (index, weight) in weights.enumerated() {
                    shares[place][min(max(place + index - reach, 0), count - 1)] += weight
                }
            }
            var result = values
            for line in lines {
                for place in 0..<count {
                    var total = 0.0
                    for other in 0..<count { total += shares[place][other] * values[line + other * step] }
                    result[line + place * step] = total
                }
            }
            return result
        }
        let rows = (0..<height).flatMap { y in (0..<4).map { y * width * 4 + $0 } }
        let across = along(image.pixels.map(Double.init), count: width, step: 4, lines: rows)
        return along(across, count: height, step: width * 4, lines: Array(0..<width * 4))
    }

    @Test(
        "any picture comes within 1 of 255 of the exact filter",
        arguments: [0.3, 0.5, 1, 2.2, 3.7, 3.8, 5, 7.5, 7.6, 11, 15.2, 31])
    func exact(sigma: Double) throws {
        // Noise, one with the finest lines there are, and a corner as hard as can be.
        var pictures = [try Processed.noise(31, 23, seed: 3)]
        for isCorner in [true, false] {
            let pixels = (0..<31 * 23).flatMap { (index: Int) -> [UInt8] in
                let (x, y) = (index % 31, index / 31)
                let isWhite = isCorner ? x < 12 && y < 9 : (x + y / 2) % 2 == 0
                return isWhite ? [255, 255, 0, 255] : [0, 0, 255, 255]
            }
            pictures.append(try #require(Image(size: PixelSize(width: 31, height: 23), premultiplied: pixels)))
        }
        for image in pictures {
            let expected = reference(image, sigma)
            let result = try ImageProcessors.Blur(sigma).process(image, .init()).pixels
            // Rounding to bytes is half of one.
            let largest = zip(result, expected).map { abs(Double($0) - $1) }.max() ?? 0
            #expect(largest < 1.2, "\(largest)")
        }
    }

    @Test("an even colour stays what it is", arguments: [0.3, 1, 3, 5, 12, 80, 5000, 1e12])
    func even(sigma: Double) throws {
        let colors = [
            Color(hex: 0xc803ff), Color(hex: 0xe400fc, alpha: 0.4), .clear, Color(hex: 0xffffff, alpha: 1 / 255.0),
        ]
        for color in colors {
            for (width, height) in [(1, 1), (2, 17), (40, 3)] {
                let image = Image.filled(with: color, width, height)
                #expect(try ImageProcessors.Blur(sigma).process(image, .init()).pixels == image.pixels)
            }
        }
    }
}
