import CodecShims
import Foundation

/// A libjpeg writer of one file in memory.
struct JPEGWriter: ~Copyable {
    private let handle: OpaquePointer

    init(_ size: PixelSize, quality: Int, halvesColors: Bool) throws(DipperError) {
        let created = dipper_jpeg_create(Int64(size.width), Int64(size.height), Int32(quality), halvesColors)
        guard let created else { throw .unencodable.with(detail: "out of memory") }
        handle = created
    }

    deinit {
        dipper_jpeg_discard(handle)
    }

    /// Writes rows of RGBA; alpha is ignored.
    func write(_ rows: UnsafeRawPointer, stride: Int, rows count: Int) throws(DipperError) {
        try check(dipper_jpeg_write_rows(handle, rows, stride, Int64(count)))
    }

    /// Ends the file and returns its bytes.
    consuming func finish() throws(DipperError) -> Data {
        var bytes: UnsafeMutablePointer<UInt8>?
        var count = 0
        try check(dipper_jpeg_end(handle, &bytes, &count))
        guard let bytes else { throw .unencodable }
        return Data(bytesNoCopy: bytes, count: count, deallocator: .free)
    }

    private func check(_ status: dipper_jpeg_status) throws(DipperError) {
        if status != DIPPER_JPEG_OK { throw .unencodable.with(detail: "libjpeg cannot write the picture") }
    }
}
