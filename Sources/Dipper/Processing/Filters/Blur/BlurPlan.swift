import Foundation

/// How a picture is blurred: halved so often, then weighed by a curve of a few pixels.
///
/// Each halving weighs five pixels 1, 4, 6, 4, 1, which is nearly the curve of variance 1, at twice the distance from one
/// to the next. Variances add up: what is left for the last curve is the variance wanted less those, in small pixels.
struct BlurPlan {
    let size: PixelSize
    /// How often width and height are halved.
    let halvings: Int
    /// Of the last curve, adding up to 1: an odd number.
    let weights: [Float]

    /// The last curve is at least so wide, in small pixels: its result is then smooth enough to be interpolated.
    static let narrowest = 1.8
    /// Weights beyond are left out, in standard deviations.
    static let reach = 3.3

    init(_ size: PixelSize, sigma: Double) {
        self.size = size
        var halvings = 0
        func rest(_ halvings: Int) -> Double {
            let area = pow(4, Double(halvings))
            return (sigma * sigma - (area - 1) / 3) / area
        }
        while rest(halvings + 1) >= Self.narrowest * Self.narrowest { halvings += 1 }
        self.halvings = halvings
        let deviation = rest(halvings).squareRoot()
        let radius = max(1, Int((deviation * Self.reach).rounded(.up)))
        let values = (-radius...radius).map { exp(-Double($0 * $0) / (2 * deviation * deviation)) }
        let sum = values.reduce(0, +)
        weights = values.map { Float($0 / sum) }
    }

    /// The last of the pixels that a level has for a length; beyond two more all are alike.
    static func last(_ length: Int, halvings: Int) -> Int {
        (0..<halvings).reduce(length - 1) { last, _ in (last + 1) / 2 }
    }

    /// What is held beside the result at most, in bytes.
    var byteCount: Int {
        // Rows of each level are half as wide as those before: all together two of the first.
        let halved = halvings == 0 ? 0 : (size.width + 64) * (8 + BlurRing.halvedRows * 16) * 2
        let width = Self.last(size.width, halvings: halvings) + 8
        let last = (width + weights.count) * 16 * (weights.count + 8)
        return halved + last + (halvings == 0 ? 0 : 64 << halvings)
    }

    /// The rows of the last level, weighed.
    func rows(of image: Image, _ context: ProcessingContext) throws(DipperError) -> any BlurRows {
        var rows: any BlurRows =
            halvings == 0 ? try WidenedPixels(image, context) : try HalvedPixels(image, context)
        for _ in 0..<max(0, halvings - 1) { rows = try HalvedRows(rows) }
        return try WeighedRows(rows, weights)
    }
}
