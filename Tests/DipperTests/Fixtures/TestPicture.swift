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
    typealias Weights = [(index: Int, weight: Double)]

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

    static func resample(_ picture: TestPicture, to target: PixelSize) -> [UInt8] {
        var values = apply(
            picture.pixels, picture.size, columns: lanczos(picture.size.width, target.width),
            rows: lanczos(picture.size.height, target.height)
        ).map { min(255, max(0, $0.rounded())) }
        for index in values.indices { values[index] = min(values[index], values[index | 3]) }
        return values.map { UInt8($0) }
    }
}

enum Processed {
    static func picture(_ name: String) throws -> Image {
        let golden = try Golden("processed/\(name).rgba")
        return try #require(Image(size: golden.size, premultiplied: golden.premultiplied))
    }

    /// Returns a picture of random colours and alpha values, in which many pixels are transparent and many are opaque.
    static func noise(_ width: Int, _ height: Int, seed: UInt64 = 1) throws -> Image {
        var random = SeededRandom(seed)
        let pixels = (0..<width * height).flatMap { _ -> [UInt8] in
            let noise = random.next()
            let alpha = noise & 3 == 0 ? 0 : noise & 3 == 1 ? 255 : noise >> 8 & 255
            return [16, 24, 32].map { UInt8((noise >> $0 & 255) * alpha / 255) } + [UInt8(alpha)]
        }
        return try TestPicture(size: PixelSize(width: width, height: height), pixels: pixels).image()
    }

    static func all() throws -> [any ImageProcessor] {
        let mark = try noise(9, 7, seed: 5)
        let color = Color(hex: 0xff8040, alpha: 0.6)
        var all: [any ImageProcessor] = [
            .downsample(width: 17, height: 11), .downsample(width: 6, height: 6, .stretch),
            .resize(width: 97, height: 97, .stretch), .scale(by: 1.7),
            .crop(width: 20, height: 9, anchor: .topRight), .crop(toRatio: 1, anchor: .left),
            .fitting(width: 30, height: 44, .aspectFit, background: color), .fitting(width: 9, height: 8, .topRight),
            .roundedCorners(radius: 7.3), .roundedCorners(radius: 9, corners: .left, background: color), .circle,
            .border(color, width: 2.4), .border(.white, width: 3, radius: 8, corners: .top), .blur(1.3), .blur(5),
            .blur(16), .overlay(color), .tint(color),
            .colorControls(brightness: 0.3, contrast: 2, saturation: 3, exposure: 0.5), .colorControls(contrast: -1),
            .whiteBalance(temperature: 3000, tint: -40), .storyboard(columns: 3, rows: 2), .soulOut(),
            .monochrome(color, intensity: 0.7), .rotate(degrees: 33), .rotate(degrees: 90),
            .rotate(degrees: 200, background: color, expands: false), .flip(.horizontal), .flip(.vertical),
        ]
        for mode in ImageProcessors.Blend.Mode.allCases {
            all += ImageProcessors.Blend.Side.allCases.map { .blend(color, mode, opacity: 0.8, side: $0) }
            all.append(.blend(mark, mode, anchor: .bottomRight, opacity: 0.9))
        }
        return all
    }
}
