import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("JPEG pictures are decoded to the size wanted", .timeLimit(.minutes(5))) struct JPEGScalingTests {
    // Beside Pillow's picture, made whole and then reduced by Lanczos: a reduced transform leaves out other detail. At
    // 1/8 it gives the mean of each block, which is softer.
    @Test(
        "smaller ones look like the whole, reduced",
        arguments: [(200, 1.5), (100, 1.8), (80, 1.5), (50, 4.5), (40, 4)])
    func reduced(_ width: Int, _ most: Double) throws {
        let golden = try Golden("jpeg/large-\(width).rgba")
        for name in ["large", "large-progressive"] {
            let image = try JPEGDecoder().decode(
                try Pictures.data("jpeg/\(name).jpg"), DecodeOptions(target: TargetSize(golden.size, .stretch)))
            let difference = try Difference(image, golden)
            #expect(difference.mean < most, "\(name): \(difference)")
        }
    }

    @Test(
        "a progressive file has the same pixels as one that is not, in every size",
        arguments: [400, 200, 80, 50, 40, 7])
    func progressive(_ width: Int) throws {
        let options = DecodeOptions(target: TargetSize(PixelSize(width: width, height: width)))
        let image = try JPEGDecoder().decode(try Pictures.data("jpeg/large.jpg"), options)
        let progressive = try JPEGDecoder().decode(try Pictures.data("jpeg/large-progressive.jpg"), options)
        #expect(image.pixels == progressive.pixels)
    }

    @Test("at 1/8 scans of finer detail are not read, but for colours that are sampled coarsely")
    func leftOut() throws {
        func scans(_ data: Data) throws -> (before: Int, after: Int) {
            let filtered = try #require(data.withUnsafeBytes { JPEGScanFilter.meansOnly($0) })
            #expect(filtered.count < data.count)
            return (JPEGFile(data).scans.count, JPEGFile(filtered).scans.count)
        }
        // Of ten scans four are of brightness and detail; two of the mean, and two of each colour's detail, stay.
        let sampled = try scans(try Pictures.data("jpeg/large-progressive.jpg"))
        #expect(sampled == (10, 6))
        let grey = try scans(try Pictures.data("jpeg/progressive-grey.jpg"))
        #expect(grey == (6, 2))

        for name in ["large", "scans", "arithmetic"] {
            let data = try Pictures.data("jpeg/\(name).jpg")
            #expect(data.withUnsafeBytes { JPEGScanFilter.meansOnly($0) } == nil)
        }
        let cut = try Pictures.data("jpeg/large-progressive.jpg").dropLast(2)
        #expect(cut.withUnsafeBytes { JPEGScanFilter.meansOnly($0) } == nil)
    }

    @Test("the least of 1/8, 1/4, 1/2 and 1 that covers the target is taken")
    func eighths() {
        func eighths(_ width: Int, _ height: Int) -> Int {
            JPEGScale.eighths(from: PixelSize(width: 4000, height: 3001), to: PixelSize(width: width, height: height))
        }
        #expect(eighths(400, 300) == 1)
        #expect(eighths(500, 376) == 1)
        #expect(eighths(501, 376) == 2)
        #expect(eighths(500, 377) == 2)
        #expect(eighths(1000, 1) == 2)
        #expect(eighths(1001, 1) == 4)
        #expect(eighths(2000, 1501) == 4)
        #expect(eighths(2001, 1) == 8)
        #expect(eighths(4000, 3001) == 8)
        #expect(eighths(8000, 6000) == 8)
    }

    @Test("a target counts as displayed, for turned pictures too")
    func turned() throws {
        let data = try Pictures.data("jpeg/orientation-6.jpg")
        let target = TargetSize(PixelSize(width: 10, height: 100))
        let image = try JPEGDecoder().decode(data, DecodeOptions(target: target))
        #expect(image.size == PixelSize(width: 10, height: 15))
    }

    @Test("only the result is counted against the memory allowed, not the whole picture")
    func memory() throws {
        var options = DecodeOptions(target: TargetSize(PixelSize(width: 40, height: 30)))
        options.limits.bytes = 100_000
        let data = try Pictures.data("jpeg/large.jpg")
        #expect(try JPEGDecoder().decode(data, options).size == PixelSize(width: 40, height: 30))
        options.target = nil
        #expect(throws: DipperError.imageTooLarge) { try JPEGDecoder().decode(data, options) }
    }
}
