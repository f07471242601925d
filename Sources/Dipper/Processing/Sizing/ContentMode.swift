/// How a picture is put into a frame of other proportions.
public struct ContentMode: Sendable, Hashable {
    /// What becomes of the picture's size.
    enum Scaling: String, Hashable {
        case original, scaleToFill, aspectFit, aspectFill, unscaled
    }

    let scaling: Scaling
    let anchor: Anchor

    /// The picture as it is: there is no frame.
    public static let original = ContentMode(scaling: .original, anchor: .center)
    /// Stretched to the frame.
    public static let scaleToFill = ContentMode(scaling: .scaleToFill, anchor: .center)
    /// Proportions kept, as large as fits into the frame; background on two sides.
    public static let aspectFit = ContentMode(scaling: .aspectFit, anchor: .center)
    /// Proportions kept, as small as covers the frame; what stands out is cut off.
    public static let aspectFill = ContentMode(scaling: .aspectFill, anchor: .center)

    /// In its own size, in the middle; what stands out is cut off.
    public static let center = unscaled(at: .center)
    /// In its own size, in the middle of the upper side; what stands out is cut off.
    public static let top = unscaled(at: .top)
    /// In its own size, in the middle of the lower side; what stands out is cut off.
    public static let bottom = unscaled(at: .bottom)
    /// In its own size, in the middle of the left side; what stands out is cut off.
    public static let left = unscaled(at: .left)
    /// In its own size, in the middle of the right side; what stands out is cut off.
    public static let right = unscaled(at: .right)
    /// In its own size, in the upper left corner; what stands out is cut off.
    public static let topLeft = unscaled(at: .topLeft)
    /// In its own size, in the upper right corner; what stands out is cut off.
    public static let topRight = unscaled(at: .topRight)
    /// In its own size, in the lower left corner; what stands out is cut off.
    public static let bottomLeft = unscaled(at: .bottomLeft)
    /// In its own size, in the lower right corner; what stands out is cut off.
    public static let bottomRight = unscaled(at: .bottomRight)

    /// In its own size, at any point; what stands out is cut off.
    public static func unscaled(at anchor: Anchor) -> ContentMode { ContentMode(scaling: .unscaled, anchor: anchor) }

    /// The same at another point than the middle: `.aspectFill.at(.top)` cuts off at the bottom alone.
    public func at(_ anchor: Anchor) -> ContentMode { ContentMode(scaling: scaling, anchor: anchor) }

    /// Such as `aspectFit,0.5:0.5`.
    var identifier: String { "\(scaling.rawValue),\(anchor.identifier)" }
}
