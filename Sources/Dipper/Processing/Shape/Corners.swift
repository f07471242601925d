/// A set of corners of a picture.
public struct Corners: OptionSet, Sendable, Hashable {
    /// A bit for each corner.
    public let rawValue: Int

    /// Creates a set from the four lowest bits. Other bits are left out.
    public init(rawValue: Int) {
        self.rawValue = rawValue & 15
    }

    /// The top left corner.
    public static let topLeft = Corners(rawValue: 1)
    /// The top right corner.
    public static let topRight = Corners(rawValue: 2)
    /// The bottom left corner.
    public static let bottomLeft = Corners(rawValue: 4)
    /// The bottom right corner.
    public static let bottomRight = Corners(rawValue: 8)
    /// The two upper corners.
    public static let top: Corners = [.topLeft, .topRight]
    /// The two lower corners.
    public static let bottom: Corners = [.bottomLeft, .bottomRight]
    /// The two corners on the left.
    public static let left: Corners = [.topLeft, .bottomLeft]
    /// The two corners on the right.
    public static let right: Corners = [.topRight, .bottomRight]
    /// All four corners.
    public static let all: Corners = [.top, .bottom]
}
