import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A recording display", .timeLimit(.minutes(5)))
struct RecordingDisplayTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let small = Image.sample(3, 2)

    @Test("records its calls in order, and knows what it shows")
    func record() {
        let display = RecordingDisplay()
        display.show(.placeholder(.color(.black)), .none)
        display.showActivity(DisplayActivity())
        display.showActivity(DisplayActivity(fraction: 0.25, isWaiting: true))
        display.show(.preview(small), .none)
        display.showActivity(nil)
        display.show(.image(picture), .fade(.milliseconds(200)))
        display.show(.frame(small), .slide(from: .left, .seconds(1)))
        display.show(.failure(.object("a broken frame")), .flip(from: .top, .seconds(1)))
        display.show(.nothing, .custom("curtain", .seconds(1)))
        display.show(.placeholder(.image(small)), .none)
        #expect(
            display.descriptions == [
                "placeholder 000000ff", "activity", "activity 25 % waiting", "preview 3x2", "no activity",
                "image 16x12, fade", "frame 3x2, slide from left", "failure a broken frame, flip from top",
                "nothing, curtain", "placeholder 3x2",
            ])
        #expect(display.content.image?.size == small.size)
        guard case .content(.image(let image), .fade(.milliseconds(200))) = display.events[5] else {
            Issue.record("Event 5 is the picture with its transition.")
            return
        }
        #expect(image.storage === picture.storage)
        display.forget()
        #expect(display.events.isEmpty && display.content.image?.size == small.size)
    }

    @Test("returns its pictures one after the other, those that were shown before and those that come later")
    func images() async throws {
        let display = RecordingDisplay()
        display.show(.image(picture), .none)
        display.show(.preview(picture), .none)
        display.show(.image(small), .none)
        #expect(try await display.nextImage().size == picture.size)
        #expect(try await display.nextImage().size == small.size)
        async let next = display.nextImage()
        display.show(.frame(small), .none)
        display.show(.image(picture), .none)
        #expect(try await next.size == picture.size)
    }

    @Test("returns the next event that meets a condition, and goes on behind it")
    func events() async throws {
        let display = RecordingDisplay()
        for fraction in [0.2, 0.4, 0.6] { display.showActivity(DisplayActivity(fraction: fraction)) }
        #expect(try await display.nextEvent { "\($0)".contains("40") }.description == "activity 40 %")
        #expect(try await display.nextEvent().description == "activity 60 %")
        display.showActivity(nil)
        display.forget()
        display.show(.nothing, .none)
        #expect(try await display.nextEvent().description == "nothing")
    }

    @Test("ends the wait of a task that is cancelled")
    func cancelled() async {
        let display = RecordingDisplay()
        let task = Task { try await display.nextImage() }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test("calls a closure with each content, in place")
    func reaction() {
        let display = RecordingDisplay()
        display.onShow { [weak display] content in
            if case .image = content { display?.showActivity(nil) }
        }
        display.show(.preview(small), .none)
        display.show(.image(small), .none)
        #expect(display.descriptions == ["preview 3x2", "image 3x2", "no activity"])
    }

    @Test("shows what a binding brings: the placeholder, the picture, a failure")
    func binding() async throws {
        let test = TestImageCache()
        let display = RecordingDisplay()
        let options = DisplayOptions().with(\.failure, .color(.white))
        let binding = ImageBinding(display, cache: test.cache, queue: .inPlace, options: options)
        binding.setImage(a, placeholder: .color(.black))
        #expect(display.descriptions == ["placeholder 000000ff", "activity"])
        try await test.transport.nextTransfer().finish(with: try picture.png)
        #expect(try await display.nextImage().pixels == picture.pixels)
        binding.setImage(url("b.png"))
        try await test.transport.nextTransfer().finish(with: Data(), status: 404)
        try await display.nextEvent { $0.description == "failure ffffffff" }
        #expect(display.content.color == .white)
        withExtendedLifetime(binding) {}
        await test.cache.shutdown()
    }
}
