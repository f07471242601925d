/// How stored rows and columns are to be turned for display (Exif 2.32, tag 0x0112).
public enum Orientation: Int, Sendable, Hashable, CaseIterable {
    /// The first row is the top, the first column the left side.
    case up = 1
    /// Mirrored left to right.
    case upMirrored
    /// Turned by half a turn.
    case down
    /// Mirrored top to bottom.
    case downMirrored
    /// Mirrored along the diagonal from the top left.
    case leftMirrored
    /// To be turned clockwise by a quarter.
    case right
    /// Mirrored along the diagonal from the top right.
    case rightMirrored
    /// To be turned anticlockwise by a quarter.
    case left

    /// Width and height are exchanged for display.
    public var isTransposing: Bool { rawValue >= 5 }

    /// The size for display of what is stored in a size, and the other way round.
    public func applied(to size: PixelSize) -> PixelSize { isTransposing ? size.transposed : size }
}
