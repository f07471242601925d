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
        /// The fetch continues in `slowQueue`, with the bandwidth that urgent calls leave: the picture may be wanted
        /// again.
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
    public var failure: Placeholder?
    /// Whether a picture that is on disk is read and decoded at once, on the caller's thread: nothing flickers, but the
    /// caller waits.
    public var loadsFromDiskAtOnce = false
    /// Whether pictures without processors are decoded in the display's own size (``ImageDisplay/pixelSize``), and how
    /// pictures of other proportions are brought to it; with `nil`, the default, they keep their own size.
    ///
    /// ```swift
    /// binding.setImage(photo.url, options: DisplayOptions().with(\.downsampling, .fill))
    /// ```
    public var downsampling: TargetSize.Mode?
    /// Whether animated pictures play while the display is on screen.
    public var playsAnimations = true
    /// The options with which animated pictures play. The callback queue is that of the display, whatever is set here.
    public var animation = AnimationOptions()
    /// The treatment of a fetch when the display is given another picture.
    public var abandonment = Abandonment.moveToSlowQueue
    /// Whether a display that is off screen releases its picture when the system is short of memory. The picture comes
    /// back when the display does.
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
