import Dipper
import Foundation
import TestSupport
import Testing

@Suite(
    "Pictures get the size that is wanted, by Lanczos with three lobes on premultiplied colours",
    .timeLimit(.minutes(2)))
struct ResamplingTests {
    private func stretched(_ picture: TestPicture, _ width: Int, _ height: Int) throws -> Image {
        let image = try #require(Image(size: picture.size, premultiplied: picture.pixels))
        return try ImageProcessors.Resize(width: width, height: height, .stretch, allowsUpscaling: true)
            .process(image, .init())
    }

    @Test(
        "Fit keeps proportions inside the target, fill covers it, stretch takes it; only what is allowed to grows",
        arguments: [
            (400, 300, TargetSize.Mode.fit, false, 4000, 2000, 400, 200),
            (400, 300, .fill, false, 4000, 2000, 600, 300), (400, 300, .stretch, false, 4000, 2000, 400, 300),
            (400, 300, .fit, false, 40, 20, 40, 20), (400, 300, .fit, true, 40, 20, 400, 200),
            (400, 300, .stretch, false, 4000, 20, 400, 20), (400, 300, .fit, false, 60_000, 2, 400, 1),
            (0, -5, .fit, false, 3, 2, 3, 2), (0, -5, .fill, false, 3, 2, 3, 2), (0, -5, .stretch, false, 3, 2, 3, 2),
        ])
    func targets(
        width: Int, height: Int, mode: TargetSize.Mode, grows: Bool, ofWidth: Int, ofHeight: Int, newWidth: Int,
        newHeight: Int
    ) {
        let target = TargetSize(PixelSize(width: width, height: height), mode, allowsUpscaling: grows)
        let size = target.size(for: PixelSize(width: ofWidth, height: ofHeight))
        #expect(size == PixelSize(width: newWidth, height: newHeight))
        for (wide, picture) in [(Int.max, PixelSize(width: 3, height: 2)), (1, PixelSize(width: .max, height: 1))] {
            let target = TargetSize(PixelSize(width: wide, height: .max), mode, allowsUpscaling: true)
            let size = target.size(for: picture)
            #expect(size.width > 0 && size.height > 0)
        }
    }

    @Test(
        "Up to a factor of four, and upwards, it is the exact filter but for rounding",
        arguments: [
            (40, 30, 20, 15), (41, 31, 40, 30), (37, 29, 13, 11), (64, 48, 17, 13), (9, 7, 23, 31), (1, 1, 5, 3),
            (2, 50, 2, 49), (50, 3, 49, 3), (30, 30, 60, 10), (3, 4, 1, 2), (100, 1, 33, 1),
        ])
    func exact(width: Int, height: Int, newWidth: Int, newHeight: Int) throws {
        for opaque in [true, false] {
            let picture = TestPicture.waves(width, height, opaque: opaque)
            let image = try stretched(picture, newWidth, newHeight)
            let expected = ReferenceResampler.resample(picture, to: image.size)
            let difference = Difference(image.pixels, expected)
            #expect(difference.largest <= 1 && difference.mean < 0.02, "\(difference)")
            #expect(image.isOpaque == opaque)
        }
    }

    @Test(
        "Beyond that, boxes stand for the filter",
        arguments: [
            (80, 60, 20, 15), (161, 121, 16, 12), (200, 150, 7, 5), (300, 11, 1, 1), (90, 400, 90, 9),
            (1000, 3, 3, 3), (129, 131, 30, 31),
        ])
    func boxes(width: Int, height: Int, newWidth: Int, newHeight: Int) throws {
        for opaque in [true, false] {
            let picture = TestPicture.waves(width, height, opaque: opaque)
            let image = try stretched(picture, newWidth, newHeight)
            let expected = ReferenceResampler.resample(picture, to: image.size)
            let difference = Difference(image.pixels, expected)
            // Noise from pixel to pixel, as the alpha here, is what boxes are worst at, those of two pixels most.
            let isStrong = max(width / newWidth, height / newHeight) >= 6
            let (largest, mean) = opaque ? (5, 0.6) : isStrong ? (11, 1.7) : (24, 3.6)
            #expect(difference.largest <= largest && difference.mean < mean, "\(difference)")
        }
    }

    @Test("An even colour stays what it is", arguments: [1, 7, 100, 333], [1, 9, 64, 500])
    func even(from: Int, to: Int) throws {
        for color: [UInt8] in [[200, 3, 255, 255], [90, 0, 100, 101], [0, 0, 0, 0], [1, 1, 1, 1]] {
            let pixels = (0..<from * 2).flatMap { _ in color }
            let image = try stretched(TestPicture(size: PixelSize(width: from, height: 2), pixels: pixels), to, 3)
            #expect(image.pixels == (0..<to * 3).flatMap { _ in color })
        }
    }

    @Test(
        "At the edge of something transparent no colour is above its alpha, and none is darker",
        arguments: [6, 13, 48, 97])
    func fringes(width: Int) throws {
        // Full red beside nothing: whatever the alpha, red must go with it.
        let pixels = (0..<48 * 48).flatMap { (index: Int) -> [UInt8] in
            (index % 48 + index / 48) % 48 < 24 ? [255, 0, 0, 255] : [0, 0, 0, 0]
        }
        let image = try stretched(TestPicture(size: PixelSize(width: 48, height: 48), pixels: pixels), width, width)
        let noise = try stretched(.waves(48, 48, opaque: false), width, width)
        for y in 0..<width {
            for x in 0..<width {
                let (pixel, other) = (image[x, y], noise[x, y])
                #expect(pixel.x == pixel.w && pixel.y == 0 && pixel.z == 0)
                #expect(max(other.x, other.y, other.z) <= other.w)
            }
        }
    }

    @Test("Very long and very strong reductions are bounded in memory", arguments: [(1 << 20, 1), (1, 1 << 20)])
    func long(width: Int, height: Int) throws {
        let pixels = [UInt8](repeating: 255, count: width * height * 4)
        let image = try #require(Image(size: PixelSize(width: width, height: height), premultiplied: pixels))
        var context = ProcessingContext()
        context.limits.bytes = 40 << 20
        let dot = try ImageProcessors.Resize(width: 1, height: 1, .stretch).process(image, context)
        #expect(dot.pixels == [255, 255, 255, 255])
    }
}
