extension ImageProcessors.Fitting {
    /// A way to put a picture into a frame of other proportions.
    public struct ContentMode: Sendable, Hashable {
        /// The change of the picture's size.
        enum Scaling: String, Hashable {
            case original, scaleToFill, aspectFit, aspectFill, unscaled
        }

        let scaling: Scaling
        let anchor: Anchor

        /// No frame: the picture stays as it is.
        public static let original = ContentMode(scaling: .original, anchor: .center)
        /// The picture stretched to the frame.
        public static let scaleToFill = ContentMode(scaling: .scaleToFill, anchor: .center)
        /// The picture with its proportions kept, as large as fits into the frame, with background on two sides.
        public static let aspectFit = ContentMode(scaling: .aspectFit, anchor: .center)
        /// The picture with its proportions kept, as small as covers the frame. Parts outside the frame are cut off.
        public static let aspectFill = ContentMode(scaling: .aspectFill, anchor: .center)

        /// The picture in its own size, in the middle of the frame. Parts outside the frame are cut off.
        public static let center = unscaled(at: .center)
        /// The picture in its own size, in the middle of the upper side. Parts outside the frame are cut off.
        public static let top = unscaled(at: .top)
        /// The picture in its own size, in the middle of the lower side. Parts outside the frame are cut off.
        public static let bottom = unscaled(at: .bottom)
        /// The picture in its own size, in the middle of the left side. Parts outside the frame are cut off.
        public static let left = unscaled(at: .left)
        /// The picture in its own size, in the middle of the right side. Parts outside the frame are cut off.
        public static let right = unscaled(at: .right)
        /// The picture in its own size, in the upper left corner. Parts outside the frame are cut off.
        public static let topLeft = unscaled(at: .topLeft)
        /// The picture in its own size, in the upper right corner. Parts outside the frame are cut off.
        public static let topRight = unscaled(at: .topRight)
        /// The picture in its own size, in the lower left corner. Parts outside the frame are cut off.
        public static let bottomLeft = unscaled(at: .bottomLeft)
        /// The picture in its own size, in the lower right corner. Parts outside the frame are cut off.
        public static let bottomRight = unscaled(at: .bottomRight)

        /// Returns a mode that keeps the picture's own size and places the picture by an anchor. Parts outside the
        /// frame are cut off.
        public static func unscaled(at anchor: Anchor) -> Self { Self(scaling: .unscaled, anchor: anchor) }

        /// Returns the mode with another anchor than the middle. For example, `.aspectFill.at(.top)` cuts off only the
        /// bottom of a picture that is too high.
        public func at(_ anchor: Anchor) -> Self { Self(scaling: scaling, anchor: anchor) }

        /// The identifier, for example `aspectFit,0.5:0.5`.
        var identifier: String { "\(scaling.rawValue),\(anchor.identifier)" }
    }
}
