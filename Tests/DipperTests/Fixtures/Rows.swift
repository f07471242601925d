import Dipper
import Foundation
import Testing

/// Pseudo-random numbers that are the same in every run (SplitMix64).
struct SteadyNumbers: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// A picture for tests: straight or premultiplied RGBA without padding between rows.
struct TestPicture {
    let size: PixelSize
    var pixels: [UInt8]

    func image() throws -> Image { try #require(Image(size: size, premultiplied: pixels)) }

    /// Returns the four bytes of a pixel.
    func pixel(_ x: Int, _ y: Int) -> [UInt8] { Array(pixels[(y * size.width + x) * 4..<(y * size.width + x) * 4 + 4]) }

    /// Returns a picture of one colour, premultiplied.
    static func plain(_ width: Int, _ height: Int, _ color: [UInt8] = [0, 0, 0, 0]) -> TestPicture {
        TestPicture(
            size: PixelSize(width: width, height: height), pixels: (0..<width * height).flatMap { _ in color })
    }

    /// Returns smooth gradients with noise and a hard edge; every pixel differs from its neighbours.
    static func waves(_ width: Int, _ height: Int, opaque: Bool = true, seed: UInt64 = 1) -> TestPicture {
        var random = SteadyNumbers(seed)
        var pixels: [UInt8] = []
        pixels.reserveCapacity(width * height * 4)
        for y in 0..<height {
            for x in 0..<width {
                let noise = random.next()
                let edge = x * 3 > width * 2 && y * 2 > height ? 120 : 0
                let alpha = opaque ? 255 : (x * y % 7 == 0 ? 0 : UInt8(truncatingIfNeeded: noise >> 32))
                for color in 0..<3 {
                    let slope = (x * (3 + color) + y * (5 - color)) % 256 / 2
                    let value = min(255, slope + edge + Int(noise >> (8 * UInt64(color)) & 15))
                    pixels.append(UInt8(opaque ? value : value * Int(alpha) / 255))
                }
                pixels.append(alpha)
            }
        }
        return TestPicture(size: PixelSize(width: width, height: height), pixels: pixels)
    }
}

/// A Lanczos resampler with three lobes in double precision: the reference for the resampling tests.
struct ReferenceResampler {
    static func weights(_ source: Int, _ target: Int, _ pixel: Int) -> [(Int, Double)] {
        let scale = Double(source) / Double(target)
        let width = max(1, scale)
        let middle = (Double(pixel) + 0.5) * scale
        var found: [(Int, Double)] = []
        for index in max(0, Int(middle - 3 * width) - 1)..<min(source, Int(middle + 3 * width) + 2) {
            let x = (Double(index) + 0.5 - middle) / width
            let weight = abs(x) < 1e-12 ? 1 : abs(x) >= 3 ? 0 : 3 * sine(x) * sine(x / 3) / (x * x)
            found.append((index, weight))
        }
        let total = found.reduce(0) { $0 + $1.1 }
        return found.map { ($0.0, $0.1 / total) }
    }

    private static func sine(_ x: Double) -> Double { sin(x * .pi) / .pi }

    static func resample(_ picture: TestPicture, to target: PixelSize) -> [UInt8] {
        let (width, height) = (picture.size.width, picture.size.height)
        var middle = [Double](repeating: 0, count: target.width * height * 4)
        for x in 0..<target.width {
            let weights = weights(width, target.width, x)
            for y in 0..<height {
                for color in 0..<4 {
                    var sum = 0.0
                    for (index, weight) in weights {
                        sum += weight * Double(picture.pixels[(y * width + index) * 4 + color])
                    }
                    middle[(y * target.width + x) * 4 + color] = sum
                }
            }
        }
        var result: [UInt8] = []
        result.reserveCapacity(target.width * target.height * 4)
        for y in 0..<target.height {
            let weights = weights(height, target.height, y)
            for x in 0..<target.width {
                let sums = (0..<4).map { color in
                    weights.reduce(0.0) { $0 + $1.1 * middle[($1.0 * target.width + x) * 4 + color] }
                }
                let alpha = min(255, max(0, sums[3].rounded()))
                for color in 0..<3 { result.append(UInt8(min(alpha, max(0, sums[color].rounded())))) }
                result.append(UInt8(alpha))
            }
        }
        return result
    }
}
