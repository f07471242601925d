import CodecShims
import Foundation

/// A decoder for PNG, by libpng: all colour types and depths, also interlaced; 16 bits are rounded to eight.
///
/// Colours are converted to sRGB from a profile (`iCCP`), or else from `gAMA` and `cHRM`, unless the `sRGB` chunk says
/// that none of this is needed. A wrong checksum in one of the picture's chunks throws `DipperError.undecodable`. A
/// file that ends too early does too unless the options allow a partial picture: then the missing part is transparent,
/// or coarse in an interlaced picture. For APNG only the still picture is decoded.
///
/// ```swift
/// var options = DecodeOptions()
/// options.allowsPartial = true
/// let image = try PNGDecoder().decode(bytes, options)
/// ```
public struct PNGDecoder: ImageDecoder {
    /// The format ``ImageFormat/png``.
    public var format: ImageFormat { .png }

    /// The bytes of RGBA decoded in one step, few enough to stay in the processor's cache until they are processed.
    private static let bytesPerStep = 1 << 18

    /// Creates a decoder.
    public init() {}

    public func recognizes(_ start: Data) -> Bool {
        start.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
    }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        let orientation = (try? ImageInfo(data))?.orientation ?? .up
        return try data.withBytes { bytes throws(DipperError) in try decode(bytes, orientation, options) }
    }

    private func decode(
        _ bytes: UnsafeRawBufferPointer, _ orientation: Orientation, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        let reader = try PNGReader(bytes, mayEndEarly: options.allowsPartial)
        try options.limits.check(reader.size)
        let color = PNGColors.transform(for: reader.header)
        var writer = try RowWriter(
            source: reader.size, of: reader.size, alpha: reader.header.has_alpha ? .straight : .opaque,
            orientation: orientation, options)
        if reader.header.is_interlaced {
            // Each pass covers the whole picture.
            let (count, overflows) = (reader.size.width * reader.size.height).multipliedReportingOverflow(by: 8)
            try options.limits.check(bytes: overflows ? .max : count)
            try reader.start()
            try readPasses(reader, into: &writer, options)
        } else {
            try reader.start()
            try readRows(reader, into: &writer, options)
        }
        return try writer.finish(color: color)
    }

    private func rowsPerStep(_ size: PixelSize) -> Int { max(1, Self.bytesPerStep / (size.width * 4)) }

    private func readRows(
        _ reader: borrowing PNGReader, into writer: inout RowWriter, _ options: DecodeOptions
    ) throws(DipperError) {
        while writer.committed < writer.source.height {
            try options.checkCancelled()
            let (base, rows) = writer.memory(rows: rowsPerStep(writer.source))
            let done = try reader.read(rows, to: base)
            reader.addAlpha(base, rows: done)
            writer.commit(done)
            if done < rows {
                guard options.allowsPartial, writer.committed > 0 else { throw PNGReader.truncated }
                return
            }
        }
    }

    private func readPasses(
        _ reader: borrowing PNGReader, into writer: inout RowWriter, _ options: DecodeOptions
    ) throws(DipperError) {
        let size = reader.size
        let picture = try PixelScratch(byteCount: size.width * size.height * 4)
        let rowsPerStep = rowsPerStep(size)
        // After the first pass each row holds some pixels.
        var known = size.height
        passes: for pass in 0..<7 {
            var y = 0
            while y < size.height {
                try options.checkCancelled()
                let rows = min(rowsPerStep, size.height - y)
                let done = try reader.read(
                    rows, to: picture.base + y * size.width * 4, fillsBlocks: options.allowsPartial)
                y += done
                if done < rows {
                    if pass == 0 { known = y }
                    guard options.allowsPartial, known > 0 else { throw PNGReader.truncated }
                    break passes
                }
            }
        }
        while writer.committed < known {
            try options.checkCancelled()
            let (base, rows) = writer.memory(rows: min(rowsPerStep, known - writer.committed))
            let source = picture.base + writer.committed * size.width * 4
            reader.addAlpha(source, rows: rows)
            base.copyMemory(from: source, byteCount: rows * size.width * 4)
            writer.commit(rows)
        }
    }
}
