import Dipper

/// A display that records what it is told to show.
///
/// The record keeps the pictures in memory until ``forget()``.
///
/// ```swift
/// let display = RecordingDisplay()
/// let binding = ImageBinding(display, cache: cache, queue: .inPlace)
/// binding.setImage(url, placeholder: .color(.black))
/// #expect(display.descriptions == ["placeholder 000000ff", "activity"])
/// try await transport.nextTransfer().finish(with: try picture.png)
/// #expect(try await display.nextImage().size == picture.size)
/// ```
public final class RecordingDisplay: ImageDisplay, Sendable {
    /// A call of the display.
    public enum Event: Sendable, CustomStringConvertible {
        /// New content, and the transition to it.
        case content(DisplayContent, ImageTransition)
        /// The progress of a picture that is being loaded; `nil` if no picture is being loaded any more.
        case activity(DisplayActivity?)

        /// The event as text: `placeholder 000000ff`, `preview 16x12`, `image 16x12, fade`, `frame 16x12`,
        /// `failure ffffffff`, `nothing`, `activity 25 % waiting`, `no activity`.
        public var description: String {
            switch self {
            case .content(let content, let transition): Self.text(content) + Self.text(transition)
            case .activity(nil): "no activity"
            case .activity(let activity?):
                "activity" + (activity.progress.map { " \(Int($0.fraction * 100)) %" } ?? "")
                    + (activity.isWaiting ? " waiting" : "")
            }
        }

        private static func text(_ content: DisplayContent) -> String {
            switch content {
            case .nothing: "nothing"
            case .placeholder(let placeholder): "placeholder \(text(placeholder))"
            case .preview(let image): "preview \(image.size)"
            case .image(let image): "image \(image.size)"
            case .frame(let image): "frame \(image.size)"
            case .failure(let placeholder): "failure \(text(placeholder))"
            }
        }

        private static func text(_ placeholder: DisplayOptions.Placeholder) -> String {
            switch placeholder {
            case .image(let image): "\(image.size)"
            case .color(let color): color.hex
            case .object(let object): "\(object)"
            }
        }

        private static func text(_ transition: ImageTransition) -> String {
            switch transition {
            case .none: ""
            case .fade: ", fade"
            case .flip(let edge, _): ", flip from \(edge)"
            case .slide(let edge, _): ", slide from \(edge)"
            case .custom(let name, _): ", \(name)"
            }
        }
    }

    private struct State {
        var events: [Event] = []
        var taken = 0
        var content = DisplayContent.nothing
        var onShow: (@Sendable (DisplayContent) -> Void)?
    }

    private let state = WatchedState(State())

    /// Creates a display that shows nothing.
    public init() {}

    /// The calls of the display so far, in order.
    public var events: [Event] { state.value.events }
    /// The calls of the display so far, in order, as text.
    public var descriptions: [String] { events.map(\.description) }
    /// The content that the display shows now.
    public var content: DisplayContent { state.value.content }

    /// Clears the record, and releases the pictures in it. The display keeps its content.
    public func forget() {
        // The pictures are released after the lock.
        _ = state.update { state in
            state.taken = 0
            return exchange(&state.events, with: [])
        }
    }

    /// Sets a closure that is called in place with each new content, to test code that reacts to it.
    public func onShow(_ react: @escaping @Sendable (DisplayContent) -> Void) {
        _ = state.update { exchange(&$0.onShow, with: react) }
    }

    /// Returns the next event that meets a condition, and waits for it if it is not recorded yet. Each call continues
    /// after the event that the call before has returned. One task at a time may wait.
    @discardableResult
    public func nextEvent(
        within limit: Duration = WaitTimeout.standard, where isWanted: @Sendable (Event) -> Bool = { _ in true }
    ) async throws -> Event {
        while true {
            let next = state.update { state -> Event? in
                guard state.taken < state.events.count else { return nil }
                state.taken += 1
                return state.events[state.taken - 1]
            }
            if let next {
                if isWanted(next) { return next }
            } else {
                try await state.wait(within: limit, until: { $0.taken < $0.events.count }) {
                    "the display was told nothing more after \($0.events.map(\.description))"
                }
            }
        }
    }

    /// Returns the next picture that is shown, as ``nextEvent(within:where:)`` does the next event. Placeholders,
    /// previews and the later frames of an animation are skipped.
    @discardableResult
    public func nextImage(within limit: Duration = WaitTimeout.standard) async throws -> Image {
        while true {
            if case .content(.image(let image), _) = try await nextEvent(within: limit) { return image }
        }
    }

    public func show(_ content: DisplayContent, _ transition: ImageTransition) {
        let (old, onShow) = state.update { state in
            state.events.append(.content(content, transition))
            return (exchange(&state.content, with: content), state.onShow)
        }
        // The old content is released after the lock.
        withExtendedLifetime(old) {}
        onShow?(content)
    }

    public func showActivity(_ activity: DisplayActivity?) {
        state.update { $0.events.append(.activity(activity)) }
    }
}
