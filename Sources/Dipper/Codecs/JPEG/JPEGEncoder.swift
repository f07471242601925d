import CPixels
import CodecShims
import Foundation

/// An encoder for baseline JPEG in sRGB, by libjpeg-turbo, with Huffman tables optimized for each picture. Below a
/// quality of 0.9, chroma has half the resolution in each direction (4:2:0). Transparent pictures are drawn over
/// ``EncodeOptions/background``.
public struct JPEGEncoder: ImageEncoder {
    /// The format ``ImageFormat/jpeg``.
    public var format: ImageFormat { .jpeg }

    /// Creates an encoder.
    public init() {}

    public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
        let quality = Int32(max(1, (options.validQuality * 100).rounded()))
        let created = dipper_jpeg_create(
            Int64(image.width), Int64(image.height), quality, options.validQuality < 0.9)
        guard let writer = created else { throw .unencodable.with(detail: "libjpeg cannot write \(image.size) pixels") }
        defer { dipper_jpeg_discard(writer) }
        if image.isOpaque {
            try Self.check(dipper_jpeg_write_rows(writer, image.row(0), image.rowStride, Int64(image.height)))
        } else {
            let background = options.background.with(alpha: 1).premultiplied
            let scratch = try PixelScratch(byteCount: image.width * 4)
            let row = scratch.base.assumingMemoryBound(to: UInt8.self)
            for y in 0..<image.height {
                row.update(from: image.row(y), count: image.width * 4)
                pixels_over(row, image.width, background.x, background.y, background.z)
                try Self.check(dipper_jpeg_write_rows(writer, row, image.width * 4, 1))
            }
            withExtendedLifetime(scratch) {}
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        var count = 0
        try Self.check(dipper_jpeg_end(writer, &bytes, &count))
        guard let bytes else { throw .unencodable }
        return Data(bytesNoCopy: bytes, count: count, deallocator: .free)
    }

    private static func check(_ status: dipper_jpeg_status) throws(DipperError) {
        if status != DIPPER_JPEG_OK { throw .unencodable.with(detail: "libjpeg cannot write the picture") }
    }
}
