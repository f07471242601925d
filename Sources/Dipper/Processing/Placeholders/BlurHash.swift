import Foundation

// BlurHash, by Wolt (https://github.com/woltapp/blurhash/blob/master/Algorithm.md): digits of base 83. The first has the
// numbers of waves, the second the range of the waves, the next four the average colour; then come the waves, two digits
// each, with 19 steps for each of red, green and blue, in linear light.
extension Image {
    /// Creates the small, blurred picture of a BlurHash, whose longer side has 32 pixels; `nil` if the text is no BlurHash.
    ///
    /// - Parameters:
    ///   - text: the hash.
    ///   - size: the size of the picture that the hash was made from, in any unit, because a BlurHash does not say the
    ///     proportions; by default the picture is square.
    public init?(blurHash text: String, for size: PixelSize = PixelSize(width: 1, height: 1)) {
        guard !size.isEmpty, let waves = Self.waves(ofBlurHash: text) else { return nil }
        let target = TargetSize(width: Self.longestOfHash, height: Self.longestOfHash, allowsUpscaling: true)
        let size = target.size(for: size)
        let pixels = waves.pixels(size).map { light in
            SIMD4(Color.encoded(light.x), Color.encoded(light.y), Color.encoded(light.z), 1)
        }
        self.init(size, straight: pixels)
    }

    private static let digits = Array(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#$%*+,-.:;=?@[]^_{|}~".utf8)

    private static func waves(ofBlurHash text: String) -> Waves? {
        // Nine waves in each direction are the most.
        guard (6...166).contains(text.utf8.count) else { return nil }
        let numbers = text.utf8.compactMap { digits.firstIndex(of: $0) }
        guard numbers.count == text.utf8.count else { return nil }
        var waves = Waves(columns: numbers[0] % 9 + 1, rows: numbers[0] / 9 + 1, phase: 0)
        let average = numbers[2..<6].reduce(0) { $0 * 83 + $1 }
        guard numbers[0] < 81, numbers.count == 4 + 2 * waves.columns * waves.rows, average < 1 << 24 else {
            return nil
        }
        func light(_ shift: Int) -> Double { Color.light(Double(average >> shift & 255) / 255) }
        waves[0, 0] = SIMD4(light(16), light(8), light(0), 1)
        let range = Double(numbers[1] + 1) / 166
        for index in 1..<waves.columns * waves.rows {
            let number = numbers[4 + 2 * index] * 83 + numbers[5 + 2 * index]
            guard number < 19 * 19 * 19 else { return nil }
            func part(_ step: Int) -> Double {
                let part = Double(number / step % 19 - 9) / 9
                return part * abs(part) * range
            }
            waves[index % waves.columns, index / waves.columns] = SIMD4(part(19 * 19), part(19), part(1), 0)
        }
        return waves
    }

    /// Returns the BlurHash of the picture; transparent pixels take the average colour.
    ///
    /// ```swift
    /// let hash = try image.blurHash(components: (x: 4, y: 3))
    /// let placeholder = DisplayOptions.Placeholder.blurHash(hash, for: image.size)
    /// ```
    /// - Parameter components: the number of waves across and down, from 1 to 9 each; other numbers are clamped.
    /// - Throws: `DipperError.imageTooLarge` without memory.
    public func blurHash(components: (x: Int, y: Int) = (x: 4, y: 3)) throws(DipperError) -> String {
        let (columns, rows) = (min(max(1, components.x), 9), min(max(1, components.y), 9))
        let (size, pixels) = try hashed()
        let light = pixels.map { SIMD4(Color.light($0.x), Color.light($0.y), Color.light($0.z), 0) }
        let waves = Waves(of: light, size, columns: columns, rows: rows, phase: 0)
        let others = (1..<max(2, columns * rows)).prefix(columns * rows - 1).map {
            waves[$0 % columns, $0 / columns] * 2
        }
        let largest = others.reduce(0) { max($0, abs($1.x), abs($1.y), abs($1.z)) }
        let range = others.isEmpty ? 0 : min(max(0, Int((largest * 166 - 0.5).rounded(.down))), 82)
        var text = Self.text(columns - 1 + (rows - 1) * 9, 1) + Self.text(range, 1)
        func byte(_ light: Double) -> Int { Int((Color.encoded(light) * 255).rounded()) }
        text += Self.text(byte(waves[0, 0].x) << 16 | byte(waves[0, 0].y) << 8 | byte(waves[0, 0].z), 4)
        for wave in others {
            func step(_ part: Double) -> Int {
                let part = part / (Double(range + 1) / 166)
                return Int(min(max(0, ((part < 0 ? -1 : 1) * abs(part).squareRoot() * 9 + 9.5).rounded(.down)), 18))
            }
            text += Self.text((step(wave.x) * 19 + step(wave.y)) * 19 + step(wave.z), 2)
        }
        return text
    }

    private static func text(_ number: Int, _ count: Int) -> String {
        var rest = number
        var text: [UInt8] = []
        for _ in 0..<count {
            text.append(digits[rest % 83])
            rest /= 83
        }
        return String(decoding: text.reversed(), as: UTF8.self)
    }
}
