import Foundation

/// The steps of a blur: the picture is halved several times, then weighed with a Gaussian curve of a few pixels.
///
/// Each halving weighs five pixels with 1, 4, 6, 4, 1, which is nearly a Gaussian curve of variance 1, and keeps every
/// second pixel. Variances add up: the last curve has the wanted variance minus that of all halvings, in small pixels.
struct BlurPlan {
    let size: PixelSize
    /// The number of times that width and height are halved.
    let halvings: Int
    /// The weights of the last curve: an odd number of them, which add up to 1.
    let weights: [Float]

    /// The least standard deviation of the last curve after halvings, in small pixels. The result of such a curve is
    /// smooth enough to be interpolated.
    static let narrowest = 1.8
    /// The distance beyond which weights are left out, in standard deviations.
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

    /// Returns the number of a level's last pixel for a length. From two pixels further on, all pixels are alike.
    static func last(_ length: Int, halvings: Int) -> Int {
        (0..<halvings).reduce(length - 1) { last, _ in (last + 1) / 2 }
    }

    /// The most memory that is held beside the result, in bytes.
    var byteCount: Int {
        // The rows of each level are half as wide as those of the level before, so all levels take at most twice the
        // first.
        let halved = halvings == 0 ? 0 : (size.width + 64) * (8 + BlurRing.halvedRows * 16) * 2
        let width = Self.last(size.width, halvings: halvings) + 8
        let last = (width + weights.count) * 16 * (weights.count + 8)
        return halved + last + (halvings == 0 ? 0 : 64 << halvings)
    }

    /// Returns the rows of the last level, weighed with the last curve.
    func rows(of image: Image, _ context: ProcessingContext) throws(DipperError) -> any BlurRows {
        var rows: any BlurRows =
            halvings == 0 ? try WidenedPixels(image, context) : try HalvedPixels(image, context)
        for _ in 0..<max(0, halvings - 1) { rows = try HalvedRows(rows) }
        return try WeighedRows(rows, weights)
    }
}
