import Foundation

// ThumbHash, by Evan Wallace (https://evanw.github.io/thumbhash/): up to 25 bytes. A header has the averages of
// luminance, yellow–blue and red–green, the range of each, the number of waves along the shorter side, and whether there
// is alpha. Then come the waves of each channel, four bits each, without the fastest diagonal ones. Alpha has its
// average and range in a byte of its own.
extension Image {
    /// Creates the small, blurred picture of a ThumbHash, of at most 32 × 32 pixels, with about the proportions of the
    /// picture that the hash was made from; `nil` if the text is no ThumbHash.
    ///
    /// - Parameter base64: the hash in Base64, also of the kind for URLs and without padding.
    public init?(thumbHash base64: String) {
        // The longest hash has 25 bytes.
        guard base64.utf8.count <= 40 else { return nil }
        let plain = base64.replacing("-", with: "+").replacing("_", with: "/").replacing("=", with: "")
        let padding = String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        guard let bytes = Data(base64Encoded: plain + padding), bytes.count >= 6 else { return nil }
        func bits(_ place: Int, _ count: Int) -> Int {
            bytes.prefix(5).reversed().reduce(0) { $0 << 8 | Int($1) } >> place & (1 << count - 1)
        }
        let form = HashForm(hasAlpha: bits(23, 1) == 1, isLandscape: bits(39, 1) == 1, short: bits(24, 3))
        let parts = bytes.dropFirst(form.hasAlpha ? 6 : 5).flatMap { [$0 & 15, $0 >> 4] }
        let places = form.channels.flatMap { channel in form.kept(channel).map { (channel, $0.column, $0.row) } }
        guard form.short > 0, parts.count == (places.count + 1) / 2 * 2 else { return nil }
        var waves = Waves(columns: form.columns, rows: form.rows, phase: 0.5)
        waves[0, 0] = SIMD4(
            Double(bits(0, 6)) / 63, Double(bits(6, 6)) / 31.5 - 1, Double(bits(12, 6)) / 31.5 - 1,
            form.hasAlpha ? Double(bytes[5] & 15) / 15 : 1)
        // Colours come back a little stronger, as the quantization has made them paler.
        let ranges = SIMD4(
            Double(bits(18, 5)) / 31, Double(bits(27, 6)) / 63 * 1.25, Double(bits(33, 6)) / 63 * 1.25,
            Double(bytes[5] >> 4) / 15)
        for (part, (channel, column, row)) in zip(parts, places) {
            waves[column, row][channel] = (Double(part) / 7.5 - 1) * ranges[channel] * 2
        }
        let longest = Double(Self.longestOfHash)
        let size = PixelSize(
            width: Int((longest * min(1, form.ratio)).rounded()),
            height: Int((longest * min(1, 1 / form.ratio)).rounded()))
        let pixels = waves.pixels(size).map { sum in
            let blue = sum.x - 2 / 3 * sum.y
            let red = (3 * sum.x - blue + sum.z) / 2
            return SIMD4(red, red - sum.z, blue, sum.w)
        }
        self.init(size, straight: pixels)
    }

    /// Returns the ThumbHash of the picture, in Base64: about 30 characters that travel with a list, and become a
    /// blurred picture with ``init(thumbHash:)``.
    ///
    /// ```swift
    /// let hash = try image.thumbHash()                            // on the server, beside the URL
    /// let placeholder = DisplayOptions.Placeholder.thumbHash(hash)         // in the list
    /// ```
    /// - Throws: `DipperError.imageTooLarge` without memory.
    public func thumbHash() throws(DipperError) -> String {
        let (size, pixels) = try hashed()
        let hasAlpha = pixels.contains { $0.w < 1 }
        let proportion = Double(min(size.width, size.height)) / Double(max(size.width, size.height))
        let short = max(1, Int(((hasAlpha ? 5 : 7) * proportion).rounded()))
        let form = HashForm(hasAlpha: hasAlpha, isLandscape: size.width > size.height, short: short)
        let channels = pixels.map { pixel in
            SIMD4(
                (pixel.x + pixel.y + pixel.z) / 3, (pixel.x + pixel.y) / 2 - pixel.z, pixel.x - pixel.y, pixel.w)
        }
        let waves = Waves(of: channels, size, columns: form.columns, rows: form.rows, phase: 0.5)
        let (average, places) = (waves[0, 0], form.channels.map { form.kept($0) })
        func range(_ channel: Int) -> Double {
            places[channel].reduce(0) { max($0, abs(waves[$1.column, $1.row][channel])) }
        }
        func whole(_ number: Double) -> Int { Int(number.rounded()) }
        var header = whole(63 * average.x) | whole(31.5 + 31.5 * average.y) << 6
        header |= whole(31.5 + 31.5 * average.z) << 12 | whole(31 * range(0)) << 18 | (hasAlpha ? 1 << 23 : 0)
        header |= short << 24 | whole(63 * range(1)) << 27 | whole(63 * range(2)) << 33
        header |= form.isLandscape ? 1 << 39 : 0
        var bytes = (0..<5).map { UInt8(truncatingIfNeeded: header >> (8 * $0)) }
        if hasAlpha { bytes.append(UInt8(whole(15 * average.w) | whole(15 * range(3)) << 4)) }
        var parts = form.channels.flatMap { channel -> [UInt8] in
            let range = range(channel)
            return places[channel].map { place in
                range > 0 ? UInt8(whole(15 * (0.5 + 0.5 / range * waves[place.column, place.row][channel]))) : 0
            }
        }
        if parts.count % 2 == 1 { parts.append(0) }
        bytes += stride(from: 0, to: parts.count, by: 2).map { parts[$0] | parts[$0 + 1] << 4 }
        return Data(bytes).base64EncodedString()
    }
}

/// The waves that a ThumbHash has.
private struct HashForm {
    let hasAlpha: Bool
    let isLandscape: Bool
    /// The number of waves of luminance along the shorter side of the picture.
    let short: Int

    private var long: Int { hasAlpha ? 5 : 7 }
    /// The number of waves of the luminance in a row; the other channels may have more.
    var columns: Int { isLandscape ? long : max(short, hasAlpha ? 5 : 3) }
    var rows: Int { isLandscape ? max(short, hasAlpha ? 5 : 3) : long }
    /// Width by height.
    var ratio: Double { isLandscape ? Double(long) / Double(short) : Double(short) / Double(long) }
    /// Luminance, yellow–blue, red–green, alpha.
    var channels: Range<Int> { 0..<(hasAlpha ? 4 : 3) }

    /// The waves of a channel that a hash keeps, in its order.
    func kept(_ channel: Int) -> [(column: Int, row: Int)] {
        let other = max(3, short)
        let luminance = isLandscape ? (long, other) : (other, long)
        let (columns, rows) = channel == 0 ? luminance : channel == 3 ? (5, 5) : (3, 3)
        return (0..<rows).flatMap { row in
            (row == 0 ? 1..<columns : 0..<columns).filter { $0 * rows < columns * (rows - row) }.map { ($0, row) }
        }
    }
}
