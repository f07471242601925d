import Foundation

/// The Lanczos kernel of three lobes: sinc(x) · sinc(x / 3) for |x| < 3, from a table.
enum LanczosKernel {
    static let support = 3.0

    private static let steps = 1024
    // Linear interpolation between the steps is within 5 × 10⁻⁷ of the curve.
    private static let table: [Double] = (0...Int(support) * steps + 1).map { step in
        let x = Double(step) / Double(steps)
        if x == 0 { return 1 }
        if x >= support { return 0 }
        let angle = Double.pi * x
        return support * sin(angle) * sin(angle / support) / (angle * angle)
    }

    /// Returns the weight at a distance from the middle.
    static func weight(at distance: Double) -> Double {
        let position = abs(distance) * Double(steps)
        guard position < support * Double(steps) else { return 0 }
        let step = Int(position)
        return table[step] + (table[step + 1] - table[step]) * (position - Double(step))
    }
}
