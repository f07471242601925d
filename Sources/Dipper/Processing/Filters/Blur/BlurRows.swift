import CPixels

/// Rows of a picture in single precision, made when they are asked for: each row no more than a few times and none long
/// after the next, so that a few are kept.
protocol BlurRows: AnyObject {
    /// In pixels.
    var width: Int { get }
    /// The numbers of the rows there are; those outside are like the nearest of them.
    var numbers: ClosedRange<Int> { get }
    /// A row, valid until others have been asked for.
    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float>
}

/// The last rows.
final class BlurRing {
    /// Five are weighed at once.
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
    /// Repeats the first and the last of some pixels of four numbers before and behind them.
    func extend(_ pixels: Range<Int>, to end: Int) {
        for x in 0..<pixels.lowerBound { (self + x * 4).update(from: self + pixels.lowerBound * 4, count: 4) }
        for x in pixels.upperBound..<max(end, pixels.upperBound) {
            (self + x * 4).update(from: self + (pixels.upperBound - 1) * 4, count: 4)
        }
    }
}

/// The rows of a picture as they are.
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
    /// The pixels of a row; of the nearest one for a number outside.
    func bytes(ofRow number: Int) -> UnsafePointer<UInt8>? {
        let row = min(max(number, 0), height - 1)
        return (storage.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)).map { $0 + row * rowStride }
    }
}
