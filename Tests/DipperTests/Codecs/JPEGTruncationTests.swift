import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("JPEG files that end too early", .timeLimit(.minutes(5))) struct JPEGTruncationTests {
    private static let names = [
        "17x33", "420", "progressive", "progressive-grey", "restart-blocks", "scans", "arithmetic", "ycck",
    ]

    @Test("are an error at every byte, until all data is there", arguments: names)
    func errors(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        let whole = try JPEGDecoder().decode(data, DecodeOptions()).data
        var needed: Int?
        for count in 0...data.count {
            do {
                let image = try JPEGDecoder().decode(data.prefix(count), DecodeOptions())
                #expect(image.data == whole, "\(count) bytes")
                needed = needed ?? count
            } catch {
                #expect(error == .undecodable && needed == nil, "\(count) bytes: \(error)")
                if count > 700 { #expect(error.detail == "truncated") }
            }
        }
        // The marker at the end is not needed, nor may be a last byte that only fills; but arithmetic code cannot
        // tell where it ends.
        let most = name.hasPrefix("arithmetic") ? 0 : 2
        let least = name.hasPrefix("arithmetic") ? 0 : 4
        let missing = data.count - (try #require(needed))
        #expect((most...max(most, least)).contains(missing), "\(missing) bytes may be missing")
    }

    @Test("in scans give a picture wherever they end, once there was one", arguments: ["progressive", "scans"])
    func betweenScans(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        var options = DecodeOptions()
        options.allowsPartial = true
        var isThere = false
        for count in 0..<data.count {
            let image = try? JPEGDecoder().decode(data.prefix(count), options)
            #expect(!isThere || image != nil, "\(count) bytes")
            isThere = isThere || image != nil
        }
        #expect(isThere)
    }

    @Test("give the rows that came, where that is allowed", arguments: ["17x33", "420", "restart-blocks"])
    func partialRows(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        let whole = try JPEGDecoder().decode(data, DecodeOptions()).data
        var options = DecodeOptions()
        options.allowsPartial = true
        var heights: Set<Int> = []
        for count in 0..<data.count - 4 {
            guard let image = try? JPEGDecoder().decode(data.prefix(count), options) else { continue }
            let pixels = image.data
            let stride = image.width * 4
            let rows = (0..<image.height).first { pixels[$0 * stride + 3] == 0 } ?? image.height
            heights.insert(rows)
            try #require(!image.isOpaque && rows > 0 && rows < image.height)
            // The colours of the last row are mixed with those of the next, which has not come.
            #expect(pixels.prefix((rows - 1) * stride) == whole.prefix((rows - 1) * stride))
            #expect(pixels.dropFirst(rows * stride) == Data(count: (image.height - rows) * stride))
        }
        #expect(heights.count >= 2)
    }

    @Test(
        "of several scans give the whole picture, coarse, where that is allowed",
        arguments: ["progressive", "progressive-grey", "scans", "arithmetic-progressive"])
    func coarse(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        let whole = try JPEGDecoder().decode(data, DecodeOptions()).pixels
        var options = DecodeOptions()
        options.allowsPartial = true
        var errors: [Double] = []
        for count in Array(stride(from: 0, to: data.count, by: 11)) + [data.count] {
            guard let image = try? JPEGDecoder().decode(data.prefix(count), options), image.isOpaque else { continue }
            errors.append(Difference(image.pixels, whole).mean)
        }
        let first = try #require(errors.first)
        #expect(first > 1 && first < 40, "\(first)")
        #expect(errors.last == 0)
        #expect(try #require(errors.last { $0 > 0 }) < first)
    }

    @Test("of one scan keep their rows when they are made smaller")
    func partialReduced() throws {
        let data = try Pictures.data("jpeg/large.jpg")
        var options = DecodeOptions(target: TargetSize(PixelSize(width: 50, height: 50)))
        options.allowsPartial = true
        let image = try JPEGDecoder().decode(data.prefix(data.count / 2), options)
        #expect(image.size == PixelSize(width: 50, height: 38))
        #expect(!image.isOpaque)
        #expect(image[25, 2].w == 255)
        #expect(image[25, 37] == .zero)
    }

    @Test("with nothing of the picture are an error even then")
    func nothing() throws {
        let data = try Pictures.data("jpeg/420.jpg")
        var options = DecodeOptions()
        options.allowsPartial = true
        for count in [0, 1, 2, 3, 100, 640] {
            #expect(throws: DipperError.undecodable) { try JPEGDecoder().decode(data.prefix(count), options) }
        }
    }
}

extension Image {
    /// The rows, which have no gaps in a picture just decoded.
    fileprivate var data: Data { withPixels { Data($0) } }
}
