/// A point of a picture, as fractions of its width and height: (0, 0) is the top left, (1, 1) the bottom right.
///
/// When a picture is placed in a frame by an anchor, this point of the picture lies on the same point of the frame.
public struct Anchor: Sendable, Hashable {
    /// The horizontal position, from 0 at the left to 1 at the right.
    public let x: Double
    /// The vertical position, from 0 at the top to 1 at the bottom.
    public let y: Double

    /// Creates an anchor. A value outside 0…1 becomes the nearer bound; NaN becomes 0.5.
    public init(x: Double, y: Double) {
        func limited(_ value: Double) -> Double { value.isNaN ? 0.5 : min(max(value, 0), 1) }
        self.x = limited(x)
        self.y = limited(y)
    }

    /// The top left corner, (0, 0).
    public static let topLeft = Anchor(x: 0, y: 0)
    /// The middle of the upper side, (½, 0).
    public static let top = Anchor(x: 0.5, y: 0)
    /// The top right corner, (1, 0).
    public static let topRight = Anchor(x: 1, y: 0)
    /// The middle of the left side, (0, ½).
    public static let left = Anchor(x: 0, y: 0.5)
    /// The middle, (½, ½).
    public static let center = Anchor(x: 0.5, y: 0.5)
    /// The middle of the right side, (1, ½).
    public static let right = Anchor(x: 1, y: 0.5)
    /// The bottom left corner, (0, 1).
    public static let bottomLeft = Anchor(x: 0, y: 1)
    /// The middle of the lower side, (½, 1).
    public static let bottom = Anchor(x: 0.5, y: 1)
    /// The bottom right corner, (1, 1).
    public static let bottomRight = Anchor(x: 1, y: 1)

    /// The identifier, for example `0.5:0.0`.
    var identifier: String { "\(x):\(y)" }

    /// Returns the position of the inner rectangle's top left in the outer rectangle, in pixels; below 0 if the inner
    /// one is larger.
    func offset(of inner: PixelSize, in outer: PixelSize) -> (x: Int, y: Int) {
        func offset(_ room: Int, _ part: Double) -> Int { Int((Double(room) * part).rounded(.down)) }
        return (offset(outer.width - inner.width, x), offset(outer.height - inner.height, y))
    }
}
