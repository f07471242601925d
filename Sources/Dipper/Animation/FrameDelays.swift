/// How long frames are shown whose files say next to nothing. Decoders tell what the file says.
public enum FrameDelays: Sendable, Hashable {
    /// As in browsers: what is 10 ms or less counts as 100 ms.
    // Such files were made for viewers that could not keep up. The rule is that of Firefox
    // (FrameTimeout::FromRawMilliseconds), WebKit (webkit.org/b/36082) and Chromium
    // (DeferredImageDecoder::FrameDurationAtIndex), for all formats. gdk-pixbuf 2.42 shows 0 for 100 ms and 10 for 20 ms.
    case browsers
    /// As the file says, but no shorter than this, and no shorter than 1 ms.
    case atLeast(Duration)

    /// Longer ones would leave the range of clocks.
    private static let longest = Duration.seconds(1_000_000)

    /// How long a frame is shown.
    func delay(of duration: Duration) -> Duration {
        switch self {
        case .browsers: duration <= .milliseconds(10) ? .milliseconds(100) : min(duration, Self.longest)
        case .atLeast(let least): min(max(duration, least, .milliseconds(1)), Self.longest)
        }
    }
}
