#if AVIF
    import Dipper
    import Foundation
    import TestSupport
    import Testing

    @Suite("AVIF", .timeLimit(.minutes(2)))
    struct AVIFTests {
        private let decoder = AVIFDecoder()

        @Test(
            "pictures look as Pillow decodes them",
            arguments: [
                ("half-chroma", 3), ("full-chroma", 2), ("grey", 1), ("alpha", 3), ("multiplied-alpha", 3),
                ("profile", 5), ("tall", 3), ("ten-bits", 2), ("twelve-bits-alpha", 3), ("p3", 4), ("bt2020", 8),
                ("cropped", 12), ("grid", 3),
            ] + (1...8).map { ("orientation-\($0)", 3) })
        func stills(name: String, tolerance: Int) throws {
            let data = try Pictures.data("avif/\(name).avif")
            let image = try decoder.decode(data, .init())
            let difference = try Difference(image, Golden("avif/\(name).rgba"))
            #expect(difference.largest <= tolerance && difference.mean < 1, "\(difference)")
            #expect(image.isOpaque == !name.contains("alpha"))
            #expect(image.animation == nil)
            #expect(try decoder.info(of: data).size == image.size)
        }

        @Test("a side of more than 32,768 pixels is no fault; too many pixels are too many")
        func wide() throws {
            let data = try Pictures.data("avif/wide.avif")
            #expect(try decoder.decode(data, .init()).size == PixelSize(width: 40_000, height: 8))
            var options = DecodeOptions()
            options.limits.pixels = 319_999
            expectError(.imageTooLarge) { _ = try decoder.decode(data, options) }
            let target = TargetSize(PixelSize(width: 21, height: 21))
            let small = try decoder.decode(Pictures.data("avif/tall.avif"), .init(target: target))
            #expect(small.size == PixelSize(width: 3, height: 21))
        }

        @Test("what is brighter than white is white")
        func highDynamicRange() throws {
            let image = try decoder.decode(Pictures.data("avif/pq.avif"), .init())
            #expect(image.size == PixelSize(width: 63, height: 47))
            #expect(image.pixels.contains(255) && image.isOpaque)
        }

        @Test("every frame of an animation looks as Pillow decodes it", arguments: ["moving", "floating"])
        func frames(name: String) throws {
            let data = try Pictures.data("avif/\(name).avif")
            let frames = try decoder.allFrames(of: data)
            try #require(frames.count == 3)
            for (index, frame) in frames.enumerated() {
                let difference = try Difference(frame.image, Golden("avif/\(name).\(index).rgba"))
                #expect(difference.largest <= 4, "frame \(index): \(difference)")
            }
            let image = try decoder.decode(data, .init())
            #expect(image.pixels == frames[0].image.pixels)
            #expect(image.animation?.frameCount == 3)
            #expect(image.animation?.loopCount == 0)
            let milliseconds = name == "moving" ? [50, 100, 250] : [40, 80, 90]
            #expect(frames.map(\.duration) == milliseconds.map { .milliseconds($0) })
        }

        @Test("damaged files give errors of ours, and nothing worse", arguments: ["tiny", "tiny-moving"])
        func damaged(name: String) throws {
            decoder.survivesDamage(to: try Pictures.data("avif/\(name).avif"))
        }

        @Test("a file that ends too early, or whose loop restoration leads outside the picture, is refused")
        func refused() throws {
            let cut = try Pictures.data("avif/half-chroma.avif").dropLast(50)
            expectError(.undecodable) { _ = try decoder.decode(cut, .init()) }
            let data = try Pictures.data("avif/broken-restoration.avif")
            expectError(.undecodable) { _ = try decoder.decode(data, .init()) }
        }

        @Test("what a header announces is refused before memory is taken")
        func huge() throws {
            var data = try Pictures.data("avif/tiny.avif")
            let place = try #require(data.range(of: Data("ispe".utf8))).upperBound + 4
            data.replaceSubrange(place..<place + 8, with: [0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF])
            expectError(.imageTooLarge) { _ = try decoder.decode(data, .init()) }
            var options = DecodeOptions()
            options.limits.pixels = 1000
            expectError(.imageTooLarge) { _ = try decoder.decode(Pictures.data("avif/alpha.avif"), options) }
            options = DecodeOptions()
            options.limits.bytes = 10_000
            expectError(.imageTooLarge) { _ = try decoder.decode(Pictures.data("avif/alpha.avif"), options) }
            options = DecodeOptions()
            options.limits.frames = 2
            expectError(.imageTooLarge) { _ = try decoder.decode(Pictures.data("avif/moving.avif"), options) }
        }

        @Test("decoding ends when it is cancelled")
        func cancelled() throws {
            let data = try Pictures.data("avif/tall.avif")
            for count in 0..<4 {
                expectError(.cancelled) { _ = try decoder.decode(data, .cancelled(after: count)) }
            }
        }
    }
#endif
