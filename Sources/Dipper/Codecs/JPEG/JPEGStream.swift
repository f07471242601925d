import CodecShims
import Foundation

extension JPEGDecoder: StreamingDecoder {
    func stream(of beginning: Data, _ options: DecodeOptions) throws(DipperError) -> (any PictureStream)? {
        try beginning.withBytes { bytes throws(DipperError) in
            let reader = try JPEGReader()
            reader.feed(bytes)
            guard try reader.readHeader() else { return nil }
            // Other scans change rows that have been decoded, and libjpeg cannot wait within arithmetic codes.
            guard !reader.header.has_several_scans, !reader.header.is_arithmetic else { throw JPEGStream.impossible }
            return try JPEGStream(reader, plan(reader, bytes, options), options)
        }
    }
}

/// A JPEG file of one scan that is decoded row by row while it arrives.
final class JPEGStream: PictureStream {
    static let impossible = DipperError.undecodable.with(detail: "not while it arrives")

    private static let rowsPerStep = 16

    private let reader: JPEGReader
    private let colors: JPEGColors
    /// `nil` after the end, or after an error.
    private var writer: RowWriter?

    fileprivate init(
        _ reader: JPEGReader, _ plan: (colors: JPEGColors, eighths: Int, orientation: Image.Orientation),
        _ options: DecodeOptions
    ) throws(DipperError) {
        (self.reader, colors) = (reader, plan.colors)
        try reader.start(eighths: plan.eighths)
        writer = try RowWriter(
            source: reader.outputSize, of: reader.size, alpha: .opaque, orientation: plan.orientation, options)
    }

    func advance(_ file: Data) throws(DipperError) {
        guard var writer = writer.take() else { throw Self.impossible }
        try file.withBytes { bytes throws(DipperError) in
            reader.feed(bytes)
            try writer.fillArriving(rowsAtATime: Self.rowsPerStep) { memory, rows, width throws(DipperError) in
                let done = try reader.readArriving(rows, of: width * 4, into: memory)
                colors.convert(memory, pixels: width * done)
                return done
            }
        }
        self.writer = consume writer
    }

    func finish(_ file: Data) throws(DipperError) -> Image {
        try advance(file)
        guard let writer = writer.take(), writer.isFull else { throw RowWriter.truncated }
        return try writer.finish(color: colors.afterwards)
    }
}
