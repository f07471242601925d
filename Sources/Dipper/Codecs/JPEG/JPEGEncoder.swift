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
    private static let rowsPerStep = 16

    /// Creates an encoder.
    public init() {}

    public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
        guard !image.size.isEmpty, max(image.width, image.height) <= Self.longestSide else {
            throw .unencodable.with(detail: "\(image.size) pixels")
        }
        let quality = options.quality.isFinite ? min(1, max(0, options.quality)) : EncodeOptions().quality
        let writer = try JPEGWriter(
            image.size, quality: max(1, Int((quality * 100).rounded())), halvesColors: quality < 0.9)
        try image.withPixels { bytes throws(DipperError) in
            guard let base = bytes.baseAddress else { throw .unencodable }
            if image.isOpaque {
                try writer.write(base, stride: image.rowStride, rows: image.height)
            } else {
                try Self.write(image, base, over: options.background.with(alpha: 1).premultiplied, to: writer)
            }
        }
        return try writer.finish()
    }

    private static func write(
        _ image: Image, _ base: UnsafeRawPointer, over background: SIMD4<UInt8>, to writer: borrowing JPEGWriter
    ) throws(DipperError) {
        let stride = image.width * 4
        let rows = try PixelScratch(byteCount: stride * rowsPerStep)
        for y in Swift.stride(from: 0, to: image.height, by: rowsPerStep) {
            let count = min(rowsPerStep, image.height - y)
            for row in 0..<count {
                compose(base + (y + row) * image.rowStride, over: background, into: rows.base + row * stride, stride)
            }
            try writer.write(rows.base, stride: stride, rows: count)
        }
    }

    private static func compose(
        _ source: UnsafeRawPointer, over background: SIMD4<UInt8>, into row: UnsafeMutableRawPointer, _ count: Int
    ) {
        let source = source.assumingMemoryBound(to: UInt8.self)
        let row = row.assumingMemoryBound(to: UInt8.self)
        for start in Swift.stride(from: 0, to: count, by: 4) {
            let rest = 255 - UInt32(source[start + 3])
            for channel in 0..<3 {
                let color = UInt32(source[start + channel]) + (UInt32(background[channel]) * rest + 127) / 255
                row[start + channel] = UInt8(min(255, color))
            }
            // libjpeg ignores this byte, but it must not stay uninitialized.
            row[start + 3] = 255
        }
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
