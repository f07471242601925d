/// An object that shows pictures: a widget, a window, a panel of lamps. What it is to show is for its ``ImageBinding``
/// to decide, which calls it on the display's own queue, one call after the other.
public protocol ImageDisplay: AnyObject {
    /// Shows something in place of what is shown now.
    ///
    /// The frames of an animation come this way too, one at a time, each when it is due.
    /// - Parameters:
    ///   - content: what is to be seen.
    ///   - transition: how it takes the place; a display may do without.
    func show(_ content: DisplayContent, _ transition: ImageTransition)

    /// Shows that the picture is on its way, and how far it has come; or, with `nil`, no longer.
    func showActivity(_ activity: DisplayActivity?)
}

extension ImageDisplay {
    /// Shows nothing of the kind.
    public func showActivity(_ activity: DisplayActivity?) {}
}

/// What a display shows.
public enum DisplayContent: Sendable {
    /// Nothing at all.
    case nothing
    /// What stands for the picture until it is there.
    case placeholder(Placeholder)
    /// A coarse or partial form of the picture, whose bytes are still arriving.
    case preview(Image)
    /// The picture; of one that moves, the first frame.
    case image(Image)
    /// The next frame of a picture that moves.
    case frame(Image)
    /// What stands for a picture that could not be had.
    case failure(Placeholder)

    /// The picture to be drawn, whichever of these it is; `nil` for what is none.
    public var image: Image? {
        switch self {
        case .preview(let image), .image(let image), .frame(let image): image
        case .placeholder(.image(let image)), .failure(.image(let image)): image
        case .nothing, .placeholder, .failure: nil
        }
    }

    /// The colour that stands for the picture, if one does.
    public var color: Color? {
        switch self {
        case .placeholder(.color(let color)), .failure(.color(let color)): color
        default: nil
        }
    }
}

/// Stands for a picture that is not there.
public enum Placeholder: Sendable {
    /// Another picture.
    case image(Image)
    /// An area of one colour.
    case color(Color)
    /// Anything that the display knows how to show, such as a widget of its own.
    case object(any Sendable)
}

/// What is known of a picture on its way.
public struct DisplayActivity: Sendable, Hashable {
    /// How much of it is there, from 0 to 1; `nil` if nobody knows.
    public var fraction: Double?
    /// It waits for the network, or to try again.
    public var isWaiting: Bool

    /// On its way.
    public init(fraction: Double? = nil, isWaiting: Bool = false) {
        self.fraction = fraction
        self.isWaiting = isWaiting
    }
}

/// How a display brings in something new: described, for the display to carry out.
public enum ImageTransition: Sendable, Hashable {
    /// A side of the display.
    public enum Edge: String, Sendable, Hashable, CaseIterable { case left, right, top, bottom }

    /// At once.
    case none
    /// The old fades out as the new fades in.
    case fade(Duration)
    /// The display turns over like a card, beginning at an edge.
    case flip(from: Edge, Duration)
    /// The new comes in over an edge.
    case slide(from: Edge, Duration)
    /// One that the display knows by a name.
    case custom(String, Duration)

    /// How long it takes.
    public var duration: Duration {
        switch self {
        case .none: .zero
        case .fade(let duration), .flip(_, let duration), .slide(_, let duration), .custom(_, let duration): duration
        }
    }
}
