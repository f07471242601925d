import CPixels
import CodecShims

/// A libpng reader of one file.
struct PNGReader: ~Copyable {
    let header: dipper_png_header
    private let reader: OpaquePointer

    /// The most memory, in bytes, for one chunk other than pixels.
    private static let largestChunk = 8 << 20

    /// Opens a file and reads it up to the pixels.
    /// - Parameters:
    ///   - bytes: the file, at an address that stays while the reader lives.
    ///   - mayEndEarly: whether to read an incomplete last chunk as far as it goes.
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

    /// The size of the picture, in pixels.
    var size: PixelSize { PixelSize(width: Int(header.width), height: Int(header.height)) }

    /// Prepares to read rows.
    func start() throws(DipperError) {
        let status = dipper_png_start(reader, header.has_alpha ? 4 : 3)
        guard status == DIPPER_PNG_OK else { throw Self.error(status, reader) }
    }

    /// Reads the next rows of RGBA, without gaps. In an interlaced picture these are rows of one pass, and with
    /// `fillsBlocks` each pixel is repeated over its neighbours that have not arrived.
    ///
    /// For a file without alpha, call ``addAlpha(_:rows:)`` afterwards, once for all passes.
    /// - Returns: the number of rows read: fewer than asked for if the bytes end too early.
    func read(_ rows: Int, to memory: UnsafeMutableRawPointer, fillsBlocks: Bool = false) throws(DipperError) -> Int {
        var done = 0
        let status = dipper_png_read_rows(
            reader, memory.assumingMemoryBound(to: UInt8.self) + gap, size.width * 4, rows, fillsBlocks, &done)
        guard status == DIPPER_PNG_OK || status == DIPPER_PNG_TRUNCATED else { throw Self.error(status, reader) }
        return done
    }

    /// Converts rows of a file without alpha to RGBA. Before, each row is RGB at the end of its memory.
    func addAlpha(_ memory: UnsafeMutableRawPointer, rows: Int) {
        guard !header.has_alpha else { return }
        let width = size.width
        for y in 0..<rows {
            let row = memory.assumingMemoryBound(to: UInt8.self) + y * width * 4
            pixels_add_alpha(row, row + gap, width)
        }
    }

    /// The number of bytes left free at the start of a row.
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
