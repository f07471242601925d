#if GIF
    import Dipper
    import Foundation
    import TestSupport
    import Testing

    @Suite("Pictures that move", .timeLimit(.minutes(2)))
    struct AnimationTests {
        private func moving(_ options: DecodeOptions = .init()) throws -> Image {
            try CodecRegistry.standard.decode(Pictures.data("gif/mixed.gif"), options)
        }

        @Test("the other frames are decoded when they are asked for, and again from the first")
        func onDemand() throws {
            let image = try moving()
            let animation = try #require(image.animation)
            #expect(animation.preloaded == nil)
            let decoder = try animation.makeFrameDecoder()
            let all = try decoder.rest()
            #expect(all.count == 6 && all.first?.image.pixels == image.pixels)
            #expect(try decoder.next() == nil)
            // Also in the middle, when frames are still to be taken away.
            for count in [0, 2, 6] {
                try decoder.rewind()
                for _ in 0..<count { _ = try decoder.next() }
                try decoder.rewind()
                #expect(try decoder.rest().map(\.image.pixels) == all.map(\.image.pixels))
            }
            // Two decoders of one animation do not disturb each other.
            try decoder.rewind()
            _ = try decoder.next()
            #expect(try animation.makeFrameDecoder().next()?.image.pixels == image.pixels)
        }

        @Test("all frames are decoded at once where that is asked for, and count in bytes, unless they are too large")
        func preloaded() throws {
            var options = DecodeOptions.with { $0.preloadsFrames = true }
            let animation = try #require(try moving(options).animation)
            let frames = try #require(animation.preloaded)
            #expect(frames.count == 6)
            for (index, frame) in frames.enumerated() {
                #expect(try Difference(frame.image, Golden("gif/mixed.\(index).rgba")).largest == 0)
            }
            let file = try Pictures.data("gif/mixed.gif").count
            #expect(try animation.byteCount == file + 5 * 4800 && moving().byteCount == file + 4800)
            options.limits.bytes = 6 * 4800 - 1
            let large = try #require(try moving(options).animation)
            #expect(try large.preloaded == nil && large.makeFrameDecoder().rest().count == 6)
        }

        @Test("frames can be decoded after the picture's own decode was cancelled, which ends decoding ahead")
        func cancelled() throws {
            let isUp = Box(false)
            var cancelling = DecodeOptions.with { $0.isCancelled = { isUp.value } }
            let image = try moving(cancelling)
            isUp.update { $0 = true }
            #expect(throws: DipperError.cancelled) { try moving(cancelling) }
            #expect(try #require(image.animation).makeFrameDecoder().rest().count == 6)
            cancelling = .cancelled(after: 8)
            cancelling.preloadsFrames = true
            #expect(throws: DipperError.cancelled) { try moving(cancelling) }
        }

        // MARK: Processed

        private let chain = ImageProcessors.Crop(width: 20, height: 16) |> .blur(1) |> .roundedCorners(radius: 5)

        private func expected(_ chain: ImageProcessors.Chain, _ options: DecodeOptions = .init()) throws -> [[UInt8]] {
            let frames = try #require(try moving(options).animation).makeFrameDecoder().rest()
            return try frames.map { try chain.process($0.image, .init()).pixels }
        }

        @Test("every frame is processed like the first, when it is asked for")
        func processed() throws {
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
            #expect(
                all.map(\.duration) == (try #require(image.animation).makeFrameDecoder().rest().map(\.duration)))
            try frames.rewind()
            #expect(try frames.next()?.image.pixels == result.pixels)
            #expect(try ImageProcessors.Chain([]).process(image, .init()).animation === image.animation)
        }

        @Test("frames that were decoded ahead are processed ahead, and count in bytes, unless they become too large")
        func processedAhead() throws {
            let image = try moving(.with { $0.preloadsFrames = true })
            let animation = try #require(try chain.process(image, .init()).animation)
            #expect(animation.preloaded?.map(\.image.pixels) == (try expected(chain)))
            #expect(animation.byteCount == (try Pictures.data("gif/mixed.gif").count) + 5 * 20 * 16 * 4)
            #expect(try animation.makeFrameDecoder().rest().count == 6)
            let larger = ImageProcessors.Chain([.scale(by: 3)])
            var context = ProcessingContext()
            context.limits.bytes = 6 * 4800 * 9 - 1
            let large = try #require(try larger.process(image, context).animation)
            #expect(large.preloaded == nil)
            #expect(try large.makeFrameDecoder().rest().map(\.image.pixels) == expected(larger))
        }

        @Test(
            "frames have the scale that the picture had, so that points mean the same in all", arguments: [false, true])
        func scale(preloads: Bool) throws {
            func frames(_ image: Image) throws -> [AnimationFrame] {
                let animation = try #require(image.animation)
                return try animation.preloaded ?? animation.makeFrameDecoder().rest()
            }
            var image = try moving(.with { $0.preloadsFrames = preloads })
            image.scale = 2
            var result = try ImageProcessors.Chain([.roundedCorners(radius: .points(4))]).process(image, .init())
            let first = try frames(result)
            #expect(first.map(\.image.pixels) == (try expected(ImageProcessors.Chain([.roundedCorners(radius: 8)]))))
            #expect(first.allSatisfy { $0.image.scale == 2 })
            // A second chain has a scale of its own.
            result.scale = 3
            let both = try frames(
                ImageProcessors.Chain([.border(.black, width: .points(1))]).process(result, .init()))
            let chain = ImageProcessors.RoundedCorners(radius: 8) |> .border(.black, width: 3)
            #expect(both.map(\.image.pixels) == (try expected(chain)) && both.allSatisfy { $0.image.scale == 3 })
        }

        @Test("one chain behind another, and one whose size was decoded to")
        func chains() throws {
            let target = ImageProcessors.Resize(width: 16, height: 16, allowsUpscaling: false)
            let options = DecodeOptions(target: target.decodeTarget)
            let first = try ImageProcessors.Chain([target, .flip(.vertical)]).process(moving(options), .init())
            let tint = ImageProcessors.Tint(Color(hex: 0xff0000, alpha: 0.5))
            let second = try ImageProcessors.Chain([tint]).process(first, .init())
            let frames = try #require(second.animation).makeFrameDecoder().rest()
            #expect(frames.map(\.image.pixels) == (try expected(target |> .flip(.vertical) |> tint, options)))
            #expect(frames.allSatisfy { $0.image.width <= 16 })
        }

        @Test("frames are processed within the limits; a processor that fails reports it for the frame")
        func limits() throws {
            let options = DecodeOptions.with { $0.limits.frames = 77 }
            let image = try moving(options)
            let seen = Box<[DecodeLimits]>([])
            let picky = ImageProcessors.Custom("picky") { frame, context in
                seen.update { $0.append(context.limits) }
                guard frame.pixels == image.pixels, frame.animation == nil else { throw DipperError.processingFailed }
                return frame
            }
            let context = ProcessingContext(limits: options.limits)
            let frames = try #require(try ImageProcessors.Chain([picky]).process(image, context).animation)
                .makeFrameDecoder()
            #expect(try frames.next()?.image.pixels == image.pixels)
            #expect(throws: DipperError.processingFailed) { try frames.next() }
            #expect(seen.value == [options.limits, options.limits, options.limits])
        }
    }
#endif
