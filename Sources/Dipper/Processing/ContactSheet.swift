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

    /// Returns the numbers of columns and rows for a number of pictures, at least 1; no more columns than pictures.
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
        sheet.fill(Self.pixel(background))
        for (number, picture) in pictures.enumerated() {
            try context.checkCancelled()
            let place = PixelRect(
                x: gap + number % columns * (cell.width + gap), y: gap + number / columns * (cell.height + gap),
                width: cell.width, height: cell.height)
            sheet.fill(Self.pixel(cellColor), place)
            if let picture {
                let fitting = try picture.resized(to: TargetSize(cell).size(for: picture.size), context)
                try sheet.composite(.over, .image(fitting, .center), in: place, context)
            } else {
                cross(sheet, place)
            }
        }
        return sheet.image(isOpaque: true)
    }

    private func size(_ columns: Int, _ rows: Int, _ limits: DecodeLimits) throws(DipperError) -> PixelSize {
        guard !cell.isEmpty, gap >= 0 else {
            throw .processingFailed.with(detail: "a sheet with cells of \(cell) pixels, \(gap) apart")
        }
        // No picture has a side this long, and nothing below can overflow.
        guard max(columns, rows, cell.width, cell.height, gap) <= 1 << 24 else {
            throw .imageTooLarge.with(detail: "\(columns)x\(rows) cells of \(cell) pixels, \(gap) apart")
        }
        let size = PixelSize(
            width: columns * (cell.width + gap) + gap, height: rows * (cell.height + gap) + gap)
        try limits.check(size)
        try limits.checkMemory(size)
        return size
    }

    private static func pixel(_ color: Color) -> SIMD4<UInt8> { color.with(alpha: 1).premultiplied }

    private func cross(_ sheet: borrowing PixelBuffer, _ cell: PixelRect) {
        let side = max(1, min(cell.size.width, cell.size.height) / 3)
        let left = cell.x + (cell.size.width - side) / 2
        let top = cell.y + (cell.size.height - side) / 2
        for step in 0..<side {
            for column in [step, side - 1 - step] {
                let first = max(cell.x, left + column - 1)
                let last = min(cell.x + cell.size.width - 1, left + column + 1)
                sheet.fill(
                    Self.pixel(markColor), PixelRect(x: first, y: top + step, width: last - first + 1, height: 1))
            }
        }
    }
}
