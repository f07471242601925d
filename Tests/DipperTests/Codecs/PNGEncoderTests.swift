import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Written PNG gives the same picture again", .timeLimit(.minutes(5)))
struct PNGEncoderTests {
    @Test("Pixels come back exactly", arguments: [(1, 1), (45, 31), (300, 7)], [true, false])
    func roundTrip(size: (Int, Int), opaque: Bool) throws {
        let picture = TestPicture.waves(size.0, size.1, opaque: opaque)
        let image = try #require(Image(size: picture.size, premultiplied: picture.pixels))
        let data = try CodecRegistry.standard.encode(image, as: .png)
        let again = try CodecRegistry.standard.decode(data)
        #expect(again.pixels == picture.pixels)
        #expect(again.isOpaque == image.isOpaque)
        // Colour type: 2 without alpha, 6 with.
        #expect(PNGFile(data).chunks[0].body[9] == (image.isOpaque ? 2 : 6))
    }

    @Test("Every colour with every alpha comes back exactly")
    func allPairs() throws {
        var pixels: [UInt8] = []
        for alpha in 0...255 {
            for color in 0...255 { pixels += [UInt8(min(color, alpha)), 0, UInt8(alpha), UInt8(alpha)] }
        }
        let image = try #require(Image(size: PixelSize(width: 256, height: 256), premultiplied: pixels))
        let again = try CodecRegistry.standard.decode(CodecRegistry.standard.encode(image, as: .png))
        let isSame = again.pixels == pixels
        #expect(isSame)
    }

    @Test("The file says that it is sRGB")
    func sRGB() throws {
        let image = try #require(Image(size: PixelSize(width: 1, height: 1), premultiplied: [1, 2, 3, 255]))
        let file = PNGFile(try PNGEncoder().encode(image, .init()))
        #expect(file.chunks.contains { $0.kind == "sRGB" })
        #expect(file.chunks.last?.kind == "IEND")
    }

    @Test("An animation is refused")
    func frames() throws {
        #expect(throws: DipperError.unencodable) { _ = try PNGEncoder().encode([], loopCount: 0, .init()) }
    }
}
