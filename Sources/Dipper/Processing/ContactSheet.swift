import CPixels

/// A sheet that shows many pictures in one, such as a page of thumbnails: rows of cells of one size, from left to right
/// and from top to bottom.
///
/// Each picture is in the middle of its cell, with its proportions kept. A picture that is too large for its cell is
/// made smaller; no picture is made larger. Transparent pictures lie on the cell's colour. The sheet is opaque.
///
/// ```swift
/// let sheet = ContactSheet(cell: PixelSize(width: 200, height: 150), columns: 6)
/// let file = try PNGEncoder().encode(sheet.compose(thumbnails), EncodeOptions())
/// ```
public struct ContactSheet: Sendable, Hashable {
    /// The size of a cell in pixels, which no picture exceeds.
    public var cell: PixelSize
    /// The number of cells in a row; `nil` for a sheet about as wide as it is high.
    public var columns: Int?
    /// The distance between cells, and the margin around all of them, in pixels.
    public var gap = 8
    /// The colour between the cells. The sheet is opaque: the alpha of its colours does not count.
    public var background = Color.white
    /// The colour of the cells.
    public var cellColor = Color(hex: 0xf0f0f0)
    /// The colour of the cross in the cell of a missing picture.
    public var markColor = Color(hex: 0xbe3c3c)

    /// Creates a sheet in light colours, by default with cells of 160 × 120 pixels.
    public init(cell: PixelSize = PixelSize(width: 160, height: 120), columns: Int? = nil) {
        self.cell = cell
        self.columns = columns
    }

    /// Returns the numbers of columns and rows for a number of pictures. Both are at least 1. There are no more columns
    /// than pictures.
    public func grid(for count: Int) -> (columns: Int, rows: Int) {
        let count = max(1, count)
        let ratio = Double(max(1, cell.height)) / Double(max(1, cell.width))
        let wanted = columns ?? Int(clamping: Int64((Double(count) * ratio).squareRoot().rounded(.up)))
        let columns = min(max(1, wanted), count)
        return (columns, (count - 1) / columns + 1)
    }

    /// Returns the sheet with the given pictures, in order; in the place of `nil`, a missing picture, the cell shows a
    /// cross. The context provides the limits, and is asked at least before each picture whether the work is cancelled.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`; `DipperError.processingFailed` if a cell has no
    ///   pixels or the gap is negative.
    public func compose(
        _ pictures: [Image?], _ context: ProcessingContext = .init()
    ) throws(DipperError) -> Image {
        let (columns, rows) = grid(for: pictures.count)
        let sheet = try PixelBuffer(size(columns, rows, context.limits))
        fill(sheet, background, PixelSize(width: sheet.size.width, height: sheet.size.height), x: 0, y: 0)
        for (number, picture) in pictures.enumerated() {
            try context.checkCancelled()
            let x = gap + number % columns * (cell.width + gap)
            let y = gap + number / columns * (cell.height + gap)
            fill(sheet, cellColor, cell, x: x, y: y)
            if let picture {
                let fitting = try picture.resized(to: TargetSize(cell).size(for: picture.size), context)
                draw(
                    fitting, on: sheet, x: x + (cell.width - fitting.width) / 2,
                    y: y + (cell.height - fitting.height) / 2)
            } else {
                cross(sheet, x: x, y: y)
            }
        }
        return sheet.image(isOpaque: true)
    }

    private func size(_ columns: Int, _ rows: Int, _ limits: DecodeLimits) throws(DipperError) -> PixelSize {
        guard !cell.isEmpty, gap >= 0 else {
            throw .processingFailed.with(detail: "a sheet with cells of \(cell) pixels, \(gap) apart")
        }
        func length(_ count: Int, _ cell: Int) throws(DipperError) -> Int {
            let (step, first) = cell.addingReportingOverflow(gap)
            let (all, second) = step.multipliedReportingOverflow(by: count)
            let (length, third) = all.addingReportingOverflow(gap)
            guard !first, !second, !third else { throw .imageTooLarge.with(detail: "\(count) cells of \(cell) pixels") }
            return length
        }
        let size = PixelSize(width: try length(columns, cell.width), height: try length(rows, cell.height))
        try limits.check(size)
        try limits.checkMemory(size)
        return size
    }

    // MARK: Drawing

    private func fill(
        _ sheet: borrowing PixelBuffer, _ color: Color, _ area: PixelSize, x: Int, y: Int
    ) {
        let pixel = color.with(alpha: 1).premultiplied
        for row in y..<y + area.height {
            let start = (sheet.row(row) + x * 4).assumingMemoryBound(to: SIMD4<UInt8>.self)
            start.update(repeating: pixel, count: area.width)
        }
    }

    private func draw(_ picture: Image, on sheet: borrowing PixelBuffer, x: Int, y: Int) {
        let color = cellColor.with(alpha: 1).premultiplied
        picture.withPixels { bytes in
            guard let base = bytes.baseAddress else { return }
            for row in 0..<picture.height {
                let start = sheet.row(y + row) + x * 4
                start.copyMemory(from: base + row * picture.rowStride, byteCount: picture.width * 4)
                guard !picture.isOpaque else { continue }
                pixels_over(start.assumingMemoryBound(to: UInt8.self), picture.width, color.x, color.y, color.z)
            }
        }
    }

    /// Draws both diagonals of a square in the middle of a cell, three pixels wide.
    private func cross(_ sheet: borrowing PixelBuffer, x: Int, y: Int) {
        let side = max(1, min(cell.width, cell.height) / 3)
        let left = x + (cell.width - side) / 2
        let top = y + (cell.height - side) / 2
        for step in 0..<side {
            for column in [step, side - 1 - step] {
                let first = max(x, left + column - 1)
                let last = min(x + cell.width - 1, left + column + 1)
                fill(sheet, markColor, PixelSize(width: last - first + 1, height: 1), x: first, y: top + step)
            }
        }
    }
}
