import CPixels
import CodecShims
import Foundation

/// An encoder for baseline JPEG in sRGB, by libjpeg-turbo, with Huffman tables optimized for each picture. Below a
/// quality of 0.9, chroma has half the resolution in each direction (4:2:0). Transparent pictures are drawn over
/// ``EncodeOptions/background``.
public struct JPEGEncoder: ImageEncoder {
    /// The format ``ImageFormat/jpeg``.
    public var format: ImageFormat { .jpeg }

    /// In pixels (`JPEG_MAX_DIMENSION`).
    static let longestSide = 65_500

    /// Creates an encoder.
    public init() {}

    public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
        guard !image.size.isEmpty, max(image.width, image.height) <= Self.longestSide else {
            throw .unencodable.with(detail: "\(image.size) pixels")
        }
        let quality = options.quality.isFinite ? min(1, max(0, options.quality)) : EncodeOptions().quality
        let writer = try JPEGWriter(
            image.size, quality: max(1, Int((quality * 100).rounded())), halvesColors: quality < 0.9)
        if image.isOpaque {
            try writer.write(image.row(0), stride: image.rowStride, rows: image.height)
        } else {
            let background = options.background.with(alpha: 1).premultiplied
            let scratch = try PixelScratch(byteCount: image.width * 4)
            let row = scratch.base.assumingMemoryBound(to: UInt8.self)
            for y in 0..<image.height {
                row.update(from: image.row(y), count: image.width * 4)
                pixels_over(row, image.width, background.x, background.y, background.z)
                try writer.write(row, stride: image.width * 4, rows: 1)
            }
            withExtendedLifetime(scratch) {}
        }
        return try writer.finish()
    }
}

private struct JPEGWriter: ~Copyable {
    private let handle: OpaquePointer

    init(_ size: PixelSize, quality: Int, halvesColors: Bool) throws(DipperError) {
        let created = dipper_jpeg_create(Int64(size.width), Int64(size.height), Int32(quality), halvesColors)
        guard let created else { throw .unencodable.with(detail: "out of memory") }
        handle = created
    }

    deinit {
        dipper_jpeg_discard(handle)
    }

    /// Alpha is ignored.
    func write(_ rows: UnsafeRawPointer, stride: Int, rows count: Int) throws(DipperError) {
        try check(dipper_jpeg_write_rows(handle, rows, stride, Int64(count)))
    }

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
