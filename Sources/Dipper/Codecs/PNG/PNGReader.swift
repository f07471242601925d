import CPixels
import CodecShims

/// One file that libpng reads.
struct PNGReader: ~Copyable {
    let header: dipper_png_header
    private let reader: OpaquePointer

    /// What chunks beside the pixels may take in memory, in bytes.
    private static let largestChunk = 8 << 20

    /// Reads up to the pixels.
    /// - Parameters:
    ///   - bytes: must stay as long as the reader.
    ///   - mayEndEarly: what there is of a chunk that is cut off is read too.
    init(_ bytes: UnsafeRawBufferPointer, mayEndEarly: Bool) throws(DipperError) {
        let start = bytes.bindMemory(to: UInt8.self)
        guard let base = start.baseAddress else { throw .undecodable.with(detail: "there are no bytes") }
        guard let reader = dipper_png_open(base, start.count, mayEndEarly) else { throw Self.noMemory }
        var header = dipper_png_header()
        let status = dipper_png_read_header(reader, Self.largestChunk, &header)
        guard status == DIPPER_PNG_OK else {
            let error = Self.error(status, reader)
            dipper_png_close(reader)
            throw error
        }
        self.reader = reader
        self.header = header
    }

    deinit {
        dipper_png_close(reader)
    }

    /// In pixels.
    var size: PixelSize { PixelSize(width: Int(header.width), height: Int(header.height)) }

    /// Makes ready for rows.
    func start() throws(DipperError) {
        let status = dipper_png_start(reader, header.has_alpha ? 4 : 3)
        guard status == DIPPER_PNG_OK else { throw Self.error(status, reader) }
    }

    /// Reads rows of RGBA without gaps: the next, or those of a pass of an interlaced picture, for which `fillsBlocks`
    /// lets pixels stand for their neighbours that have not come.
    ///
    /// Pixels without alpha must be given one afterwards, once for all passes: ``addAlpha(_:rows:)``.
    /// - Returns: rows that were read: less than asked for if the bytes end too early.
    func read(_ rows: Int, to memory: UnsafeMutableRawPointer, fillsBlocks: Bool = false) throws(DipperError) -> Int {
        var done = 0
        let status = dipper_png_read_rows(
            reader, memory.assumingMemoryBound(to: UInt8.self) + gap, size.width * 4, rows, fillsBlocks, &done)
        guard status == DIPPER_PNG_OK || status == DIPPER_PNG_TRUNCATED else { throw Self.error(status, reader) }
        return done
    }

    /// Makes RGBA of the rows that were read; without it they are RGB, each at the end of its memory.
    func addAlpha(_ memory: UnsafeMutableRawPointer, rows: Int) {
        guard !header.has_alpha else { return }
        let width = size.width
        for y in 0..<rows {
            let row = memory.assumingMemoryBound(to: UInt8.self) + y * width * 4
            pixels_add_alpha(row, row + gap, width)
        }
    }

    /// Left free at the start of a row.
    private var gap: Int { header.has_alpha ? 0 : size.width }

    static let truncated = DipperError.undecodable.with(detail: "the bytes end too early")
    private static let noMemory = DipperError.imageTooLarge.with(detail: "there is no memory")

    private static func error(_ status: dipper_png_status, _ reader: OpaquePointer) -> DipperError {
        switch status {
        case DIPPER_PNG_TRUNCATED: truncated
        case DIPPER_PNG_NO_MEMORY: noMemory
        default: .undecodable.with(detail: String(cString: dipper_png_message(reader)))
        }
    }
}
