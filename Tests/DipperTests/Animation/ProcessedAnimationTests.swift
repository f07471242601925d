import TestSupport

#if GIF
    import Foundation
    import Testing

    @testable import Dipper

    @Suite("Pictures that move, processed", .timeLimit(.minutes(5)))
    struct ProcessedAnimationTests {
        private let chain = ImageProcessors.Crop(width: 20, height: 16) |> .blur(1) |> .roundedCorners(radius: 5)

        private func moving(_ options: DecodeOptions = .init()) throws -> Image {
            try CodecRegistry.standard.decode(Pictures.data("gif/mixed.gif"), options)
        }

        private func expected(_ chain: ImageProcessors.Chain, _ options: DecodeOptions = .init()) throws -> [[UInt8]] {
            let frames = try #require(try moving(options).animation).makeFrameDecoder().rest()
            return try frames.map { try chain.process($0.image, .init()).pixels }
        }

        @Test("every frame is processed like the first, when it is asked for")
        func frames() throws {
            let image = try moving()
            let result = try chain.process(image, .init())
            let animation = try #require(result.animation)
            #expect(animation.preloaded == nil && animation.frameCount == 6)
            #expect(animation.loopCount == image.animation?.loopCount)
            #expect(animation.byteCount == image.animation?.byteCount)
            #expect(result.byteCount == animation.byteCount + 20 * 16 * 4)
            let frames = try animation.makeFrameDecoder()
            let all = try frames.rest()
            #expect(all.map(\.image.pixels) == (try expected(chain)))
            #expect(all.first?.image.pixels == result.pixels && all.allSatisfy { $0.image.size == result.size })
            let durations = try #require(image.animation).makeFrameDecoder().rest().map(\.duration)
            #expect(all.map(\.duration) == durations)
            try frames.rewind()
            #expect(try frames.next()?.image.pixels == result.pixels)
        }

        @Test("frames that were decoded ahead are processed ahead, and count in bytes")
        func preloaded() throws {
            var options = DecodeOptions()
            options.preloadsFrames = true
            let animation = try #require(try chain.process(moving(options), .init()).animation)
            let frames = try #require(animation.preloaded)
            #expect(frames.map(\.image.pixels) == (try expected(chain)))
            #expect(animation.byteCount == (try Pictures.data("gif/mixed.gif").count) + 5 * 20 * 16 * 4)
            #expect(try animation.makeFrameDecoder().rest().count == 6)
        }

        @Test("where they would take more memory than allowed, they are decoded again when they are asked for")
        func tooLarge() throws {
            var options = DecodeOptions()
            options.preloadsFrames = true
            let larger = ImageProcessors.Chain([.scale(by: 3)])
            var context = ProcessingContext()
            context.limits.bytes = 6 * 4800 * 9 - 1
            let animation = try #require(try larger.process(moving(options), context).animation)
            #expect(animation.preloaded == nil)
            #expect(try animation.makeFrameDecoder().rest().map(\.image.pixels) == expected(larger))
        }

        @Test(
            "frames have the scale that the picture had, so that points mean the same in all", arguments: [false, true])
        func scale(preloads: Bool) throws {
            var options = DecodeOptions()
            options.preloadsFrames = preloads
            var image = try moving(options)
            image.scale = 2
            var result = try ImageProcessors.Chain([.roundedCorners(radius: .points(4))]).process(image, .init())
            let frames = try #require(result.animation).frames()
            #expect(frames.map(\.image.pixels) == (try expected(ImageProcessors.Chain([.roundedCorners(radius: 8)]))))
            #expect(frames.first?.image.pixels == result.pixels && frames.allSatisfy { $0.image.scale == 2 })
            // A second chain has a scale of its own.
            result.scale = 3
            let second = try ImageProcessors.Chain([.border(.black, width: .points(1))]).process(result, .init())
            let both = try #require(second.animation).frames()
            let chain = ImageProcessors.RoundedCorners(radius: 8) |> .border(.black, width: 3)
            #expect(both.map(\.image.pixels) == (try expected(chain)) && both.allSatisfy { $0.image.scale == 3 })
        }

        @Test("frames are processed within the limits, and no longer than they are wanted")
        func context() throws {
            var options = DecodeOptions()
            options.limits.frames = 77
            let seen = Box<[DecodeLimits]>([])
            let noting = ImageProcessors.Custom("noting") { image, context throws(DipperError) in
                seen.update { $0.append(context.limits) }
                try context.checkCancelled()
                return image
            }
            let chain = ImageProcessors.Chain([noting])
            let animation = try #require(
                try chain.process(moving(options), ProcessingContext(limits: options.limits)).animation)
            let isOver = Box(false)
            let frames = try animation.makeFrameDecoder(isCancelled: { isOver.value })
            _ = try frames.next()
            #expect(seen.value == [options.limits, options.limits])
            isOver.update { $0 = true }
            #expect(throws: DipperError.cancelled) { _ = try frames.next() }
        }

        @Test("one chain behind another, and one whose size was decoded to")
        func chains() throws {
            let target = ImageProcessors.Downsample(width: 16, height: 16)
            let first = try ImageProcessors.Chain([target, .flip(.vertical)]).process(
                moving(DecodeOptions(target: target.decodeTarget)), .init())
            let second = try ImageProcessors.Chain([.tint(Color(hex: 0xff0000, alpha: 0.5))]).process(first, .init())
            let all = target |> .flip(.vertical) |> .tint(Color(hex: 0xff0000, alpha: 0.5))
            let frames = try #require(second.animation).makeFrameDecoder().rest()
            #expect(frames.map(\.image.pixels) == (try expected(all, DecodeOptions(target: target.decodeTarget))))
            #expect(frames.allSatisfy { $0.image.width <= 16 })
        }

        @Test("a chain of nothing leaves the picture moving, and a processor that fails says so for the frame")
        func edges() throws {
            let image = try moving()
            #expect(try ImageProcessors.Chain([]).process(image, .init()).animation === image.animation)
            let first = image.pixels
            let picky = ImageProcessors.Custom("picky") { image, _ throws(DipperError) in
                guard image.pixels == first, image.animation == nil else { throw .processingFailed }
                return image
            }
            let frames = try #require(try ImageProcessors.Chain([picky]).process(image, .init()).animation)
                .makeFrameDecoder()
            #expect(try frames.next()?.image.pixels == first)
            #expect(throws: DipperError.processingFailed) { _ = try frames.next() }
        }
    }

    extension ImageAnimation {
        /// Returns the preloaded frames, or decodes all frames now.
        fileprivate func frames() throws -> [AnimationFrame] { try preloaded ?? makeFrameDecoder().rest() }
    }
#endif
