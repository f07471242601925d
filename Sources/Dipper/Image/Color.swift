import Foundation

/// A colour in sRGB, not multiplied by its alpha.
///
/// ```swift
/// let blue = Color(hex: 0x3584e4)
/// let request = ImageRequest(url).processed(by: .overlay(blue.with(alpha: 0.5)))
/// print(blue.hex, blue.premultiplied)
/// ```
public struct Color: Sendable, Hashable {
    /// Red, green and blue from 0 to 1, as encoded in sRGB (not linear light).
    public let red, green, blue: Double
    /// The opacity, from 0 (transparent) to 1 (opaque).
    public let alpha: Double

    /// Creates a colour from components of 0 to 1. Values outside this range are clamped; NaN becomes 0.
    public init(red: Double, green: Double, blue: Double, alpha: Double = 1) {
        self.red = red.limited(nan: 0)
        self.green = green.limited(nan: 0)
        self.blue = blue.limited(nan: 0)
        self.alpha = alpha.limited(nan: 0)
    }

    /// Creates a colour from the hexadecimal notation of the web, `0xRRGGBB`.
    public init(hex: UInt32, alpha: Double = 1) {
        func part(_ shift: UInt32) -> Double { Double(hex >> shift & 0xff) / 255 }
        self.init(red: part(16), green: part(8), blue: part(0), alpha: alpha)
    }

    /// Full transparency.
    public static let clear = Color(hex: 0, alpha: 0)
    /// Opaque black.
    public static let black = Color(hex: 0)
    /// Opaque white.
    public static let white = Color(hex: 0xffffff)

    /// Returns this colour with another opacity.
    public func with(alpha: Double) -> Color { Color(red: red, green: green, blue: blue, alpha: alpha) }

    /// The colour as a pixel of an ``Image``: red, green, blue and alpha, with the colours multiplied by alpha.
    public var premultiplied: SIMD4<UInt8> {
        let parts = SIMD4(red * alpha, green * alpha, blue * alpha, alpha) * 255
        return SIMD4<UInt8>(parts.rounded(.toNearestOrAwayFromZero))
    }

    /// The colour as hexadecimal digits, `RRGGBBAA`.
    public var hex: String {
        [red, green, blue, alpha].map { part in
            let digits = String(Int((part * 255).rounded()), radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }.joined()
    }

    /// Returns the linear light of a colour's part as encoded in sRGB (IEC 61966-2-1); both from 0 to 1.
    static func light(_ part: Double) -> Double {
        part <= 0.04045 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4)
    }

    /// Returns the part of a colour for a linear light, which is clamped to 0…1; NaN becomes 0.
    static func encoded(_ light: Double) -> Double {
        let light = light.limited(nan: 0)
        return light <= 0.0031308 ? light * 12.92 : 1.055 * pow(light, 1 / 2.4) - 0.055
    }

    var identifier: String {
        let bytes = [red, green, blue, alpha].map { ($0 * 255).rounded() }
        let isWhole = zip(bytes, [red, green, blue, alpha]).allSatisfy { $0 / 255 == $1 }
        return isWhole ? hex : "\(red):\(green):\(blue):\(alpha)"
    }
}

extension Double {
    /// The nearest number of 0…1, or another one for NaN: the rule for all fractions that a program gives.
    func limited(nan: Double) -> Double { isNaN ? nan : min(max(self, 0), 1) }
}
