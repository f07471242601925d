import CPixels

/// Rows of a picture in single precision, made when they are asked for.
///
/// Callers ask for each row no more than a few times, and not long after the next row, so implementations keep a few
/// rows.
protocol BlurRows: AnyObject {
    /// The width in pixels.
    var width: Int { get }
    /// The numbers of the rows that exist. A row outside is like the nearest row that exists.
    var numbers: ClosedRange<Int> { get }
    /// Returns a row, which stays valid until other rows have been asked for.
    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float>
}

/// The rows made last.
final class BlurRing {
    /// The number of rows to keep for a halving, which weighs five rows at once.
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
    func extend(_ pixels: Range<Int>, to end: Int) {
        for x in 0..<pixels.lowerBound { (self + x * 4).update(from: self + pixels.lowerBound * 4, count: 4) }
        for x in pixels.upperBound..<max(end, pixels.upperBound) {
            (self + x * 4).update(from: self + (pixels.upperBound - 1) * 4, count: 4)
        }
    }
}

/// The rows of a picture without changes, in single precision.
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
    /// Returns the pixels of a row, or of the nearest row if the number is outside the picture.
    func bytes(ofRow number: Int) -> UnsafePointer<UInt8>? {
        let row = min(max(number, 0), height - 1)
        return (storage.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)).map { $0 + row * rowStride }
    }
}
