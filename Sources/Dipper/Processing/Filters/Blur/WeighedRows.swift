import CPixels

/// Rows weighed with one curve in both directions.
final class WeighedRows: BlurRows {
    let width: Int
    let numbers: ClosedRange<Int>
    private let source: any BlurRows
    private let weights: [Float]
    private let radius: Int
    /// A row of the source with repeated pixels before and behind it.
    private let wide: PixelScratch
    /// Rows weighed horizontally.
    private let ring: BlurRing
    private let result: PixelScratch
    private var next: Int

    init(_ source: any BlurRows, _ weights: [Float]) throws(DipperError) {
        self.source = source
        self.weights = weights
        width = source.width
        numbers = source.numbers
        radius = weights.count / 2
        next = numbers.lowerBound
        wide = try PixelScratch(byteCount: (width + weights.count) * 16)
        ring = try BlurRing(width: width, rows: weights.count)
        result = try PixelScratch(byteCount: width * 16)
    }

    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float> {
        while next <= min(number + radius, numbers.upperBound) { try make() }
        let rows = (number - radius...number + radius).map { number in
            UnsafePointer<Float>?(ring.slot(min(max(number, numbers.lowerBound), numbers.upperBound)))
        }
        let values = result.base.assumingMemoryBound(to: Float.self)
        pixels_convolve_rows(values, rows, width * 4, weights, weights.count)
        return UnsafePointer(values)
    }

    private func make() throws(DipperError) {
        let values = wide.base.assumingMemoryBound(to: Float.self)
        (values + radius * 4).update(from: try source.row(next), count: width * 4)
        values.extend(radius..<radius + width, to: width + radius * 2)
        pixels_convolve(ring.slot(next), values, width, weights, weights.count)
        next += 1
    }
}
