/// The rule for how long each frame is shown. Decoders report the durations that the file has.
///
/// ```swift
/// let player = AnimatedImage(image, options: AnimationOptions(delays: .atLeast(.milliseconds(20))))
/// ```
public enum FrameDelays: Sendable, Hashable {
    /// The rule of browsers: a duration of 10 ms or less counts as 100 ms.
    // Files with such durations were made for viewers that could not keep up. The rule is that of Firefox
    // (FrameTimeout::FromRawMilliseconds), WebKit (webkit.org/b/36082) and Chromium
    // (DeferredImageDecoder::FrameDurationAtIndex), for all formats. gdk-pixbuf 2.42 shows 0 for 100 ms and 10 for 20
    // ms.
    case browsers
    /// The duration in the file, but at least the given duration and at least 1 ms.
    case atLeast(Duration)

    /// The longest duration that a frame is shown. Longer ones would leave the range of clocks.
    private static let longest = Duration.seconds(1_000_000)

    /// Returns how long a frame is shown whose file has a given duration.
    func delay(of duration: Duration) -> Duration {
        switch self {
        case .browsers: duration <= .milliseconds(10) ? .milliseconds(100) : min(duration, Self.longest)
        case .atLeast(let least): min(max(duration, least, .milliseconds(1)), Self.longest)
        }
    }
}
