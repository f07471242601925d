import CPixels

extension Image {
    /// The rotation and mirroring that display a stored picture upright (Exif 2.32, tag 0x0112).
    public enum Orientation: Int, Sendable, Hashable, CaseIterable {
        /// The first row is the top and the first column is the left side.
        case up = 1
        /// Mirrored left to right.
        case upMirrored
        /// Rotated by 180°.
        case down
        /// Mirrored top to bottom.
        case downMirrored
        /// Mirrored along the diagonal from the top left.
        case leftMirrored
        /// Needs a clockwise rotation by 90°.
        case right
        /// Mirrored along the diagonal from the top right.
        case rightMirrored
        /// Needs an anticlockwise rotation by 90°.
        case left

        /// Returns the displayed size for a stored size, or the stored size for a displayed one.
        public func applied(to size: PixelSize) -> PixelSize { rawValue >= 5 ? size.transposed : size }
    }
}

/// Receives rows in stored order and places each pixel where it is displayed. Rows that need rotating are collected in
/// a band of a few rows, so that the result is written in whole cache lines.
struct OrientedRows: ~Copyable {
    private let stored: PixelSize
    private let orientation: Image.Orientation
    private let buffer: PixelBuffer
    private let band: PixelStorage?
    private(set) var committed = 0
    private var inBand = 0

    /// Sixteen pixels fill a cache line; more rows save page table look-ups.
    private static let bandRows = 32

    /// `stored` is the size before the orientation is applied.
    init(_ stored: PixelSize, _ orientation: Image.Orientation) throws(DipperError) {
        // Calls that may throw come before the assignments: a partly initialized noncopyable value cannot be destroyed.
        let band = orientation == .up ? nil : try PixelStorage(byteCount: Self.bandBytes(stored, orientation))
        let buffer = try PixelBuffer(orientation.applied(to: stored))
        self.stored = stored
        self.orientation = orientation
        self.buffer = buffer
        self.band = band
    }

    static func bandBytes(_ stored: PixelSize, _ orientation: Image.Orientation) -> Int {
        orientation == .up ? 0 : stored.width * 4 * min(bandRows, stored.height)
    }

    /// Without gaps: for at least one row unless all rows have been committed.
    func memory(rows: Int) -> (base: UnsafeMutableRawPointer, rows: Int) {
        let rest = stored.height - committed
        if let band {
            return (band.base + inBand * stored.width * 4, min(rows, rest, Self.bandRows - inBand))
        }
        return (buffer.base + committed * buffer.rowStride, min(rows, rest))
    }

    mutating func commit(_ rows: Int) {
        precondition(rows >= 0 && rows <= memory(rows: rows).rows, "Rows are within the memory given.")
        committed += rows
        guard band != nil else { return }
        inBand += rows
        if inBand == Self.bandRows || committed == stored.height { empty() }
    }

    consuming func finish() -> PixelBuffer {
        precondition(committed == stored.height, "All rows have come.")
        return buffer
    }

    private mutating func empty() {
        guard let band, inBand > 0 else { return }
        let first = committed - inBand
        let (right, below) = (stored.width - 1, stored.height - 1)
        let stride = buffer.rowStride
        // The place of pixel (0, first), and the steps from there to the next pixel and to the next row.
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
