/// A length in a picture. A number literal means pixels.
public enum Length: Sendable, Hashable, ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral {
    /// A length in pixels of the picture.
    case pixels(Double)
    /// A length in points of the display. Multiplied by ``Image/scale`` it is the length in pixels.
    case points(Double)
    /// A fraction of the picture's width.
    case fractionOfWidth(Double)
    /// A fraction of the picture's height.
    case fractionOfHeight(Double)

    /// Creates a length in pixels from a floating-point literal.
    public init(floatLiteral value: Double) { self = .pixels(value) }
    /// Creates a length in pixels from an integer literal.
    public init(integerLiteral value: Int) { self = .pixels(Double(value)) }

    /// The identifier, for example `10.0`, `8.0pt` or `0.5w`.
    var identifier: String {
        switch self {
        case .pixels(let value): "\(value)"
        case .points(let value): "\(value)pt"
        case .fractionOfWidth(let value): "\(value)w"
        case .fractionOfHeight(let value): "\(value)h"
        }
    }

    var isInPoints: Bool {
        if case .points = self { true } else { false }
    }

    /// Returns the length in pixels, at most 2³¹, which no picture reaches.
    /// - Throws: `DipperError.processingFailed` if the length is below 0 or NaN.
    func pixels(in image: Image) throws(DipperError) -> Double {
        let length =
            switch self {
            case .pixels(let value): value
            case .points(let value): value * image.scale
            case .fractionOfWidth(let value): value * Double(image.width)
            case .fractionOfHeight(let value): value * Double(image.height)
            }
        guard length >= 0 else { throw .processingFailed.with(detail: "a length of \(identifier)") }
        return min(length, 0x1p31)
    }
}
