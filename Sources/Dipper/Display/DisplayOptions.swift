/// How an ``ImageBinding`` brings a picture to its display: a value, with a default for everything.
public struct DisplayOptions: Sendable {
    /// What becomes of a fetch whose picture is no longer wanted by the display.
    public enum Abandonment: String, Sendable, Hashable, CaseIterable {
        /// It goes on in `slowQueue`, with what is left of the link: it may be wanted again.
        case moveToSlowQueue
        /// It is cancelled.
        case cancel
    }

    /// How a picture comes in that was not there at once; none.
    public var transition = ImageTransition.none
    /// Uses the transition also for pictures that were in memory.
    public var transitionsAlways = false
    /// Shows what was there until the new picture is, instead of the placeholder.
    public var keepsCurrentImage = false
    /// Shown if the picture cannot be had; `nil` leaves what is shown.
    public var failure: Placeholder?
    /// Reads and decodes a picture that is on disk at once, on the caller's thread: nothing flickers, but the caller
    /// waits.
    public var loadsFromDiskAtOnce = false
    /// Plays pictures that move while the display is on screen.
    public var playsAnimations = true
    /// How they are played. The callback queue is that of the display, whatever is set here.
    public var animation = AnimationOptions()
    /// What becomes of a fetch when the display is given another picture.
    public var abandonment = Abandonment.moveToSlowQueue
    /// Lets go of the picture when the system is short of memory and the display is off screen; it comes back when the
    /// display does.
    public var releasesUnderPressure = true
    /// Fetches, in `slowQueue`, also what is set while the display is off screen.
    public var loadsOffScreen = true

    /// The defaults.
    public init() {}

    /// A copy with one option changed.
    public func with<Value>(_ option: WritableKeyPath<DisplayOptions, Value>, _ value: Value) -> DisplayOptions {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }
}
