/// A rectangle of pixels.
public struct PixelRect: Sendable, Hashable, CustomStringConvertible {
    /// The position of the top left pixel from the left.
    public var x: Int
    /// The position of the top left pixel from the top.
    public var y: Int
    /// The width and height in pixels.
    public var size: PixelSize

    /// Creates a rectangle from the position of its top left pixel, its width and its height.
    public init(x: Int, y: Int, width: Int, height: Int) {
        self.x = x
        self.y = y
        size = PixelSize(width: width, height: height)
    }

    /// The rectangle as text, for example `400x300+20-10`.
    public var description: String {
        func signed(_ value: Int) -> String { value < 0 ? "\(value)" : "+\(value)" }
        return "\(size)\(signed(x))\(signed(y))"
    }

    /// Returns the part of the rectangle that is inside a picture; `nil` if there is none.
    func clipped(to picture: PixelSize) -> PixelRect? {
        guard !size.isEmpty else { return nil }
        func clipped(_ start: Int, _ length: Int, _ limit: Int) -> Range<Int> {
            let (end, overflows) = start.addingReportingOverflow(length)
            let first = min(max(start, 0), limit)
            return first..<max(first, min(overflows ? Int.max : end, limit))
        }
        let (columns, rows) = (clipped(x, size.width, picture.width), clipped(y, size.height, picture.height))
        guard !columns.isEmpty, !rows.isEmpty else { return nil }
        return PixelRect(x: columns.lowerBound, y: rows.lowerBound, width: columns.count, height: rows.count)
    }
}
