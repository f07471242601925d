/// Width and height in pixels.
public struct PixelSize: Sendable, Hashable, CustomStringConvertible {
    /// In pixels.
    public var width: Int
    /// In pixels.
    public var height: Int

    /// So many pixels wide and high.
    public init(width: Int, height: Int) {
        self.width = width
        self.height = height
    }

    /// Such as `400x300`.
    public var description: String { "\(width)x\(height)" }

    /// Width and height exchanged.
    var transposed: PixelSize { PixelSize(width: height, height: width) }
    var isEmpty: Bool { width <= 0 || height <= 0 }
}
