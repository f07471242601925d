import TestSupport
import Testing

@Suite("Pictures without a cache", .timeLimit(.minutes(2)))
struct ImageLinesTests {
    private let picture = Image.sample(40, 30)

    @Test("a file is decoded, to a size if one is wanted; what is no picture is an error")
    func decoding() throws {
        #expect(try Image(data: picture.png).pixels == picture.pixels)
        var options = DecodeOptions(target: TargetSize(width: 10, height: 10))
        #expect(try Image(data: picture.png, options).size == PixelSize(width: 10, height: 8))
        (options.target, options.scale) = (TargetSize(width: 10, height: 10).points, 2)
        let sharp = try Image(data: picture.png, options)
        #expect(sharp.size == PixelSize(width: 20, height: 15) && sharp.scale == 2)
        #expect(throws: DipperError.unsupportedFormat) { try Image(data: Data("no picture".utf8)) }
        #expect(throws: DipperError.unsupportedFormat) { try Image(data: picture.png, codecs: CodecRegistry()) }
    }

    @Test("processors are applied in order, and the error names the one that failed")
    func processing() throws {
        let small = try ImageProcessors.Crop(width: 9, height: 7).process(picture, ProcessingContext())
        let turned = try ImageProcessors.Rotate(degrees: 90).process(small, ProcessingContext())
        let result = try picture.processed(by: .crop(width: 9, height: 7), .rotate(degrees: 90))
        #expect(result.pixels == turned.pixels && result.size == PixelSize(width: 7, height: 9))
        #expect(try picture.processed().pixels == picture.pixels)
        let error = #expect(throws: DipperError.self) { try picture.processed(by: .circle, .blur(-1)) }
        #expect(error == .processingFailed && error?.detail?.hasPrefix("blur") == true)
        var limits = DecodeLimits()
        limits.bytes = 100
        #expect(throws: DipperError.imageTooLarge) { try picture.processed(by: .circle, limits: limits) }
    }

    @Test("a picture is encoded as a format, or as a serializer does")
    func encoding() throws {
        #expect(try Image(data: picture.encoded(as: .png)).pixels == picture.pixels)
        let (small, large) = try (picture.encoded(as: .jpeg(quality: 0.2)), picture.encoded(as: .jpeg))
        #expect(try ImageInfo(small).format == .jpeg && ImageInfo(large).format == .jpeg && small.count < large.count)
        #expect(try picture.encoded(as: .automatic) == picture.encoded(as: .png))
        #expect(throws: DipperError.unsupportedFormat) { try picture.encoded(as: .heic) }
    }

    #if GIF && WebP
        @Test(
            "an animation keeps its frames when it is processed and encoded", arguments: [ImageFormat.gif, .webp, .png])
        func moving(_ format: ImageFormat) throws {
            var lossless = EncodeOptions()
            lossless.isLossless = true
            let film = try Image(data: Film.file([40, 50, 60], loopCount: 3, as: format))
            let small = try film.processed(by: .crop(width: 2, height: 2), .flip(.horizontal))
            let file = try small.encoded(as: format, lossless)
            let copy = try Image(data: file)
            let frames = try #require(copy.animation).makeFrameDecoder()
            #expect(copy.size == PixelSize(width: 2, height: 2) && copy.animation?.frameCount == 3)
            #expect(copy.animation?.loopCount == 3)
            for milliseconds in [40, 50, 60] { #expect(try frames.next()?.duration == .milliseconds(milliseconds)) }
            #expect(try ImageInfo(film.encoded(as: .jpeg(quality: 0.5))).format == .jpeg)
            let long = try Image(data: Film.file([40, 50], loopCount: 0x10000))
            #expect(try Image(data: long.encoded(as: format, lossless)).animation?.loopCount == 0xFFFF)
            #expect(try Image(data: film.encoded(as: .automatic)).animation?.frameCount == 3)
            var limits = DecodeLimits()
            limits.bytes = 100  // a frame takes 48
            let large = try film.processed(by: .flip(.horizontal), limits: limits)
            #expect(throws: DipperError.imageTooLarge) { try large.encoded(as: format) }
        }

        @Test(
            "a processed animation is kept on disk with all its frames, whatever the format",
            arguments: [ImageFormat.gif, .webp, .png], [nil, ImageFormat.gif, .webp, .png])
        func storing(_ original: ImageFormat, _ kept: ImageFormat?) async throws {
            let test = TestImageCache(folder: TemporaryFolder())
            let a = url("film")
            try test.transport.script(a, [.body(Film.file([40, 50, 60], loopCount: 3, as: original))])
            var request = ImageRequest(a).processed(by: .crop(width: 2, height: 2)).with(\.keepsOriginal, false)
            var lossless = EncodeOptions()
            lossless.isLossless = true
            if let kept { request = request.with(\.serializer, .format(kept, lossless)) }
            let image = try await test.load(request)
            let made = try #require(image.animation).makeFrameDecoder()
            let next = await test.reopened()
            let response = try await next.cache.getImage(request).response
            #expect(response.source == .disk && next.transport.transfers.isEmpty)
            #expect(response.image.size == PixelSize(width: 2, height: 2))
            let animation = try #require(response.image.animation)
            #expect(animation.frameCount == 3 && animation.loopCount == 3)
            let frames = try animation.makeFrameDecoder()
            while let expected = try made.next() {
                let frame = try #require(try frames.next())
                #expect(frame.duration == expected.duration)
                // Made of WebP, it may lose something.
                if kept != nil || original != .webp { #expect(frame.image.pixels == expected.image.pixels) }
            }
        }
    #endif
}
