import CPixels
import Foundation

/// Resamples rows that come from top to bottom, with premultiplied colours. Each two are weighed horizontally and kept, in
/// 16 bits, until all rows of the result that depend on them are made.
struct Resampler: ~Copyable {
    private let columns: ResampleAxis
    private let rows: ResampleAxis
    private let sums: PixelStorage
    /// Two rows of boxes, in pairs as `CPixels.h` describes them.
    private let wide: PixelStorage
    private let ring: PixelStorage
    /// In pairs.
    private let ringRows: Int
    private var rowsInSums = 0
    private var boxRows = 0
    private var done = 0

    /// - Precondition: both sizes have a pixel at least, and the limits allow ``byteCount(from:to:)``.
    init(from source: PixelSize, to target: PixelSize) throws(DipperError) {
        let columns = ResampleAxis(from: source.width, to: target.width)
        let rows = ResampleAxis(from: source.height, to: target.height)
        let ringRows = max(1, Int(rows.counts.max() ?? 1))
        let sums = try PixelStorage(byteCount: source.width * 8)
        let wide = try PixelStorage(byteCount: (columns.boxes + 1) / 2 * 32)
        let ring = try PixelStorage(byteCount: ringRows * target.width * 16)
        // Of a pair that has no second, the weight is zero.
        wide.base.initializeMemory(as: UInt8.self, repeating: 0, count: (columns.boxes + 1) / 2 * 32)
        (self.columns, self.rows) = (columns, rows)
        (self.sums, self.wide, self.ring) = (sums, wide, ring)
        self.ringRows = ringRows
    }

    static func byteCount(from source: PixelSize, to target: PixelSize) -> Int {
        ResampleAxis.byteCount(from: source.width, to: target.width)
            + ResampleAxis.byteCount(from: source.height, to: target.height)
            + source.width * 24 + 16
            + ResampleAxis.taps(from: source.height, to: target.height) * target.width * 8
    }

    /// Takes `count` rows, `stride` bytes apart, and writes the rows of the result that are complete.
    mutating func add(_ source: UnsafeRawPointer, stride: Int, count: Int, to result: inout OrientedRows) {
        var next = source.assumingMemoryBound(to: UInt8.self)
        var rest = count
        while rest > 0, boxRows < rows.boxes {
            let height = min(rows.box, rows.source - boxRows * rows.box)
            let taken = min(rest, height - rowsInSums)
            let values = wide.base.assumingMemoryBound(to: Int16.self) + boxRows % 2 * 8
            if columns.box == 1, rows.box == 1 {
                pixels_pair_bytes(values, next, columns.source)
            } else if columns.box == 2, rows.box == 2, taken == 2 {
                pixels_pair_squares(values, next, stride, columns.source)
            } else {
                let columnSums = sums.base.assumingMemoryBound(to: UInt16.self)
                pixels_add_rows(columnSums, next, stride, taken, columns.source * 4, rowsInSums == 0)
                if rowsInSums + taken == height {
                    pixels_pair_boxes(values, columnSums, columns.source, columns.box, columns.box * rows.box)
                }
            }
            rowsInSums += taken
            rest -= taken
            next += stride * taken
            if rowsInSums == height {
                (boxRows, rowsInSums) = (boxRows + 1, 0)
                if boxRows % 2 == 0 || boxRows == rows.boxes {
                    keep()
                    makeRows(&result)
                }
            }
        }
    }

    private mutating func keep() {
        let row = ring.base.assumingMemoryBound(to: Int16.self) + (boxRows - 1) / 2 % ringRows * columns.target * 8
        let values = UnsafePointer(wide.base.assumingMemoryBound(to: Int16.self))
        pixels_weigh_row(
            row, columns.target, values, columns.starts, columns.counts, columns.weights, columns.taps)
    }

    private mutating func makeRows(_ result: inout OrientedRows) {
        let values = UnsafePointer(ring.base.assumingMemoryBound(to: Int16.self))
        rows.weights.withUnsafeBufferPointer { weights in
            while done < rows.target, let base = weights.baseAddress {
                let (start, count) = (Int(rows.starts[done]), Int(rows.counts[done]))
                guard start + count <= (boxRows + 1) / 2 else { return }
                let to = result.memory(rows: 1).base.assumingMemoryBound(to: UInt8.self)
                pixels_weigh_rows(
                    to, columns.target, values, ringRows, start % ringRows, base + done * rows.taps, count)
                result.commit(1)
                done += 1
            }
        }
    }
}

