import Dipper
import Foundation
import Testing

/// The header of a test picture as Pillow reads it.
struct ExpectedHeader: Decodable, CustomTestStringConvertible {
    let name: String
    let width, height, turn, frameCount: Int
    /// The loop count; `nil` if Pillow does not report one.
    let loopCount: Int?
    let hasAlpha, isProgressive, hasColorProfile: Bool

    var size: PixelSize { PixelSize(width: width, height: height) }
    var orientation: Image.Orientation? { Image.Orientation(rawValue: turn) }
    var testDescription: String { name }
    var fileExtension: String { String(name.split(separator: ".").last ?? "") }

    static let all =
        (try? JSONDecoder().decode([ExpectedHeader].self, from: Pictures.data("headers/expected.json"))) ?? []

    func data() throws -> Data { try Pictures.data("headers/\(name)") }
}

@Suite("Headers without decoding", .timeLimit(.minutes(2))) struct ImageInfoTests {
    @Test("size, frames, transparency and the rest are those Pillow reads", arguments: ExpectedHeader.all)
    func fields(_ expected: ExpectedHeader) throws {
        #expect(ExpectedHeader.all.count > 60)
        let info = try ImageInfo(expected.data())
        #expect(info.size == expected.size && info.orientation == expected.orientation)
        #expect(info.format.fileExtension == expected.fileExtension)
        #expect(info.hasAlpha == expected.hasAlpha && info.isProgressive == expected.isProgressive)
        // Pillow makes a profile for JPEG XL where the file has none.
        if info.format != .jpegXL { #expect(info.hasColorProfile == expected.hasColorProfile) }
        // Of APNG the picture counts.
        let isAPNG = expected.name == "moving.png"
        #expect(info.frameCount == (isAPNG ? 1 : expected.frameCount))
        // Pillow does not tell the loops of AVIF; written without an edit list that says otherwise they are endless.
        if expected.name.hasSuffix("avif") {
            #expect(info.loopCount == (expected.frameCount > 1 ? 0 : 1))
        } else if expected.name.hasSuffix("gif"), let repetitions = expected.loopCount, repetitions > 0 {
            // What the file tells, and Pillow with it, is how often frames are shown again.
            #expect(info.loopCount == repetitions + 1)
        } else {
            #expect(info.loopCount == (isAPNG ? 1 : expected.loopCount ?? 1))
        }
    }

    @Test(
        "bits are those of a colour",
        arguments: [
            ("mode-1.png", 1), ("mode-P.png", 8), ("mode-I16.png", 16), ("mode-RGBA.png", 8), ("mode-1.tiff", 1),
            ("mode-CMYK.tiff", 8), ("highest-first.tiff", 16), ("turned1.jpg", 8), ("still.gif", 8),
            ("lossy.webp", 8), ("turned1.avif", 8), ("plain.heic", 8), ("plain.jxl", 8), ("mode-RGB.bmp", 8),
        ])
    func bits(_ name: String, _ bits: Int) throws {
        #expect(try ImageInfo(Pictures.data("headers/\(name)")).bitDepth == bits)
    }

    @Test("a file's beginning gives the same size as all of it, or is incomplete", arguments: ExpectedHeader.all)
    func beginnings(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let whole = try ImageInfo(data)
        // WebP keeps the orientation after the pixels.
        let isLate = whole.format == .webp && whole.orientation != .up
        var isKnown = false
        for length in 32...data.count {
            do throws(DipperError) {
                let info = try ImageInfo(data.prefix(length))
                isKnown = true
                #expect(isLate || (info.size == whole.size && info.orientation == whole.orientation))
            } catch {
                #expect(ImageInfo.isHeaderIncomplete(error), "\(length) bytes: \(error)")
                #expect(!isKnown, "\(length) bytes: what was known is not")
            }
        }
    }

    @Test("a slice of other bytes is read from its own start")
    func slices() throws {
        let data = try Pictures.data("headers/turned6.jpg")
        let slice = (Data(repeating: 7, count: 13) + data).dropFirst(13)
        #expect(slice.startIndex == 13)
        #expect(try ImageInfo(slice) == ImageInfo(data))
        #expect(ImageFormat(sniffing: slice) == .jpeg)
    }
}
