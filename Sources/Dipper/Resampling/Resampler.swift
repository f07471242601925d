import CPixels

/// A resampler for a picture whose rows come one after the other, from top to bottom, with premultiplied colours.
///
/// Each row is weighed horizontally and kept until all rows of the result that depend on it are made. The resampler
/// keeps only a few rows of the result's width, in single precision.
struct Resampler: ~Copyable {
    private let columns: ResampleAxis
    private let rows: ResampleAxis
    /// The rows of a box added up, column by column.
    private let sums: PixelScratch
    /// The boxes of one row.
    private let wide: PixelScratch
    /// The last rows, weighed horizontally.
    private let ring: PixelScratch
    private let ringRows: Int
    private var rowsInSums = 0
    private var boxRows = 0
    private var done = 0

    /// Creates a resampler.
    /// - Precondition: both sizes have a pixel at least, and the limits allow ``byteCount(from:to:)``.
    init(from source: PixelSize, to target: PixelSize) throws(DipperError) {
        let columns = ResampleAxis(from: source.width, to: target.width)
        let rows = ResampleAxis(from: source.height, to: target.height)
        let ringRows = max(1, Int(rows.counts.max() ?? 1))
        let sums = try PixelScratch(byteCount: source.width * 8)
        let wide = try PixelScratch(byteCount: columns.boxes * 16)
        let ring = try PixelScratch(byteCount: ringRows * target.width * 16)
        (self.columns, self.rows) = (columns, rows)
        (self.sums, self.wide, self.ring) = (sums, wide, ring)
        self.ringRows = ringRows
    }

    /// Returns the most memory that a resampler holds, in bytes.
    static func byteCount(from source: PixelSize, to target: PixelSize) -> Int {
        ResampleAxis.byteCount(from: source.width, to: target.width)
            + ResampleAxis.byteCount(from: source.height, to: target.height)
            + source.width * 24
            + ResampleAxis.taps(from: source.height, to: target.height) * target.width * 16
    }

    /// Takes the next rows and writes the rows of the result that are complete.
    /// - Parameters:
    ///   - source: `count` rows of the source's width, `stride` bytes apart.
    mutating func add(_ source: UnsafeRawPointer, stride: Int, count: Int, to result: inout OrientedRows) {
        var next = source.assumingMemoryBound(to: UInt8.self)
        var rest = count
        while rest > 0, boxRows < rows.boxes {
            let height = min(rows.box, rows.source - boxRows * rows.box)
            let taken = min(rest, height - rowsInSums)
            let values = wide.base.assumingMemoryBound(to: Float.self)
            if columns.box == 1, rows.box == 1 {
                pixels_widen(values, next, columns.source * 4)
            } else {
                let columnSums = sums.base.assumingMemoryBound(to: UInt16.self)
                pixels_add_rows(columnSums, next, stride, taken, columns.source * 4, rowsInSums == 0)
                if rowsInSums + taken == height {
                    pixels_add_boxes(values, columnSums, columns.source, columns.box)
                }
            }
            rowsInSums += taken
            rest -= taken
            next += stride * taken
            if rowsInSums == height {
                keep(values)
                makeRows(&result)
            }
        }
    }

    /// Weighs a row of boxes into the ring.
    private mutating func keep(_ values: UnsafePointer<Float>) {
        let row = ring.base.assumingMemoryBound(to: Float.self) + boxRows % ringRows * columns.target * 4
        pixels_weigh_row(
            row, columns.target, values, columns.starts, columns.counts, columns.weights, columns.taps)
        boxRows += 1
        rowsInSums = 0
    }

    /// Writes the rows of the result whose sources are all in the ring.
    private mutating func makeRows(_ result: inout OrientedRows) {
        let values = UnsafePointer(ring.base.assumingMemoryBound(to: Float.self))
        rows.weights.withUnsafeBufferPointer { weights in
            while done < rows.target, let base = weights.baseAddress {
                let (start, count) = (Int(rows.starts[done]), Int(rows.counts[done]))
                guard start + count <= boxRows else { return }
                let to = result.memory(rows: 1).base.assumingMemoryBound(to: UInt8.self)
                pixels_weigh_rows(
                    to, columns.target, values, ringRows, start % ringRows, base + done * rows.taps, count)
                result.commit(1)
                done += 1
            }
        }
    }
}
