/// A whole picture in memory that another object owns.
struct Canvas {
    let base: UnsafeRawPointer
    let size: PixelSize
    let rowStride: Int
}

extension RowWriter {
    /// The number of rows between two checks for cancellation.
    static let rowsAtATime = 64

    /// Returns a copy of a canvas as a picture, in the size that the options ask for.
    static func image(
        of canvas: Canvas, picture: PixelSize, alpha: Alpha, orientation: Orientation = .up,
        color: ColorTransform? = nil, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        var writer = try RowWriter(
            source: canvas.size, of: picture, alpha: alpha, orientation: orientation, options)
        while writer.committed < canvas.size.height {
            try options.checkCancelled()
            let (memory, rows) = writer.memory(rows: rowsAtATime)
            for row in 0..<rows {
                let source = canvas.base + (writer.committed + row) * canvas.rowStride
                (memory + row * canvas.size.width * 4).copyMemory(from: source, byteCount: canvas.size.width * 4)
            }
            writer.commit(rows)
        }
        return try writer.finish(color: color)
    }
}
