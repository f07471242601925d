/// A whole picture in memory that is not ours to keep.
struct Canvas {
    let base: UnsafeRawPointer
    let size: PixelSize
    let rowStride: Int
}

extension RowWriter {
    /// Rows between two looks at whether the decode is cancelled.
    static let rowsAtATime = 64

    /// The picture of a canvas, copied.
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
