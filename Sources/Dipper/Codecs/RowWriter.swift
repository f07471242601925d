/// Takes the rows of a picture in the order they are stored, and makes the picture in the size wanted: no more than
/// what the result needs is ever held.
///
/// A decoder asks for ``memory(rows:)``, fills it with RGBA, and says how many rows with ``commit(_:)``.
struct RowWriter: ~Copyable {
    /// What the rows hold.
    enum Alpha {
        case opaque
        case premultiplied
        /// To be multiplied.
        case straight
    }

    /// Of the rows that come.
    let source: PixelSize
    /// Of the picture before the orientation is applied.
    let stored: PixelSize
    private let alpha: Alpha
    private let orientation: Orientation
    private let options: DecodeOptions
    private let buffer: PixelBuffer
    private var y = 0

    /// - Parameters:
    ///   - source: the size of the rows that come, which may be smaller than the picture's own.
    ///   - picture: the stored picture's own size.
    init(
        source: PixelSize, of picture: PixelSize, alpha: Alpha, orientation: Orientation = .up,
        _ options: DecodeOptions
    ) throws(DipperError) {
        self.source = source
        self.alpha = alpha
        self.orientation = orientation
        self.options = options
        stored = options.storedTarget(for: picture, orientation)
        try options.limits.checkMemory(source)
        buffer = PixelBuffer(source)
    }

    /// Rows that have come.
    var committed: Int { y }

    /// Memory for the next rows, one after the other: `source.width × 4` bytes each.
    /// - Returns: for one row at least, and no more than are still to come; `nil` rows when all have come.
    mutating func memory(rows: Int) -> (base: UnsafeMutableRawPointer, rows: Int) {
        let count = min(rows, source.height - y)
        return (buffer.base + y * buffer.rowStride, count)
    }

    /// So many rows of the memory given are filled.
    mutating func commit(_ rows: Int) {
        y += rows
    }

    /// The picture.
    /// - Parameter color: brings the colours into sRGB.
    consuming func finish(color: ColorTransform? = nil) throws(DipperError) -> Image {
        throw .undecodable
    }
}
