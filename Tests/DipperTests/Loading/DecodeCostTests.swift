import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("The memory that making a picture takes, by its header", .timeLimit(.minutes(2)))
struct DecodeCostTests {
    private func cost(_ data: Data, _ processors: any ImageProcessor...) -> Int {
        var options = ImageOptions()
        options.processors = processors
        return DecodeCost.bytes(of: data, ResolvedOptions(options, home: 0))
    }

    @Test(
        "counts what a codec holds whole beside what it makes, however small that is",
        arguments: [
            ("jpeg/420.jpg", false), ("jpeg/progressive.jpg", true), ("png/rgb8.png", false),
            ("png/rgb8-interlaced.png", true), ("gif/still.gif", true), ("webp/lossy.webp", true),
            ("avif/grey.avif", true),
        ])
    func held(name: String, isHeld: Bool) throws {
        let data = try Pictures.data(name)
        let size = try #require(try ImageInfo(data).size)
        let whole = size.width * size.height * 4
        let held = isHeld ? whole : 0
        #expect(DecodeCost.bytes(of: data, nil) == held + whole)
        #expect(cost(data, Inverting()) == held + 2 * whole)
        #expect(cost(data, .downsample(width: 4, height: 2, .stretch)) == held + 2 * 32)
    }

    @Test("sizes that no number can hold cost as much as there can be; what has no size, its bytes")
    func overflow() {
        let length = 0x7FFF_FFFF
        let huge = Data(HeaderBytes.pngHeader(length, length) + HeaderBytes.chunk("IDAT", [1]))
        #expect(DecodeCost.bytes(of: huge, nil) == .max)
        #expect(cost(huge, Inverting()) == .max)
        #expect(DecodeCost.bytes(of: Data("no picture".utf8), nil) == 10)
    }
}
