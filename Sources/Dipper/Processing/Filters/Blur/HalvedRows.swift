import CPixels

/// A picture at half its size: pixel i is made of the five pixels around pixel 2 × i.
///
/// Columns and rows begin at −2 and end two behind the last one that includes a part of the picture. All further ones
/// are like the outermost one, also after another halving.
final class HalvedPixels: BlurRows {
    let width: Int
    let numbers: ClosedRange<Int>
    private let image: Image
    private let context: ProcessingContext
    /// A row of sums with repeated pixels before and behind it.
    private let sums: PixelScratch
    private let ring: BlurRing
    private var next: Int

    /// The number of pixels before the picture's first pixel in a row of sums.
    private static let before = 6

    init(_ image: Image, _ context: ProcessingContext) throws(DipperError) {
        self.image = image
        self.context = context
        width = BlurPlan.last(image.width, halvings: 1) + 5
        numbers = -2...BlurPlan.last(image.height, halvings: 1) + 2
        next = numbers.lowerBound
        sums = try PixelScratch(byteCount: (width * 2 + 3) * 8)
        ring = try BlurRing(width: width, rows: BlurRing.halvedRows)
    }

    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float> {
        let number = min(max(number, numbers.lowerBound), numbers.upperBound)
        while next <= number { try make() }
        return UnsafePointer(ring.slot(number))
    }

    private func make() throws(DipperError) {
        try context.checkCancelled()
        let values = sums.base.assumingMemoryBound(to: UInt16.self)
        let rows = (-2...2).map { image.bytes(ofRow: next * 2 + $0) }
        pixels_halve_byte_rows(values + Self.before * 4, rows, image.width * 4)
        values.extend(Self.before..<Self.before + image.width, to: width * 2 + 3)
        pixels_halve_words(ring.slot(next), values, width)
        next += 1
    }
}

/// A halved picture at half its size again.
final class HalvedRows: BlurRows {
    let width: Int
    let numbers: ClosedRange<Int>
    private let source: any BlurRows
    private let sums: PixelScratch
    private let ring: BlurRing
    private var next: Int

    /// The number of pixels before the source's first pixel, which is pixel −2, in a row of sums.
    private static let before = 4

    init(_ source: any BlurRows) throws(DipperError) {
        self.source = source
        // Source and result begin at −2 and end two behind the last.
        width = (source.width - 5 + 1) / 2 + 5
        numbers = -2...(source.numbers.upperBound - 2 + 1) / 2 + 2
        next = numbers.lowerBound
        sums = try PixelScratch(byteCount: max(width * 2 + 3, source.width + Self.before) * 16)
        ring = try BlurRing(width: width, rows: BlurRing.halvedRows)
    }

    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float> {
        let number = min(max(number, numbers.lowerBound), numbers.upperBound)
        while next <= number { try make() }
        return UnsafePointer(ring.slot(number))
    }

    private func make() throws(DipperError) {
        var rows: [UnsafePointer<Float>?] = []
        for distance in -2...2 { rows.append(try source.row(next * 2 + distance)) }
        let values = sums.base.assumingMemoryBound(to: Float.self)
        pixels_halve_rows(values + Self.before * 4, rows, source.width * 4)
        values.extend(Self.before..<Self.before + source.width, to: width * 2 + 3)
        pixels_halve_row(ring.slot(next), values, width)
        next += 1
    }
}
