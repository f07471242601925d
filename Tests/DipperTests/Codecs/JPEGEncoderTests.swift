import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures are written as JPEG", .timeLimit(.minutes(5))) struct JPEGEncoderTests {
    private func photo() throws -> Image {
        try JPEGDecoder().decode(try Pictures.data("jpeg/444.jpg"), DecodeOptions())
    }

    private func roundTrip(_ image: Image, _ options: EncodeOptions) throws -> (data: Data, image: Image) {
        let data = try JPEGEncoder().encode(image, options)
        return (data, try JPEGDecoder().decode(data, DecodeOptions()))
    }

    /// Sampling factors of the first component, as in the frame: 0x22 halves the other ones.
    private func sampling(_ data: Data) throws -> UInt8 {
        let frame = try #require(JPEGFile(data).header.first { $0[1] == 0xC0 })
        return frame[11]
    }

    @Test("the higher the quality, the nearer and the larger")
    func quality() throws {
        let image = try photo()
        var last = (error: Double.infinity, count: 0)
        for quality in [0, 0.3, 0.6, 0.89, 0.9, 1] {
            let (data, result) = try roundTrip(image, EncodeOptions(quality: quality))
            let error = Difference(result.pixels, image.pixels).mean
            #expect(error < last.error && data.count > last.count, "\(quality): \(error)")
            last = (error, data.count)
        }
        #expect(last.error < 0.5)
    }

    @Test("colours are halved below a quality of 0.9")
    func colours() throws {
        let image = try photo()
        #expect(try sampling(try JPEGEncoder().encode(image, EncodeOptions(quality: 0.89))) == 0x22)
        #expect(try sampling(try JPEGEncoder().encode(image, EncodeOptions(quality: 0.9))) == 0x11)
    }

    @Test("qualities beyond the ends are the ends, and what is no number is the default")
    func oddQualities() throws {
        let image = try photo()
        func encoded(_ quality: Double) throws -> Data {
            try JPEGEncoder().encode(image, EncodeOptions(quality: quality))
        }
        #expect(try encoded(-3) == encoded(0))
        #expect(try encoded(7) == encoded(1))
        #expect(try encoded(.nan) == encoded(EncodeOptions().quality))
    }

    @Test("transparency shows the background")
    func background() throws {
        let pixels: [UInt8] = (0..<32 * 20).flatMap { index -> [UInt8] in
            switch index % 32 / 8 {
            case 0: [0, 0, 0, 0]
            case 1: [128, 0, 0, 128]
            case 2: [0, 0, 255, 255]
            default: [10, 10, 10, 20]
            }
        }
        let image = try #require(Image(size: PixelSize(width: 32, height: 20), premultiplied: pixels))
        var options = EncodeOptions(quality: 1)
        options.background = [0, 200, 100]
        let result = try roundTrip(image, options).image
        #expect(result.isOpaque)
        func isNear(_ x: Int, _ color: SIMD3<Int>) -> Bool {
            let pixel = result[x, 10]
            return (0..<3).allSatisfy { abs(Int(pixel[$0]) - color[$0]) <= 3 }
        }
        #expect(isNear(4, [0, 200, 100]))
        #expect(isNear(12, [128, 100, 50]))
        #expect(isNear(20, [0, 0, 255]))
        #expect(isNear(28, [10, 194, 102]))
    }

    @Test("the longest side is 65,500 pixels")
    func longest() throws {
        func image(_ width: Int, _ height: Int) throws -> Image {
            let size = PixelSize(width: width, height: height)
            return try #require(Image(size: size, premultiplied: [UInt8](repeating: 255, count: width * height * 4)))
        }
        #expect(try roundTrip(try image(65_500, 1), EncodeOptions()).image.size == PixelSize(width: 65_500, height: 1))
        #expect(throws: DipperError.unencodable) { try JPEGEncoder().encode(try image(65_501, 1), EncodeOptions()) }
        #expect(throws: DipperError.unencodable) { try JPEGEncoder().encode(try image(1, 65_501), EncodeOptions()) }
        #expect(try roundTrip(try image(1, 1), EncodeOptions()).image.pixels == [255, 255, 255, 255])
    }

    @Test("an animation is not written")
    func animation() throws {
        let frame = AnimationFrame(image: try photo(), duration: .milliseconds(40))
        #expect(throws: DipperError.unencodable) {
            try JPEGEncoder().encode([frame], loopCount: 0, EncodeOptions())
        }
    }

    @Test("the registry finds both")
    func registry() throws {
        let data = try CodecRegistry.standard.encode(try photo(), as: .jpeg)
        #expect(try CodecRegistry.standard.decode(data).size == PixelSize(width: 61, height: 43))
        #expect(try JPEGDecoder().info(of: data).size == PixelSize(width: 61, height: 43))
    }
}
