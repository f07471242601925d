import CPixels

/// Rows of a picture in single precision, made when they are asked for. Callers ask for each row no more than a few
/// times, and not long after the next row, so implementations keep a few rows.
protocol BlurRows: AnyObject {
    /// In pixels.
    var width: Int { get }
    /// A row outside is like the nearest row that exists.
    var numbers: ClosedRange<Int> { get }
    /// Valid until other rows have been asked for.
    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float>
}

/// The rows made last.
final class BlurRing {
    /// A halving weighs five rows at once.
    static let halvedRows = 5

    private let memory: PixelScratch
    private let width: Int
    private let rows: Int

    init(width: Int, rows: Int) throws(DipperError) {
        self.width = width
        self.rows = rows
        memory = try PixelScratch(byteCount: width * 16 * rows)
    }

    func slot(_ number: Int) -> UnsafeMutablePointer<Float> {
        let place = ((number % rows) + rows) % rows
        return memory.base.assumingMemoryBound(to: Float.self) + place * width * 4
    }
}

extension UnsafeMutablePointer {
    /// Repeats the first and the last pixel of a range before and behind the range. A pixel is four numbers.
    fileprivate func extend(_ pixels: Range<Int>, to end: Int) {
        for x in 0..<pixels.lowerBound { (self + x * 4).update(from: self + pixels.lowerBound * 4, count: 4) }
        for x in pixels.upperBound..<max(end, pixels.upperBound) {
            (self + x * 4).update(from: self + (pixels.upperBound - 1) * 4, count: 4)
        }
    }
}

final class WidenedPixels: BlurRows {
    let width: Int
    let numbers: ClosedRange<Int>
    private let image: Image
    private let context: ProcessingContext
    private let memory: PixelScratch

    init(_ image: Image, _ context: ProcessingContext) throws(DipperError) {
        self.image = image
        self.context = context
        width = image.width
        numbers = 0...image.height - 1
        memory = try PixelScratch(byteCount: width * 16)
    }

    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float> {
        try context.checkCancelled()
        let values = memory.base.assumingMemoryBound(to: Float.self)
        pixels_widen(values, image.bytes(ofRow: number), width * 4)
        return UnsafePointer(values)
    }
}

extension Image {
    /// Clamps the number to the picture's rows.
    fileprivate func bytes(ofRow number: Int) -> UnsafePointer<UInt8>? {
        let row = min(max(number, 0), height - 1)
        return (storage.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)).map { $0 + row * rowStride }
    }
}

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

    /// Pixels before the picture's first pixel in a row of sums.
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

final class HalvedRows: BlurRows {
    let width: Int
    let numbers: ClosedRange<Int>
    private let source: any BlurRows
    private let sums: PixelScratch
    private let ring: BlurRing
    private var next: Int

    /// Pixels before the source's first pixel, which is pixel −2, in a row of sums.
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

final class WeighedRows: BlurRows {
    let width: Int
    let numbers: ClosedRange<Int>
    private let source: any BlurRows
    private let weights: [Float]
    private let radius: Int
    /// A row of the source with repeated pixels before and behind it.
    private let wide: PixelScratch
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