/// The weights that make the pixels of one direction from those of the source.
///
/// A reduction by four or more takes two steps: the pixels are first added up in boxes, then the Lanczos filter weighs
/// the boxes as if each were a pixel. Each lobe of the filter spans at least three boxes, or two for reductions between
/// four and six, where a box of two pixels halves the work. The boxes soften the picture, and the weights sharpen it
/// again: a box of k pixels has the variance (k² - 1) / 12, so half of that times the second difference of the filter
/// is subtracted.
private struct ResampleAxis {
    let source: Int
    let target: Int
    /// The number of pixels added up before weighing. The last box may have fewer.
    let box: Int
    let boxes: Int
    /// In pairs of boxes.
    private(set) var starts: [Int32] = []
    private(set) var counts: [Int32] = []
    /// The number of ``weights`` for each pixel of the target.
    let taps: Int
    /// In units of 1 / 16,384, for whole boxes.
    private(set) var weights: [Int16]

    /// In pixels: sums of 256 bytes fit into 16 bits.
    static let longestBox = 256

    init(from source: Int, to target: Int) {
        self.source = source
        self.target = target
        box = Self.box(from: source, to: target)
        boxes = (source + box - 1) / box
        taps = Self.taps(from: source, to: target)
        starts.reserveCapacity(target)
        counts.reserveCapacity(target)
        weights = [Int16](repeating: 0, count: target * taps)
        for pixel in 0..<target { weigh(pixel) }
    }

    static func box(from source: Int, to target: Int) -> Int {
        if source / target < 4 { return 1 }
        return max(2, min(longestBox, source / target / 3))
    }

    static func taps(from source: Int, to target: Int) -> Int {
        if source == target { return 2 }
        let radius = LanczosKernel.support * max(1, Double(source) / Double(target))
        // Even, with room for a weight of zero before the first.
        return (Int(2 * radius / Double(box(from: source, to: target))) + 7) & ~1
    }

    static func byteCount(from source: Int, to target: Int) -> Int {
        target * (taps(from: source, to: target) * 2 + 8)
    }

    private mutating func weigh(_ pixel: Int) {
        guard source != target else {
            keep([1], of: pixel, from: pixel)
            return
        }
        let scale = Double(source) / Double(target)
        let width = max(1, scale)
        let middle = (Double(pixel) + 0.5) * scale
        let radius = LanczosKernel.support * width
        // The sharpening reaches one box further.
        let reach = radius + (box > 1 ? Double(box) : 0)
        let first = max(0, Int((middle - reach).rounded(.down))) / box
        let last = min(source - 1, Int(middle + reach)) / box
        let sharpening = (1 - 1 / Double(box * box)) / 24
        let step = Double(box) / width
        var found = [Double](repeating: 0, count: last - first + 1)
        var total = 0.0
        for index in first...last {
            let length = min(box, source - index * box)
            let place = (Double(index * box) + Double(length) / 2 - middle) / width
            var weight = LanczosKernel.weight(at: place)
            if box > 1 {
                let beside = LanczosKernel.weight(at: place - step) + LanczosKernel.weight(at: place + step)
                weight += sharpening * (2 * weight - beside)
            }
            found[index - first] = weight
            total += weight * Double(length)
        }
        // Weights of zero at both ends are left out, so that nothing is read for them.
        let low = found.firstIndex { abs($0) > 1e-9 } ?? 0
        let high = found.lastIndex { abs($0) > 1e-9 } ?? low
        keep(found[low...high].map { $0 / total * Double(box) }, of: pixel, from: first + low)
    }

    /// Keeps weights from a box on, the first of a pair with a weight of zero if need be.
    private mutating func keep(_ exact: [Double], of pixel: Int, from first: Int) {
        starts.append(Int32(first / 2))
        counts.append(Int32((first + exact.count + 1) / 2 - first / 2))
        // What rounding takes from a weight goes to the next, so that a plain colour stays as it is.
        var rest = 0.0
        for (index, weight) in exact.enumerated() {
            let share = Double(min(box, source - (first + index) * box)) / Double(box)
            let wanted = weight * 16384 + rest / share
            weights[pixel * taps + first % 2 + index] = Int16(clamping: Int(wanted.rounded()))
            rest = (wanted - wanted.rounded()) * share
        }
    }
}

/// The Lanczos kernel of three lobes: sinc(x) · sinc(x / 3) for |x| < 3, from a table.
private enum LanczosKernel {
    static let support = 3.0

    private static let steps = 1024
    // Linear interpolation between the steps is within 5 × 10⁻⁷ of the curve.
    private static let table: [Double] = (0...Int(support) * steps + 1).map { step in
        let x = Double(step) / Double(steps)
        if x == 0 { return 1 }
        if x >= support { return 0 }
        let angle = Double.pi * x
        return support * sin(angle) * sin(angle / support) / (angle * angle)
    }

    static func weight(at distance: Double) -> Double {
        let position = abs(distance) * Double(steps)
        guard position < support * Double(steps) else { return 0 }
        let step = Int(position)
        return table[step] + (table[step + 1] - table[step]) * (position - Double(step))
    }
}
