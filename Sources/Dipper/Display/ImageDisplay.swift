/// An object that shows pictures: a widget, a window, a panel of lamps. An ``ImageBinding`` decides what the display
/// shows, and calls it on the display's own queue, one call after the other.
///
/// ```swift
/// final class PhotoView: ImageDisplay {
///     var picture: Image?
///     var background = Color.clear
///     func show(_ content: DisplayContent, _ transition: ImageTransition) {
///         picture = content.image
///         background = content.color ?? .clear
///     }
/// }
/// ```
public protocol ImageDisplay: AnyObject {
    /// Shows new content in place of the present content. A display may ignore the transition. The frames of an
    /// animation come by this method too, each when it is due.
    func show(_ content: DisplayContent, _ transition: ImageTransition)

    /// Shows that a picture is being loaded, and how much of it is there; `nil` if no picture is being loaded.
    ///
    /// ```swift
    /// func showActivity(_ activity: DisplayActivity?) {
    ///     guard let activity else { return bar.hide() }           // nothing is loading
    ///     bar.set(activity.progress?.fraction ?? 0)
    /// }
    /// ```
    func showActivity(_ activity: DisplayActivity?)

    /// The size in pixels in which the display draws its picture; `nil`, the default, if it does not know. With
    /// ``DisplayOptions/downsampling``, a size without pixels makes a picture fail with `DipperError.processingFailed`:
    /// set the picture after the layout.
    var pixelSize: PixelSize? { get }
}

extension ImageDisplay {
    /// Does nothing.
    public func showActivity(_ activity: DisplayActivity?) {}
    /// `nil`: the display does not know its size.
    public var pixelSize: PixelSize? { nil }
}

/// The content of a display.
public enum DisplayContent: Sendable {
    /// No content.
    case nothing
    /// The placeholder that is shown until the picture is there.
    case placeholder(DisplayOptions.Placeholder)
    /// A coarse or partial form of the picture, whose bytes are still arriving.
    case preview(Image)
    /// The picture; for an animated picture, the first frame.
    case image(Image)
    /// The next frame of an animated picture, of an animated placeholder, or of animated content after a failure.
    case frame(Image)
    /// The content that is shown because the picture could not be loaded.
    case failure(DisplayOptions.Placeholder)

    /// The picture to draw, in all cases that have one; otherwise `nil`.
    public var image: Image? {
        switch self {
        case .preview(let image), .image(let image), .frame(let image): image
        case .placeholder(.image(let image)), .failure(.image(let image)): image
        case .nothing, .placeholder, .failure: nil
        }
    }

    /// The colour of a placeholder or a failure; `nil` if the content has none.
    public var color: Color? {
        switch self {
        case .placeholder(.color(let color)), .failure(.color(let color)): color
        default: nil
        }
    }
}

extension DisplayOptions {
    /// The content that is shown in place of a picture.
    ///
    /// ```swift
    /// let icon = DisplayOptions.Placeholder.object("image-missing")      // the name of an icon, which the display knows how to show
    /// let options = DisplayOptions().with(\.failure, icon)
    /// binding.setImage(url, placeholder: .image(image), options: options)
    /// ```
    public enum Placeholder: Sendable {
        /// Another picture, which plays if it is animated.
        case image(Image)
        /// An area of one colour.
        case color(Color)
        /// Anything that the display knows how to show, such as a widget of its own.
        case object(any Sendable)
    }
}

extension DisplayOptions.Placeholder {
    /// Returns the picture of a ThumbHash as a placeholder, decoded at once; `nil` if the text is no
    /// ThumbHash. See ``Image/init(thumbHash:)``.
    ///
    /// ```swift
    /// binding.setImage(url, placeholder: .thumbHash("1QcSHQRnh493V4dIh4eXh1h4kJUI"))
    /// ```
    public static func thumbHash(_ base64: String) -> Self? { Image(thumbHash: base64).map { .image($0) } }

