/// A width and a height in pixels.
///
/// ```swift
/// let size = PixelSize(width: 400, height: 300)
/// print(size)                         // 400x300
/// ```
public struct PixelSize: Sendable, Hashable, CustomStringConvertible {
    /// The width in pixels.
    public var width: Int
    /// The height in pixels.
    public var height: Int

    /// Creates a size from a width and a height in pixels.
    public init(width: Int, height: Int) {
        self.width = width
        self.height = height
    }

    /// The size as text, for example `400x300`.
    public var description: String { "\(width)x\(height)" }

    /// The size with width and height exchanged.
    var transposed: PixelSize { PixelSize(width: height, height: width) }
    var isEmpty: Bool { width <= 0 || height <= 0 }
}
