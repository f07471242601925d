import Foundation

/// The slowest waves of a picture across and down, which is all that ThumbHash and BlurHash keep of it: a cosine
/// transform of four channels at once.
struct Waves {
    let columns: Int
    let rows: Int
    /// The place of a pixel's sample inside the pixel, from 0 (its left and upper edge) to 1.
    private let phase: Double
    private var values: [SIMD4<Double>]

    init(columns: Int, rows: Int, phase: Double) {
        (self.columns, self.rows, self.phase) = (columns, rows, phase)
        values = Array(repeating: .zero, count: columns * rows)
    }

    /// The averages of all pixels, each multiplied by a wave across and a wave down.
    init(of pixels: [SIMD4<Double>], _ size: PixelSize, columns: Int, rows: Int, phase: Double) {
        self.init(columns: columns, rows: rows, phase: phase)
        let (across, down) = (cosines(columns, size.width), cosines(rows, size.height))
        for y in 0..<size.height {
            for column in 0..<columns {
                var sum = SIMD4<Double>.zero
                for x in 0..<size.width { sum += pixels[y * size.width + x] * across[column * size.width + x] }
                for row in 0..<rows { values[row * columns + column] += sum * down[row * size.height + y] }
            }
        }
        let count = Double(size.width * size.height)
        for index in values.indices { values[index] /= count }
    }

    subscript(column: Int, row: Int) -> SIMD4<Double> {
        get { values[row * columns + column] }
        set { values[row * columns + column] = newValue }
    }

    /// Returns the sums of all waves, for the pixels of a picture.
    func pixels(_ size: PixelSize) -> [SIMD4<Double>] {
        let (across, down) = (cosines(columns, size.width), cosines(rows, size.height))
        var lines = [SIMD4<Double>](repeating: .zero, count: rows * size.width)
        for row in 0..<rows {
            for column in 0..<columns {
                let value = values[row * columns + column]
                for x in 0..<size.width { lines[row * size.width + x] += value * across[column * size.width + x] }
            }
        }
        var pixels = [SIMD4<Double>](repeating: .zero, count: size.width * size.height)
        for y in 0..<size.height {
            for row in 0..<rows {
                let factor = down[row * size.height + y]
                for x in 0..<size.width { pixels[y * size.width + x] += lines[row * size.width + x] * factor }
            }
        }
        return pixels
    }

    private func cosines(_ waves: Int, _ length: Int) -> [Double] {
        (0..<waves).flatMap { wave in
            (0..<length).map { cos(.pi * Double(wave) * (Double($0) + phase) / Double(length)) }
        }
    }
}

extension Image {
    /// The longest side of a picture that a hash is made of, and of one that is made of a hash.
    static let (longestHashed, longestOfHash) = (100, 32)

    /// A small form of the picture over its average colour: red, green, blue from 0 to 1 as encoded in sRGB, and alpha.
    func hashed() throws(DipperError) -> (size: PixelSize, pixels: [SIMD4<Double>]) {
        let target = TargetSize(width: Self.longestHashed, height: Self.longestHashed)
        let small = try resized(to: target.size(for: size), ProcessingContext(limits: DecodeLimits()))
        let average = small.averageColor
        let color = SIMD4(average.red, average.green, average.blue, 0)
        var pixels: [SIMD4<Double>] = []
        for y in 0..<small.height {
            for x in 0..<small.width {
                let pixel = SIMD4<Double>(small[x, y]) / 255
                pixels.append(pixel + color * (1 - pixel.w))
            }
        }
        return (small.size, pixels)
    }

    /// Creates a picture from straight colours and alpha of 0 to 1; other numbers are clamped.
    init?(_ size: PixelSize, straight pixels: [SIMD4<Double>]) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(pixels.count * 4)
        for pixel in pixels {
            let color = Color(red: pixel.x, green: pixel.y, blue: pixel.z, alpha: pixel.w).premultiplied
            for channel in 0..<4 { bytes.append(color[channel]) }
        }
        self.init(size: size, premultiplied: bytes)
    }

    /// The average colour of the picture, in which transparent pixels count for nothing: the simplest placeholder. Its
    /// alpha is 1, unless all pixels are transparent: then the colour is ``Color/clear``.
    ///
    /// ```swift
    /// let placeholder = DisplayOptions.Placeholder.color(image.averageColor)
    /// ```
    public var averageColor: Color {
        var sum = SIMD4<UInt64>.zero
        for y in 0..<height {
            let row = row(y)
            // No row is so long that 32 bits overflow: a side has at most 2^24 pixels.
            var line = SIMD4<UInt32>.zero
            for x in 0..<width {
                line &+= SIMD4(
                    UInt32(row[x * 4]), UInt32(row[x * 4 + 1]), UInt32(row[x * 4 + 2]), UInt32(row[x * 4 + 3]))
            }
            sum &+= SIMD4<UInt64>(truncatingIfNeeded: line)
        }
        guard sum.w > 0 else { return .clear }
        let parts = SIMD4<Double>(sum) / Double(sum.w)
        return Color(red: parts.x, green: parts.y, blue: parts.z)
    }
}
