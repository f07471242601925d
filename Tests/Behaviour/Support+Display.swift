import Dipper
import DipperTesting
import Dispatch
import TestSupport

/// A display with its binding, on a queue that the test can use.
final class Screen: Sendable {
    let display = RecordingDisplay()
    let queue = DispatchQueue(label: "test.display")
    let binding: ImageBinding
    let ends = Box<[String]>([])

    init(_ cache: ImageCache, options: DisplayOptions = DisplayOptions()) {
        binding = ImageBinding(display, cache: cache, queue: .dispatch(queue), options: options)
    }

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

    func waits(for start: String) async throws { try await display.nextEvent { $0.description.hasPrefix(start) } }

    func waits(forEnds count: Int) async throws { try await ends.wait { $0.count >= count } }
}

extension Result<ImageResponse, DipperError> {
    var text: String {
        switch self {
        case .success(let response): "\(response.image.size)"
        case .failure(let error): error.shortDescription
        }
    }
}