    /// Returns the picture of a BlurHash as a placeholder, decoded at once; `nil` if the text is no BlurHash. See
    /// ``Image/init(blurHash:for:)``.
    ///
    /// ```swift
    /// let size = PixelSize(width: 1600, height: 1200)            // of the picture that will come
    /// binding.setImage(url, placeholder: .blurHash("LEHV6nWB2yk8pyo0adR*.7kCMdnj", for: size))
    /// ```
    public static func blurHash(_ text: String, for size: PixelSize = PixelSize(width: 1, height: 1)) -> Self? {
        Image(blurHash: text, for: size).map { .image($0) }
    }
}

/// The progress of a picture that is being loaded.
public struct DisplayActivity: Sendable, Hashable {
    /// The bytes that are there; `nil` as long as the length of the file is not known.
    public var progress: TaskProgress?
    /// Whether the picture waits for the network, or to try again.
    public var isWaiting: Bool

    /// Creates the activity of a picture that is being loaded.
    public init(progress: TaskProgress? = nil, isWaiting: Bool = false) {
        self.progress = progress
        self.isWaiting = isWaiting
    }

    /// The part of the file that is there, from 0 to 1; zero as long as the length is not known.
    public var fraction: Double { progress?.fraction ?? 0 }
}

/// The way in which a display replaces its content.
public enum ImageTransition: Sendable, Hashable {
    /// A side of the display.
    public enum Edge: String, Sendable, Hashable, CaseIterable { case left, right, top, bottom }

    /// The new content appears at once.
    case none
    /// The old content fades out while the new content fades in.
    case fade(Duration)
    /// The display turns over like a card, beginning at an edge.
    case flip(from: Edge, Duration)
    /// The new content moves in over an edge.
    case slide(from: Edge, Duration)
    /// A transition that the display knows by a name.
    case custom(String, Duration)

    public var duration: Duration {
        switch self {
        case .none: .zero
        case .fade(let duration), .flip(_, let duration), .slide(_, let duration), .custom(_, let duration): duration
        }
    }
}

/// The options with which an ``ImageBinding`` brings a picture to its display. Every option has a default.
///
/// ```swift
/// let options = DisplayOptions()
///     .with(\.transition, .fade(.milliseconds(200)))
///     .with(\.failure, .color(Color(hex: 0xc03030)))
///     .with(\.keepsCurrentImage, true)
/// binding.setImage(url, options: options)
/// ```
public struct DisplayOptions: Sendable {
    /// The treatment of a fetch whose picture the display no longer wants.
    public enum Abandonment: String, Sendable, Hashable, CaseIterable {
        /// The fetch continues in `slowQueue`: the picture may be wanted again.
        case moveToSlowQueue
        /// The fetch is cancelled.
        case cancel
    }

    /// The transition to a picture that was not in memory; none by default.
    public var transition = ImageTransition.none
    /// Whether the transition is also used for pictures that were in memory.
    public var transitionsAlways = false
    /// Whether the display keeps its current picture, in place of the placeholder, until the new picture is there.
    public var keepsCurrentImage = false
    /// The content that is shown if the picture cannot be loaded; with `nil` the display keeps what it shows.
    public var failure: DisplayOptions.Placeholder?
    /// Whether a picture on disk is read and decoded at once, on the caller's thread, so that nothing flickers.
    public var loadsFromDiskAtOnce = false
    /// Whether pictures without processors are decoded in the display's own size (``ImageDisplay/pixelSize``), and how
    /// pictures of other proportions are brought to it; with `nil`, the default, they keep their own size.
    public var downsampling: TargetSize.Mode?
    /// Whether animated pictures play while the display is on screen.
    public var playsAnimations = true
    /// The options with which animated pictures play. The callback queue is that of the display, whatever is set here.
    public var animation = AnimationOptions()
    /// The treatment of a fetch when the display is given another picture.
    public var abandonment = Abandonment.moveToSlowQueue
    /// Whether a display that is off screen releases its picture, until it is back, when the system is short of memory.
    public var releasesUnderPressure = true
    /// Whether a picture that is set while the display is off screen is fetched, in `slowQueue`.
    public var loadsOffScreen = true

    /// Creates the default options.
    public init() {}

    /// Returns a copy of the options with one option changed.
    public func with<Value>(_ option: WritableKeyPath<DisplayOptions, Value>, _ value: Value) -> DisplayOptions {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }
}
