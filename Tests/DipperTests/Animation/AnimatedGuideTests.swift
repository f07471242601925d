import Testing

@testable import Dipper

@Suite("The code of the guide to animations", .timeLimit(.minutes(2)))
struct AnimatedGuideTests {
    @Test("players show frames, and say how far they are")
    func playing() async throws {
        let film = Film([.milliseconds(11), .milliseconds(12), .milliseconds(13)], loopCount: 1)
        let view = Stage()
        let player = AnimationGuide.playing(try film.image(), view, Loop())
        let other = AnimatedImage(try film.image())
        await AnimationGuide.stream(other, view)
        #expect(other.state == .finished && !view.images.isEmpty)
        AnimationGuide.shortOfMemory(player)
        #expect([.paused, .finished].contains(player.state))
        player.stop()
        player.start()
        AnimationGuide.offScreen(player)
        #expect(player.state != .paused)

        let hooked = Stage()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        let loops = AnimationGuide.hooks(try film.image(), hooked).onFinish { end.yield() }
        for await _ in ends { break }
        #expect(loops.state == .finished)
        // A queue that comes late is told only the newest of what came meanwhile.
        #expect(hooked.texts.first == "hidden" && hooked.texts.suffix(2) == ["3 of 3", "finished"])
    }

    @Test("options and the example of a test of one's own do what they say")
    func testing() async throws {
        #expect(AnimationGuide.delays().delays.delay(of: .zero) == .milliseconds(20))
        #expect(AnimationGuide.processors().processors.count == 1)
        let film = Film([.zero, .zero, .zero, .zero])
        let view = Stage()
        let player = try await AnimationGuide.testing(film.image(), view)
        for await _ in player.frames where player.currentIndex == 1 { break }
        #expect(player.currentIndex == 1 && !view.images.isEmpty)
    }
}
