/// A colour in sRGB, not multiplied by its alpha.
public struct Color: Sendable, Hashable {
    /// From 0 to 1, as it is encoded (not linear light).
    public let red, green, blue: Double
    /// From 0, which lets all through, to 1.
    public let alpha: Double

    /// A colour of parts from 0 to 1; what is outside is brought to the nearer end, and what is no number to 0.
    public init(red: Double, green: Double, blue: Double, alpha: Double = 1) {
        self.red = Self.limited(red)
        self.green = Self.limited(green)
        self.blue = Self.limited(blue)
        self.alpha = Self.limited(alpha)
    }

    /// Of `0xRRGGBB`, as on the web.
    public init(hex: UInt32, alpha: Double = 1) {
        func part(_ shift: UInt32) -> Double { Double(hex >> shift & 0xff) / 255 }
        self.init(red: part(16), green: part(8), blue: part(0), alpha: alpha)
    }

    /// Nothing.
    public static let clear = Color(hex: 0, alpha: 0)
    /// No light.
    public static let black = Color(hex: 0)
    /// All light.
    public static let white = Color(hex: 0xffffff)

    /// The same, letting more or less through.
    public func with(alpha: Double) -> Color { Color(red: red, green: green, blue: blue, alpha: alpha) }

    /// As a pixel of an ``Image``: red, green, blue, alpha; colours multiplied by alpha.
    public var premultiplied: SIMD4<UInt8> {
        let parts = SIMD4(red * alpha, green * alpha, blue * alpha, alpha) * 255
        return SIMD4<UInt8>(parts.rounded(.toNearestOrAwayFromZero))
    }

    /// `RRGGBBAA` in hexadecimal digits.
    public var hex: String {
        [red, green, blue, alpha].map { part in
            let digits = String(Int((part * 255).rounded()), radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }.joined()
    }

    private static func limited(_ part: Double) -> Double { part.isNaN ? 0 : min(max(part, 0), 1) }
}
