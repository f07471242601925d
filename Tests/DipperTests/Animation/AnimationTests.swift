import TestSupport

#if GIF
    import Dipper
    import Foundation
    import Synchronization
    import Testing

    @Suite("Pictures that move", .timeLimit(.minutes(5)))
    struct AnimationTests {
        private let registry = CodecRegistry.standard

        private func moving(_ options: DecodeOptions = .init(), _ name: String = "mixed") throws -> Image {
            try registry.decode(Pictures.data("gif/\(name).gif"), options)
        }

        @Test("the other frames are decoded when they are asked for, and again from the first")
        func onDemand() throws {
            let image = try moving()
            let animation = try #require(image.animation)
            #expect(animation.preloaded == nil)
            let decoder = try animation.makeFrameDecoder()
            let first = try #require(try decoder.next())
            #expect(first.image.pixels == image.pixels)
            let rest = try decoder.rest()
            #expect(rest.count == 5)
            #expect(try decoder.next() == nil)
            try decoder.rewind()
            let again = try decoder.rest()
            #expect(again.map(\.image.pixels) == ([first] + rest).map(\.image.pixels))
            // In the middle too, when frames are still to be taken away.
            try decoder.rewind()
            _ = try decoder.next()
            _ = try decoder.next()
            try decoder.rewind()
            #expect(try decoder.next()?.image.pixels == image.pixels)
        }

        @Test("two decoders of one animation do not disturb each other")
        func twoDecoders() throws {
            let animation = try #require(try moving().animation)
            let (one, two) = (try animation.makeFrameDecoder(), try animation.makeFrameDecoder())
            _ = try one.next()
            _ = try one.next()
            #expect(try two.next()?.image.pixels == moving().pixels)
        }

        @Test("a picture of one frame does not move")
        func still() throws {
            #expect(try moving(.init(), "still").animation == nil)
            #expect(try GIFDecoder().frames(of: Pictures.data("gif/still.gif"), .init()) == nil)
        }

        @Test("the other frames are left out where only the first is wanted")
        func firstOnly() throws {
            var options = DecodeOptions()
            options.firstFrameOnly = true
            let image = try moving(options)
            #expect(image.animation == nil)
            #expect(try image.pixels == moving().pixels)
        }

        @Test("all frames are decoded at once where that is asked for, and count in bytes")
        func preloaded() throws {
            var options = DecodeOptions()
            options.preloadsFrames = true
            let image = try moving(options)
            let animation = try #require(image.animation)
            let frames = try #require(animation.preloaded)
            #expect(frames.count == 6)
            for (index, frame) in frames.enumerated() {
                #expect(try Difference(frame.image, Golden("gif/mixed.\(index).rgba")).largest == 0)
            }
            let file = try Pictures.data("gif/mixed.gif").count
            #expect(animation.byteCount == file + 5 * 4800)
            #expect(try moving().byteCount == file + 4800)
        }

        @Test("frames that would take more memory than allowed are not decoded ahead, and that is no error")
        func tooLargeToPreload() throws {
            var options = DecodeOptions()
            options.preloadsFrames = true
            options.limits.bytes = 6 * 4800 - 1
            let animation = try #require(try moving(options).animation)
            #expect(animation.preloaded == nil)
            #expect(try animation.makeFrameDecoder().rest().count == 6)
        }

        @Test("every frame gets the size that is wanted")
        func resized() throws {
            var options = DecodeOptions(target: TargetSize(PixelSize(width: 20, height: 20)))
            options.scale = 2
            let image = try moving(options)
            #expect(image.size == PixelSize(width: 20, height: 15))
            let frames = try #require(image.animation).makeFrameDecoder().rest()
            #expect(frames.count == 6)
            #expect(frames.allSatisfy { $0.image.size == image.size && $0.image.scale == 2 })
        }

        @Test("frames can be decoded after the picture's own decode was cancelled")
        func afterCancel() throws {
            let flag = Flag()
            var options = DecodeOptions()
            options.isCancelled = { flag.isUp.load(ordering: .relaxed) }
            let image = try moving(options)
            flag.isUp.store(true, ordering: .relaxed)
            expectError(.cancelled) { _ = try moving(options) }
            #expect(try #require(image.animation).makeFrameDecoder().rest().count == 6)
        }

        @Test("decoding ahead ends when it is cancelled")
        func cancelledPreloading() throws {
            var options = DecodeOptions.cancelled(after: 8)
            options.preloadsFrames = true
            expectError(.cancelled) { _ = try moving(options) }
        }

        @Test("a file that ends too early moves with the frames that are there")
        func truncated() throws {
            let data = try Pictures.data("gif/keep.gif")
            var options = DecodeOptions()
            options.preloadsFrames = true
            let image = try registry.decode(data.prefix(data.count - 100), options)
            #expect(image.animation?.frameCount == 3)
            #expect(image.animation?.preloaded?.count == 3)
        }
    }

    private final class Flag: Sendable {
        let isUp = Atomic(false)
    }
#endif
