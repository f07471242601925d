import CodecShims

/// A libjpeg reader of bytes that must stay at their address while the reader lives.
struct JPEGReader: ~Copyable {
    let header: dipper_jpeg_header
    private let handle: OpaquePointer

    /// Opens a file and reads its header.
    init(_ bytes: UnsafeRawBufferPointer) throws(DipperError) {
        let start = bytes.bindMemory(to: UInt8.self)
        guard let handle = dipper_jpeg_open(start.baseAddress, start.count) else { throw Self.noMemory }
        var header = dipper_jpeg_header()
        let status = dipper_jpeg_read_header(handle, &header)
        guard status == DIPPER_JPEG_OK else {
            let error = Self.error(status, handle)
            dipper_jpeg_close(handle)
            throw error
        }
        self.handle = handle
        self.header = header
    }

    deinit {
        dipper_jpeg_close(handle)
    }

    /// The size of the stored picture, in pixels.
    var size: PixelSize { PixelSize(width: Int(header.width), height: Int(header.height)) }

    /// The size of the decoded picture; known after ``start(eighths:memory:)``.
    var outputSize: PixelSize {
        PixelSize(width: Int(dipper_jpeg_output_width(handle)), height: Int(dipper_jpeg_output_height(handle)))
    }

    /// Begins to decode at a scale of eighths of the picture's size, with at most `memory` bytes for libjpeg.
    mutating func start(eighths: Int, memory: Int) throws(DipperError) {
        let status = dipper_jpeg_start(handle, Int32(eighths), max(0, memory))
        guard status == DIPPER_JPEG_OK else { throw Self.error(status, handle) }
    }

    /// The result of one step.
    enum Step {
        case more
        case done
        /// The bytes end too early. A reader reports this only once.
        case truncated
        /// An error after this number of complete scans. Another reader may stop after them; this one cannot continue.
        case brokenOff(Int)
    }

    /// Reads a few rows of blocks of a file with several scans.
    /// - Parameter stop: the number of scans after which to stop; 0 for all.
    mutating func absorb(maxScans: Int, stopAfter stop: Int) throws(DipperError) -> Step {
        let status = dipper_jpeg_absorb(handle, 16, Int64(maxScans), Int64(stop))
        switch status {
        case DIPPER_JPEG_BROKEN_OFF: return .brokenOff(Int(dipper_jpeg_complete_scans(handle)))
        case DIPPER_JPEG_OK: return .done
        case DIPPER_JPEG_MORE: return .more
        case DIPPER_JPEG_TRUNCATED: return .truncated
        case DIPPER_JPEG_TOO_MANY_SCANS: throw .imageTooLarge.with(detail: "more than \(maxScans) scans")
        default: throw Self.error(status, handle)
        }
    }

    /// Decodes rows into memory, without gaps.
    /// - Returns: the number of rows for which the file has data.
    mutating func read(
        _ rows: Int, of stride: Int, into memory: UnsafeMutableRawPointer
    ) throws(DipperError) -> Int {
        var done: Int64 = 0
        let status = dipper_jpeg_read_rows(handle, memory, stride, Int64(rows), &done)
        switch status {
        case DIPPER_JPEG_OK, DIPPER_JPEG_TRUNCATED: return max(0, Int(done))
        default: throw Self.error(status, handle)
        }
    }

    static let truncated = DipperError.undecodable.with(detail: "truncated")
    private static let noMemory = DipperError.imageTooLarge.with(detail: "out of memory")

    private static func error(_ status: dipper_jpeg_status, _ handle: OpaquePointer) -> DipperError {
        switch status {
        case DIPPER_JPEG_TRUNCATED: truncated
        case DIPPER_JPEG_NO_MEMORY: noMemory
        default: .undecodable.with(detail: String(cString: dipper_jpeg_message(handle)))
        }
    }
}
