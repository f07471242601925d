import Dipper
import Dispatch
import Synchronization
import TestSupport

/// A display that records what it is told to show.
final class RecordingDisplay: ImageDisplay, Sendable {
    private let log = Mutex<[String]>([])
    private let last = Mutex<DisplayContent>(.nothing)
    let onShow = Box<(@Sendable (DisplayContent) -> Void)?>(nil)

    /// The recorded contents and transitions, such as `image 6x4, fade`.
    var told: [String] { log.withLock { $0 } }
    var content: DisplayContent { last.withLock { $0 } }
    func forget() { log.withLock { $0 = [] } }

    func show(_ content: DisplayContent, _ transition: ImageTransition) {
        let ending =
            switch transition {
            case .none: ""
            case .fade: ", fade"
            case .flip(let edge, _): ", flip from \(edge)"
            case .slide(let edge, _): ", slide from \(edge)"
            case .custom(let name, _): ", \(name)"
            }
        log.withLock { $0.append(Self.describe(content) + ending) }
        last.withLock { $0 = content }
        onShow.value?(content)
    }

    func showActivity(_ activity: DisplayActivity?) {
        let text =
            activity.map { activity in
                "activity" + (activity.fraction.map { " \(Int($0 * 100)) %" } ?? "")
                    + (activity.isWaiting ? " waiting" : "")
            } ?? "no activity"
        log.withLock { $0.append(text) }
    }

    private static func describe(_ content: DisplayContent) -> String {
        switch content {
        case .nothing: "nothing"
        case .placeholder(let placeholder): "placeholder \(describe(placeholder))"
        case .preview(let image): "preview \(image.size)"
        case .image(let image): "image \(image.size)"
        case .frame(let image): "frame \(image.size)"
        case .failure(let placeholder): "failure \(describe(placeholder))"
        }
    }

    private static func describe(_ placeholder: Placeholder) -> String {
        switch placeholder {
        case .image(let image): "\(image.size)"
        case .color(let color): color.hex
        case .object(let object): "\(object)"
        }
    }
}

/// A display with its binding, on a queue that the test can use.
final class TestDisplay: Sendable {
    let display = RecordingDisplay()
    let queue = DispatchQueue(label: "test.display")
    let binding: ImageBinding
    let ends = Box<[String]>([])

    init(_ cache: ImageCache, options: DisplayOptions = DisplayOptions()) {
        binding = ImageBinding(display, cache: cache, queue: .dispatch(queue), options: options)
    }

    /// Runs a closure on the display's queue, as a program would.
    func perform(_ body: @Sendable (ImageBinding) -> Void) { queue.sync { body(binding) } }

    func set(_ request: ImageRequest?, placeholder: Placeholder? = .color(.black), options: DisplayOptions? = nil) {
        queue.sync {
            binding.setImage(request, placeholder: placeholder, options: options) { [ends] result in
                ends.update { list in
                    switch result {
                    case .success(let response): list.append("\(response.image.size)")
                    case .failure(let error): list.append(error.shortDescription)
                    }
                }
            }
        }
    }

    /// The recorded contents and transitions, after all work already on the queue has run.
    var told: [String] { queue.sync { display.told } }
}
