import Foundation

/// A rectangle with round corners, which computes how much of each pixel is inside it.
struct RoundedRect {
    let left, top, right, bottom: Double
    let radius: Double
    let corners: ImageProcessors.Corners

    /// Creates the rectangle of a whole picture, less an inset on each side, which also makes the radius smaller. The
    /// radius is limited so that the arcs of one side do not overlap, as in CSS.
    init(_ size: PixelSize, radius: Double, corners: ImageProcessors.Corners, inset: Double = 0) {
        let (width, height) = (Double(size.width), Double(size.height))
        (left, top) = (min(inset, width / 2), min(inset, height / 2))
        (right, bottom) = (width - left, height - top)
        self.corners = corners
        func limit(_ side: ImageProcessors.Corners, _ length: Double) -> Double {
            corners.isSuperset(of: side) ? length / 2 : length
        }
        let widest = min(limit(.top, width), limit(.bottom, width))
        let highest = min(limit(.left, height), limit(.right, height))
        self.radius = corners.isEmpty ? 0 : max(0, min(radius, widest, highest) - inset)
    }

    /// The columns at each end of a row, between which all columns of the row are alike.
    func margin(of length: Int) -> Int { min(length, Int((left + radius).rounded(.up)) + 1) }

    /// How much of each pixel of a row is inside the rectangle, 0…1.
    func cover(_ y: Int, _ columns: Range<Int>, _ coverage: UnsafeMutablePointer<Float>) {
        let rows = overlap(Double(y), Double(y) + 1, top, bottom)
        let (clear, full) = bounds(y, isWhole: rows == 1)
        func set(_ part: Range<Int>, to value: Float) {
            let part = part.clamped(to: columns)
            (coverage + (part.lowerBound - columns.lowerBound)).update(repeating: value, count: part.count)
        }
        set(columns.lowerBound..<max(columns.lowerBound, clear.lowerBound), to: 0)
        set(min(columns.upperBound, clear.upperBound)..<columns.upperBound, to: 0)
        set(full, to: 1)
        for part in [clear.lowerBound..<full.lowerBound, full.upperBound..<clear.upperBound] {
            for x in part.clamped(to: columns) {
                coverage[x - columns.lowerBound] = Float(self.coverage(x, y, rows: rows))
            }
        }
    }

    /// The columns outside which no pixel of a row is inside, and those whose pixels are wholly inside.
    private func bounds(_ y: Int, isWhole: Bool) -> (clear: Range<Int>, full: Range<Int>) {
        let (first, last) = (Double(y), Double(y) + 1)
        let (isAbove, isBelow) = (first < top + radius, last > bottom - radius)
        var (clearLeft, fullLeft, fullRight, clearRight) = (left, left, right, right)
        if isAbove != isBelow, radius > 0 {
            // How far the circle reaches where the row is nearest to its middle, and where the row is farthest from it.
            let (near, far) =
                isAbove
                ? (top + radius - last, top + radius - first) : (first + radius - bottom, last + radius - bottom)
            func reach(_ distance: Double) -> Double {
                (max(0, radius * radius - max(0, distance) * max(0, distance))).squareRoot() - radius
            }
            if corners.contains(isAbove ? .topLeft : .bottomLeft) {
                (clearLeft, fullLeft) = (left - reach(near), left - reach(far))
            }
            if corners.contains(isAbove ? .topRight : .bottomRight) {
                (clearRight, fullRight) = (right + reach(near), right + reach(far))
            }
        }
        let start = Int(clearLeft.rounded(.down))
        let end = max(start, Int(clearRight.rounded(.up)))
        // If an edge cuts the row, or two arcs meet in it, each pixel is computed.
        guard isWhole, !(isAbove && isBelow && radius > 0) else { return (start..<end, start..<start) }
        let fullStart = min(Int(fullLeft.rounded(.up)), end)
        return (start..<end, fullStart..<max(fullStart, min(Int(fullRight.rounded(.down)), end)))
    }

    private func coverage(_ x: Int, _ y: Int, rows: Double) -> Double {
        let (x0, x1, y0, y1) = (Double(x), Double(x) + 1, Double(y), Double(y) + 1)
        var area = rows * overlap(x0, x1, left, right)
        guard area > 0, radius > 0 else { return area }
        // Distances are from the middle of the circle outwards, for the corner whose square may contain the pixel.
        let (lowX, highX) = (left + radius, right - radius)
        let (lowY, highY) = (top + radius, bottom - radius)
        let (toLeft, toRight) = ((lowX - x1, lowX - x0), (x0 - highX, x1 - highX))
        let (toTop, toBottom) = ((lowY - y1, lowY - y0), (y0 - highY, y1 - highY))
        if corners.contains(.topLeft) { area -= missing(toLeft, toTop) }
        if corners.contains(.topRight) { area -= missing(toRight, toTop) }
        if corners.contains(.bottomLeft) { area -= missing(toLeft, toBottom) }
        if corners.contains(.bottomRight) { area -= missing(toRight, toBottom) }
        return min(max(area, 0), 1)
    }

    /// The area of a rectangle that is in the square of a corner but outside the quarter circle.
    private func missing(_ x: (Double, Double), _ y: (Double, Double)) -> Double {
        let (x0, x1) = (max(x.0, 0), min(x.1, radius))
        let (y0, y1) = (max(y.0, 0), min(y.1, radius))
        guard x1 > x0, y1 > y0 else { return 0 }
        let square = radius * radius
        if x1 * x1 + y1 * y1 <= square { return 0 }
        let all = (x1 - x0) * (y1 - y0)
        if x0 * x0 + y0 * y0 >= square { return all }
        // The circle is above the rectangle up to `full`, and falls through it up to `end`.
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
