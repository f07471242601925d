/// A point of a picture by its part of width and height: (0, 0) is the top left, (1, 1) the bottom right.
///
/// As an anchor it says which point of what is placed comes to lie on the same point of where it is placed.
public struct Anchor: Sendable, Hashable {
    /// From 0 at the left to 1 at the right.
    public let x: Double
    /// From 0 at the top to 1 at the bottom.
    public let y: Double

    /// What is outside 0…1 is brought to the nearer end, and what is no number to the middle.
    public init(x: Double, y: Double) {
        func limited(_ value: Double) -> Double { value.isNaN ? 0.5 : min(max(value, 0), 1) }
        self.x = limited(x)
        self.y = limited(y)
    }

    /// (0, 0).
    public static let topLeft = Anchor(x: 0, y: 0)
    /// (½, 0).
    public static let top = Anchor(x: 0.5, y: 0)
    /// (1, 0).
    public static let topRight = Anchor(x: 1, y: 0)
    /// (0, ½).
    public static let left = Anchor(x: 0, y: 0.5)
    /// (½, ½).
    public static let center = Anchor(x: 0.5, y: 0.5)
    /// (1, ½).
    public static let right = Anchor(x: 1, y: 0.5)
    /// (0, 1).
    public static let bottomLeft = Anchor(x: 0, y: 1)
    /// (½, 1).
    public static let bottom = Anchor(x: 0.5, y: 1)
    /// (1, 1).
    public static let bottomRight = Anchor(x: 1, y: 1)

    /// Such as `0.5:0.0`.
    var identifier: String { "\(x):\(y)" }

    /// Where the top left of something lies in something else, in pixels; below 0 if it is larger.
    func offset(of inner: PixelSize, in outer: PixelSize) -> (x: Int, y: Int) {
        func offset(_ room: Int, _ part: Double) -> Int { Int((Double(room) * part).rounded(.down)) }
        return (offset(outer.width - inner.width, x), offset(outer.height - inner.height, y))
    }
}
