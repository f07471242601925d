import Dipper
import Foundation
import TestSupport
import Testing

/// A picture for tests: straight or premultiplied RGBA without padding between rows.
struct TestPicture {
    let size: PixelSize
    var pixels: [UInt8]

    func image() throws -> Image { try #require(Image(size: size, premultiplied: pixels)) }

    func pixel(_ x: Int, _ y: Int) -> [UInt8] { Array(pixels[(y * size.width + x) * 4..<(y * size.width + x) * 4 + 4]) }

    /// Returns smooth gradients with noise and a hard edge; every pixel differs from its neighbours.
    static func waves(_ width: Int, _ height: Int, opaque: Bool = true) -> TestPicture {
        var random = SeededRandom(1)
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

/// Filters of rows, then of columns, in double precision: the reference for tests of resampling and blurring.
enum ReferenceFilter {
    /// The source pixels that a target pixel takes, each with its weight.
    typealias Weights = [(index: Int, weight: Double)]

    /// Returns the weights of Lanczos with three lobes.
    static func lanczos(_ source: Int, _ target: Int) -> [Weights] {
        let scale = Double(source) / Double(target)
        let width = max(1, scale)
        return (0..<target).map { pixel in
            let middle = (Double(pixel) + 0.5) * scale
            let near = max(0, Int(middle - 3 * width) - 1)..<min(source, Int(middle + 3 * width) + 2)
            return normalized(near) { index in
                let x = (Double(index) + 0.5 - middle) / width
                return abs(x) < 1e-12 ? 1 : abs(x) >= 3 ? 0 : 3 * sin(x * .pi) * sin(x * .pi / 3) / (x * x * .pi * .pi)
            }
        }
    }

    /// Returns the weights of a Gaussian up to seven standard deviations, with the edges repeated outside.
    static func gauss(_ count: Int, _ sigma: Double) -> [Weights] {
        let reach = Int(sigma * 7) + 2
        return (0..<count).map { pixel in
            var shares = [Double](repeating: 0, count: count)
            for (offset, weight) in normalized(-reach..<reach + 1, { exp(-Double($0 * $0) / (2 * sigma * sigma)) }) {
                shares[min(max(pixel + offset, 0), count - 1)] += weight
            }
            return shares.enumerated().map { ($0.offset, $0.element) }
        }
    }

    private static func normalized(_ indices: Range<Int>, _ weight: (Int) -> Double) -> Weights {
        let weights = indices.map(weight)
        let total = weights.reduce(0, +)
        return zip(indices, weights).map { ($0, $1 / total) }
    }

    /// Returns the filtered bytes, with colours and alpha as they come out of the weights.
    static func apply(_ pixels: [UInt8], _ size: PixelSize, columns: [Weights], rows: [Weights]) -> [Double] {
        var across: [Double] = []
        for start in stride(from: 0, to: pixels.count, by: size.width * 4) {
            for weights in columns {
                for color in 0..<4 {
                    across.append(weights.reduce(0) { $0 + $1.weight * Double(pixels[start + $1.index * 4 + color]) })
                }
            }
        }
        let stride = columns.count * 4
        return rows.flatMap { weights in
            (0..<stride).map { column in weights.reduce(0) { $0 + $1.weight * across[$1.index * stride + column] } }
        }
    }

    /// Returns the picture resampled by Lanczos, with no colour above its alpha.
    static func resample(_ picture: TestPicture, to target: PixelSize) -> [UInt8] {
        var values = apply(
            picture.pixels, picture.size, columns: lanczos(picture.size.width, target.width),
            rows: lanczos(picture.size.height, target.height)
        ).map { min(255, max(0, $0.rounded())) }
        for index in values.indices { values[index] = min(values[index], values[index | 3]) }
        return values.map { UInt8($0) }
    }
}
