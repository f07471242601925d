import CodecShims
import Foundation

/// A decoder for JPEG, by libjpeg-turbo: grey, YCbCr, RGB, CMYK and YCCK; baseline, progressive and arithmetic.
///
/// For a smaller target the picture is first decoded to 1/8, 1/4 or 1/2 of its size. A file with invalid codes still
/// gives a picture, as in browsers. A file that ends too early throws `DipperError.undecodable` unless the options
/// allow a partial picture: then the missing part of a single scan is transparent, and a progressive picture is coarse.
///
/// ```swift
/// let target = TargetSize(PixelSize(width: 320, height: 240))
/// let small = try JPEGDecoder().decode(bytes, DecodeOptions(target: target))
/// ```
public struct JPEGDecoder: ImageDecoder {
    /// The format ``ImageFormat/jpeg``.
    public var format: ImageFormat { .jpeg }

    private static let rowsPerStep = 16

    /// Creates a decoder.
    public init() {}

    public func recognizes(_ start: Data) -> Bool { start.starts(with: [0xFF, 0xD8, 0xFF]) }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        let orientation = (try? ImageInfo(data))?.orientation ?? .up
        return try data.withBytes { bytes throws(DipperError) in try decode(bytes, orientation, options) }
    }

    private func decode(
        _ bytes: UnsafeRawBufferPointer, _ orientation: Orientation, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        let reader = try JPEGReader(bytes)
        let header = reader.header
        let size = reader.size
        try options.limits.check(size)
        guard header.colors != DIPPER_JPEG_UNKNOWN else { throw .undecodable.with(detail: "unknown colours") }
        let stored = options.storedTarget(for: size, orientation)
        try options.limits.checkMemory(stored)
        let (needed, overflows) = Int(header.coefficient_bytes).addingReportingOverflow(
            stored.width * stored.height * 4)
        try options.limits.check(bytes: overflows ? .max : needed)

        let colors = JPEGColors(header, bytes)
        let eighths = JPEGScale.eighths(from: size, to: stored)
        func picture(_ reader: consuming JPEGReader) throws(DipperError) -> Image {
            let writer = try RowWriter(
                source: reader.outputSize, of: size, alpha: .opaque, orientation: orientation, options)
            return try Self.picture(reader, writer, colors, options)
        }
        guard header.has_several_scans else {
            var reader = reader
            try reader.start(eighths: eighths, memory: options.limits.bytes)
            return try picture(reader)
        }
        let filtered = eighths == 1 ? JPEGScanFilter.meansOnly(bytes) : nil
        guard let filtered else {
            return try picture(try JPEGScans.absorbed(reader, bytes, eighths, options))
        }
        return try filtered.withBytes { bytes throws(DipperError) in
            try picture(try JPEGScans.absorbed(try JPEGReader(bytes), bytes, eighths, options))
        }
    }

    private static func picture(
        _ reader: consuming JPEGReader, _ writer: consuming RowWriter, _ colors: JPEGColors, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        let width = writer.source.width
        while writer.committed < writer.source.height {
            try options.checkCancelled()
            let (base, rows) = writer.memory(rows: rowsPerStep)
            let done = try reader.read(rows, of: width * 4, into: base)
            colors.convert(base, pixels: width * done)
            writer.commit(done)
            if done < rows {
                guard options.allowsPartial, writer.committed > 0 else { throw JPEGReader.truncated }
                break
            }
        }
        return try writer.finish(color: colors.afterwards)
    }
}
