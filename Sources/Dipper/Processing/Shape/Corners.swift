/// Some of the four corners of a picture.
public struct Corners: OptionSet, Sendable, Hashable {
    /// A bit for each corner.
    public let rawValue: Int

    /// The four lowest bits, others are left out.
    public init(rawValue: Int) {
        self.rawValue = rawValue & 15
    }

    /// One.
    public static let topLeft = Corners(rawValue: 1)
    /// One.
    public static let topRight = Corners(rawValue: 2)
    /// One.
    public static let bottomLeft = Corners(rawValue: 4)
    /// One.
    public static let bottomRight = Corners(rawValue: 8)
    /// Both above.
    public static let top: Corners = [.topLeft, .topRight]
    /// Both below.
    public static let bottom: Corners = [.bottomLeft, .bottomRight]
    /// Both on the left.
    public static let left: Corners = [.topLeft, .bottomLeft]
    /// Both on the right.
    public static let right: Corners = [.topRight, .bottomRight]
    /// All four.
    public static let all: Corners = [.top, .bottom]
}
