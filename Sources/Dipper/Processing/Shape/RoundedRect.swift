import Foundation

/// A rectangle with round corners, and how much of each pixel is inside it.
struct RoundedRect {
    let left, top, right, bottom: Double
    let radius: Double
    let corners: Corners

    /// The whole of a picture, less a distance on each side. The radius of the inner shape is as much smaller.
    /// - Parameter radius: too large a one becomes so small that arcs of one side do not overlap, as in CSS.
    init(_ size: PixelSize, radius: Double, corners: Corners, inset: Double = 0) {
        let (width, height) = (Double(size.width), Double(size.height))
        (left, top) = (min(inset, width / 2), min(inset, height / 2))
        (right, bottom) = (width - left, height - top)
        self.corners = corners
        func limit(_ side: Corners, _ length: Double) -> Double {
            corners.isSuperset(of: side) ? length / 2 : length
        }
        let widest = min(limit(.top, width), limit(.bottom, width))
        let highest = min(limit(.left, height), limit(.right, height))
        self.radius = corners.isEmpty ? 0 : max(0, min(radius, widest, highest) - inset)
    }

    /// Columns and rows from each side beyond which a row, or a column, is the same to the other side.
    func margin(of length: Int) -> Int { min(length, Int((left + radius).rounded(.up)) + 1) }

    /// How much of the pixels of a row is inside, 0…1.
    func cover(_ y: Int, _ columns: Range<Int>, _ coverage: UnsafeMutablePointer<Float>) {
        let (first, last) = (Double(y), Double(y) + 1)
        let rows = overlap(first, last, top, bottom)
        let isStraight = rows == 1 && left == 0 && (radius == 0 || (first >= top + radius && last <= bottom - radius))
        for x in columns {
            coverage[x - columns.lowerBound] = isStraight ? 1 : Float(self.coverage(x, y, rows: rows))
        }
    }

    private func coverage(_ x: Int, _ y: Int, rows: Double) -> Double {
        let (x0, x1, y0, y1) = (Double(x), Double(x) + 1, Double(y), Double(y) + 1)
        var area = rows * overlap(x0, x1, left, right)
        guard area > 0, radius > 0 else { return area }
        // From the middle of the circle outwards, for the corner whose square the pixel may be in.
        let (lowX, highX) = (left + radius, right - radius)
        let (lowY, highY) = (top + radius, bottom - radius)
        if y0 < lowY {
            if x0 < lowX, corners.contains(.topLeft) { area -= missing(lowX - x1, lowX - x0, lowY - y1, lowY - y0) }
            if x1 > highX, corners.contains(.topRight) {
                area -= missing(x0 - highX, x1 - highX, lowY - y1, lowY - y0)
            }
        }
        if y1 > highY {
            if x0 < lowX, corners.contains(.bottomLeft) {
                area -= missing(lowX - x1, lowX - x0, y0 - highY, y1 - highY)
            }
            if x1 > highX, corners.contains(.bottomRight) {
                area -= missing(x0 - highX, x1 - highX, y0 - highY, y1 - highY)
            }
        }
        return min(max(area, 0), 1)
    }

    /// What of a rectangle is in the square of a corner, but outside the quarter of the circle.
    private func missing(_ x0: Double, _ x1: Double, _ y0: Double, _ y1: Double) -> Double {
        let (x0, x1) = (max(x0, 0), min(x1, radius))
        let (y0, y1) = (max(y0, 0), min(y1, radius))
        guard x1 > x0, y1 > y0 else { return 0 }
        let square = radius * radius
        if x1 * x1 + y1 * y1 <= square { return 0 }
        let all = (x1 - x0) * (y1 - y0)
        if x0 * x0 + y0 * y0 >= square { return all }
        // Where the circle is above the rectangle, and where it enters and leaves it.
        let full = min(max((square - y1 * y1).squareRoot(), x0), x1)
        let end = min(max((square - y0 * y0).squareRoot(), x0), x1)
        let under = integral(end) - integral(full) - y0 * (end - full)
        return max(0, all - (full - x0) * (y1 - y0) - under)
    }

    /// The area under the circle from 0 to x.
    private func integral(_ x: Double) -> Double {
        let height = max(0, radius * radius - x * x).squareRoot()
        return (x * height + radius * radius * asin(min(1, x / radius))) / 2
    }

    private func overlap(_ a0: Double, _ a1: Double, _ b0: Double, _ b1: Double) -> Double {
        max(0, min(a1, b1) - max(a0, b0))
    }
}
