import CPixels

/// Takes rows in the order they are stored and puts each where it is displayed.
///
/// Rows that need turning are gathered in a band of a few, so that a row of the result is written in whole cache lines.
struct OrientedRows: ~Copyable {
    private let stored: PixelSize
    private let orientation: Orientation
    private let buffer: PixelBuffer
    private let band: PixelScratch?
    /// Rows in the result or in the band.
    private(set) var committed = 0
    private var inBand = 0

    /// Sixteen pixels are a cache line; more rows spare page table look-ups.
    private static let bandRows = 32

    /// - Parameter stored: the size before the orientation is applied.
    init(_ stored: PixelSize, _ orientation: Orientation) throws(DipperError) {
        // What may fail comes first: a part of a value that is not copied cannot be given up.
        let band = orientation == .up ? nil : try PixelScratch(byteCount: Self.bandBytes(stored, orientation))
        let buffer = try PixelBuffer(orientation.applied(to: stored))
        self.stored = stored
        self.orientation = orientation
        self.buffer = buffer
        self.band = band
    }

    /// What is needed beside the result, in bytes.
    static func bandBytes(_ stored: PixelSize, _ orientation: Orientation) -> Int {
        orientation == .up ? 0 : stored.width * 4 * min(bandRows, stored.height)
    }

    /// Memory for the next rows, without gaps: for one at least unless all are there.
    func memory(rows: Int) -> (base: UnsafeMutableRawPointer, rows: Int) {
        let rest = stored.height - committed
        if let band {
            return (band.base + inBand * stored.width * 4, min(rows, rest, Self.bandRows - inBand))
        }
        return (buffer.base + committed * buffer.rowStride, min(rows, rest))
    }

    /// So many rows of the memory given are filled.
    mutating func commit(_ rows: Int) {
        precondition(rows >= 0 && rows <= memory(rows: rows).rows, "Rows are within the memory given.")
        committed += rows
        guard band != nil else { return }
        inBand += rows
        if inBand == Self.bandRows || committed == stored.height { empty() }
    }

    /// Makes the rows that have not come transparent.
    mutating func clearRest() {
        while committed < stored.height {
            let (base, rows) = memory(rows: stored.height)
            base.initializeMemory(as: UInt8.self, repeating: 0, count: rows * stored.width * 4)
            commit(rows)
        }
    }

    /// The result, all of whose rows have come.
    consuming func finish() -> PixelBuffer {
        precondition(committed == stored.height, "All rows have come.")
        return buffer
    }

    private mutating func empty() {
        guard let band, inBand > 0 else { return }
        let first = committed - inBand
        let (right, below) = (stored.width - 1, stored.height - 1)
        let stride = buffer.rowStride
        // Where pixel (0, first) goes, and how far the next pixel and the next row are from there.
        let (offset, stepX, stepY) =
            switch orientation {
            case .up: (first * stride, 4, stride)
            case .upMirrored: (right * 4 + first * stride, -4, stride)
            case .down: (right * 4 + (below - first) * stride, -4, -stride)
            case .downMirrored: ((below - first) * stride, 4, -stride)
            case .leftMirrored: (first * 4, stride, 4)
            case .right: ((below - first) * 4, stride, -4)
            case .rightMirrored: ((below - first) * 4 + right * stride, -stride, -4)
            case .left: (first * 4 + right * stride, -stride, 4)
            }
        pixels_place(buffer.base + offset, stepX, stepY, band.base, stored.width * 4, stored.width, inBand)
        inBand = 0
    }
}
