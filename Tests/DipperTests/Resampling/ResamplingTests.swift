import TestSupport
import Testing

@Suite(
    "Pictures get the size that is wanted, by Lanczos with three lobes on premultiplied colours",
    .timeLimit(.minutes(2)))
struct ResamplingTests {
    private func stretched(_ picture: TestPicture, _ width: Int, _ height: Int) throws -> Image {
        try ImageProcessors.Resize(width: width, height: height, .stretch, allowsUpscaling: true)
            .process(picture.image(), .init())
    }

    @Test(
        "Fit keeps proportions inside the target, fill covers it, stretch takes it; only what is allowed to grows",
        arguments: [
            (400, 300, TargetSize.Mode.fit, false, 4000, 2000, 400, 200),
            (400, 300, .fill, false, 4000, 2000, 600, 300), (400, 300, .stretch, false, 4000, 2000, 400, 300),
            (400, 300, .fit, false, 40, 20, 40, 20), (400, 300, .fit, true, 40, 20, 400, 200),
            (400, 300, .stretch, false, 4000, 20, 400, 20), (400, 300, .fit, false, 60_000, 2, 400, 1),
            (0, -5, .fit, false, 3, 2, 1, 1), (0, -5, .fill, false, 3, 2, 1, 1), (0, -5, .stretch, false, 3, 2, 1, 1),
        ])
    func targets(
        width: Int, height: Int, mode: TargetSize.Mode, grows: Bool, ofWidth: Int, ofHeight: Int, newWidth: Int,
        newHeight: Int
    ) {
        let target = TargetSize(width: width, height: height, mode, allowsUpscaling: grows)
        let size = target.size(for: PixelSize(width: ofWidth, height: ofHeight))
        #expect(size == PixelSize(width: newWidth, height: newHeight))
        for (wide, picture) in [(Int.max, PixelSize(width: 3, height: 2)), (1, PixelSize(width: .max, height: 1))] {
            let target = TargetSize(width: wide, height: .max, mode, allowsUpscaling: true)
            let size = target.size(for: picture)
            #expect(size.width > 0 && size.height > 0)
        }
    }

    @Test(
        "Up to a factor of four, and upwards, it is the exact filter but for rounding; beyond that, boxes stand for it",
        arguments: [
            (40, 30, 20, 15), (41, 31, 40, 30), (37, 29, 13, 11), (64, 48, 17, 13), (9, 7, 23, 31), (1, 1, 5, 3),
            (2, 50, 2, 49), (50, 3, 49, 3), (30, 30, 60, 10), (3, 4, 1, 2), (100, 1, 33, 1), (80, 60, 20, 15),
            (161, 121, 16, 12), (200, 150, 7, 5), (300, 11, 1, 1), (90, 400, 90, 9), (1000, 3, 3, 3),
            (129, 131, 30, 31),
        ], [true, false])
    func filter(_ sizes: (width: Int, height: Int, newWidth: Int, newHeight: Int), opaque: Bool) throws {
        let picture = TestPicture.waves(sizes.width, sizes.height, opaque: opaque)
        let image = try stretched(picture, sizes.newWidth, sizes.newHeight)
        let difference = Difference(image.pixels, ReferenceFilter.resample(picture, to: image.size))
        let factor = max(Double(sizes.width) / Double(sizes.newWidth), Double(sizes.height) / Double(sizes.newHeight))
        // Noise from pixel to pixel, as the alpha here, is what boxes are worst at, those of two pixels most.
        let (largest, mean) =
            factor < 4 ? (1, 0.02) : opaque ? (5, 0.6) : factor >= 6 ? (11, 1.7) : (24, 3.6)
        #expect(difference.largest <= largest && difference.mean < mean, "\(difference)")
        #expect(factor >= 4 || image.isOpaque == opaque)
    }

    @Test("Very long and very strong reductions are bounded in memory", arguments: [(1 << 20, 1), (1, 1 << 20)])
    func long(width: Int, height: Int) throws {
        let image = Image.filled(with: .white, width, height)
        var context = ProcessingContext()
        context.limits.bytes = 40 << 20
        let dot = try ImageProcessors.Resize(width: 1, height: 1, .stretch).process(image, context)
        #expect(dot.pixels == [255, 255, 255, 255])
    }
}
