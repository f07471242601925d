/// The rotation and mirroring that display a stored picture upright (Exif 2.32, tag 0x0112).
///
/// ```swift
/// if try ImageInfo(bytes).orientation.isTransposing { print("the picture is stored on its side") }
/// ```
public enum Orientation: Int, Sendable, Hashable, CaseIterable {
    /// The first row is the top and the first column is the left side.
    case up = 1
    /// Mirrored left to right.
    case upMirrored
    /// Rotated by 180°.
    case down
    /// Mirrored top to bottom.
    case downMirrored
    /// Mirrored along the diagonal from the top left.
    case leftMirrored
    /// Needs a clockwise rotation by 90°.
    case right
    /// Mirrored along the diagonal from the top right.
    case rightMirrored
    /// Needs an anticlockwise rotation by 90°.
    case left

    /// Whether the orientation exchanges width and height.
    public var isTransposing: Bool { rawValue >= 5 }

    /// Returns the displayed size for a stored size, or the stored size for a displayed one.
    ///
    /// ```swift
    /// let size = Orientation.right.applied(to: PixelSize(width: 4000, height: 3000))       // 3000x4000
    /// ```
    public func applied(to size: PixelSize) -> PixelSize { isTransposing ? size.transposed : size }
}
