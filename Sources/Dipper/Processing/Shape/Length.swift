/// A length in a picture; a number alone means pixels.
public enum Length: Sendable, Hashable, ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral {
    /// Of the picture.
    case pixels(Double)
    /// Of the display: pixels times ``Image/scale``.
    case points(Double)
    /// Times the picture's width.
    case fractionOfWidth(Double)
    /// Times the picture's height.
    case fractionOfHeight(Double)

    /// In pixels.
    public init(floatLiteral value: Double) { self = .pixels(value) }
    /// In pixels.
    public init(integerLiteral value: Int) { self = .pixels(Double(value)) }

    /// Such as `10.0`, `8.0pt`, `0.5w`.
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

    /// In pixels; at most what no picture reaches.
    /// - Throws: `DipperError.processingFailed` if it is below 0 or no number.
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
