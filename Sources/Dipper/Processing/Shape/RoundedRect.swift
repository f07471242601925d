import Foundation

/// A rectangle with round corners, which computes how much of each pixel is inside it.
struct RoundedRect {
    let radius: Double
    private let size: PixelSize
    /// The distances from the picture's left and right, and from its top and bottom.
    private let insetX, insetY: Double
    private let corners: ImageProcessors.Corners

    /// Creates the rectangle of a whole picture, less an inset on each side, which also makes the radius smaller. The
    /// radius is limited so that the arcs of one side do not overlap, as in CSS.
    init(_ size: PixelSize, radius: Double, corners: ImageProcessors.Corners, inset: Double = 0) {
        let (width, height) = (Double(size.width), Double(size.height))
        self.size = size
        (insetX, insetY) = (min(inset, width / 2), min(inset, height / 2))
        self.corners = corners
        func limit(_ side: ImageProcessors.Corners, _ length: Double) -> Double {
            corners.isSuperset(of: side) ? length / 2 : length
        }
        let widest = min(limit(.top, width), limit(.bottom, width))
        let highest = min(limit(.left, height), limit(.right, height))
        self.radius = corners.isEmpty ? 0 : max(0, min(radius, widest, highest) - inset)
    }

    /// The columns and rows at each end of the picture, between which all are alike.
    var margin: Int { Int((max(insetX, insetY) + radius).rounded(.up)) }

    /// The columns at both ends of a row; those of the whole row if the ends meet.
    func ends(_ margin: Int) -> [Range<Int>] {
        margin * 2 < size.width ? [0..<margin, size.width - margin..<size.width] : [0..<size.width]
    }

    private static let places: [(ImageProcessors.Corners, isRight: Bool, isBottom: Bool)] = [
        (.topLeft, false, false), (.topRight, true, false), (.bottomLeft, false, true), (.bottomRight, true, true),
    ]

    /// How much of each pixel of a row is inside the rectangle, 0…1.
    func cover(_ y: Int, _ columns: Range<Int>, _ coverage: UnsafeMutablePointer<Float>) {
        let rows = Self.inside(y, insetY, size.height)
        coverage.update(repeating: Float(rows), count: columns.count)
        let edge = Int(insetX.rounded(.up))
        for part in [0..<edge, size.width - edge..<size.width] {
            for x in part.clamped(to: columns) {
                coverage[x - columns.lowerBound] = Float(rows * Self.inside(x, insetX, size.width))
            }
        }
        for (corner, isRight, isBottom) in Self.places where corners.contains(corner) {
            // The distances of a pixel's sides are from the middle of the circle outwards.
            let far = insetY + radius - Double(isBottom ? size.height - 1 - y : y)
            guard radius > 0, far > 0 else { continue }
            // Columns are counted from the corner: before `outer` nothing is inside, from `inner` on everything is.
            let (outer, inner) = (Int(insetX + indent(far - 1)), Int((insetX + indent(far)).rounded(.up)))
            let (clear, arc) =
                isRight
                ? (size.width - outer..<size.width, size.width - inner..<size.width - outer)
                : (0..<outer, outer..<inner)
            let outside = clear.clamped(to: columns)
            (coverage + (outside.lowerBound - columns.lowerBound)).update(repeating: 0, count: outside.count)
            for x in arc.clamped(to: columns) {
                let side = insetX + radius - Double(isRight ? size.width - 1 - x : x)
                let cut = Float(missing((side - 1, side), (far - 1, far)))
                coverage[x - columns.lowerBound] = max(0, coverage[x - columns.lowerBound] - cut)
            }
        }
    }

    private static func inside(_ number: Int, _ inset: Double, _ length: Int) -> Double {
        max(0, min(Double(number) + 1, Double(length) - inset) - max(Double(number), inset))
    }

    private func indent(_ distance: Double) -> Double {
        radius - max(0, radius * radius - max(0, distance) * max(0, distance)).squareRoot()
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

    private func integral(_ x: Double) -> Double {
        let height = max(0, radius * radius - x * x).squareRoot()
        return (x * height + radius * radius * asin(min(1, x / radius))) / 2
    }
}
