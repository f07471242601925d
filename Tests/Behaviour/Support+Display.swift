import Dipper
import DipperTesting
import Dispatch
import TestSupport

/// A display with its binding, on a queue that the test can use.
final class Screen: Sendable {
    let display = RecordingDisplay()
    let queue = DispatchQueue(label: "test.display")
    let binding: ImageBinding
    /// The results of the pictures that were set, as text.
    let ends = Box<[String]>([])

    init(_ cache: ImageCache, options: DisplayOptions = DisplayOptions()) {
        binding = ImageBinding(display, cache: cache, queue: .dispatch(queue), options: options)
    }

    /// Runs a closure on the display's queue, as a program would.
    func perform(_ body: @Sendable (ImageBinding) -> Void) { queue.sync { body(binding) } }

    func set(
        _ request: ImageRequest?, placeholder: DisplayOptions.Placeholder? = .color(.black),
        options: DisplayOptions? = nil
    ) {
        queue.sync {
            binding.setImage(request, placeholder: placeholder, options: options) { [ends] result in
                ends.update { $0.append(result.text) }
            }
        }
    }

    /// The calls of the display as text, after all work already on the queue has run.
    var told: [String] { queue.sync { display.descriptions } }

    /// Waits until the display is told something that begins with a text.
    func waits(for start: String) async throws { try await display.nextEvent { $0.description.hasPrefix(start) } }

    /// Waits until `count` pictures that were set have ended.
    func waits(forEnds count: Int) async throws { try await ends.wait { $0.count >= count } }
}

extension Result<ImageResponse, DipperError> {
    /// The size of the picture, or the short description of the error.
    var text: String {
        switch self {
        case .success(let response): "\(response.image.size)"
        case .failure(let error): error.shortDescription
        }
    }
}
