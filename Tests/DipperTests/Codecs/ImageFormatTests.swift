import Dipper
import Foundation
import Testing

@Suite("Formats by their first bytes", .timeLimit(.minutes(2))) struct ImageFormatTests {
    private func box(_ brands: [String]) -> Data {
        let content = brands[0] + "\0\0\0\0" + brands.dropFirst().joined()
        return Data(HeaderBytes.box("ftyp", Array(content.utf8)))
    }

    @Test(
        "the brands of a file tell AVIF, HEIC and films apart, the first known one before those after it",
        arguments: [
            (["avif", "mif1", "miaf"], .avif), (["avis", "avif", "msf1", "iso8"], .avif), (["mif1", "heic"], .heic),
            (["mif1", "miaf", "avif"], .avif), (["msf1", "hevc", "iso8"], .heic), (["heix", "mif1"], .heic),
            (["isom", "iso2", "avc1", "mp41"], .mp4), (["isom", "avif"], .mp4), (["XYZ ", "isom", "avif"], .avif),
            (["XYZ ", "mp42"], .mp4), (["qt  ", "qt  "], .mov), (["3gp5", "isom"], .mp4),
            (["XYZ ", "qt  ", "heic"], .heic), (["mif1", "mif1"], nil),
        ] as [([String], ImageFormat?)])
    func brands(_ brands: [String], _ format: ImageFormat?) {
        #expect(ImageFormat(sniffing: box(brands)) == format)
    }

    @Test("brands outside the box, or past the bytes, do not count")
    func brandBounds() {
        var data = box(["mif1", "avif"])
        data[3] = 16
        #expect(ImageFormat(sniffing: data) == nil)
        data[3] = 255
        #expect(ImageFormat(sniffing: data) == .avif)
        #expect(ImageFormat(sniffing: data.prefix(19)) == nil)
    }

    @Test(
        "SVG is told past blanks, declarations and comments, and only as the root",
        arguments: [
            ("<svg xmlns=\"http://www.w3.org/2000/svg\"/>", true),
            ("\u{FEFF}\n  <?xml version=\"1.0\"?>\r\n<!-- a > b -- c --><svg>", true),
            ("<!DOCTYPE svg PUBLIC \"x\">", true), ("<svg", false), ("<svgx>", false), ("<html><svg>", false),
            ("<!-- <svg> ", false), ("text <svg>", false), ("", false),
        ])
    func svg(_ text: String, _ isSVG: Bool) {
        #expect((ImageFormat(sniffing: Data(text.utf8)) == .svg) == isSVG)
    }

    @Test(
        "the codecs are asked with enough bytes to tell SVG past a long comment, and no more than that",
        arguments: [(300, "svg"), (5_000, "unknown bytes")])
    func longComment(_ length: Int, _ detail: String) {
        let text = "<?xml version=\"1.0\"?><!--" + String(repeating: "x", count: length) + "--><svg/>"
        do throws(DipperError) {
            _ = try CodecRegistry().decoder(for: Data(text.utf8))
            Issue.record("no codec reads SVG")
        } catch {
            #expect(error == .unsupportedFormat && error.detail == detail)
        }
    }

    @Test(
        "other formats are told by their numbers, and near misses are not",
        arguments: [
            ([0xFF, 0xD8, 0xFF, 0xE0], ImageFormat.jpeg), ([0xFF, 0xD8, 0xFF], nil), ([0xFF, 0xD8, 0x00, 0x00], nil),
            (Array("GIF87a".utf8), .gif), (Array("GIF88a".utf8), nil), (Array("%PDF-1.7".utf8), .pdf),
            (Array("RIFF1234WEBP".utf8), .webp), (Array("RIFF1234WAVE".utf8), nil),
            ([0x49, 0x49, 0x2A, 0x00], .tiff), ([0x4D, 0x4D, 0x00, 0x2B], .tiff), ([0x49, 0x49, 0x00, 0x2A], nil),
            ([0xFF, 0x0A, 0, 0], .jpegXL), ([0xFF, 0x0A], .jpegXL),
            ([0, 0, 0, 12, 0x4A, 0x58, 0x4C, 0x20, 13, 10, 0x87, 10], .jpegXL),
            ([0, 0, 0, 12, 0x4A, 0x58, 0x4C, 0x20, 13, 10, 0x88, 10], nil),
            ([0, 0, 0, 12, 0x6A, 0x50, 0x20, 0x20, 13, 10, 0x87, 10], .jpeg2000),
            ([0, 0, 0, 12, 0x6A, 0x50, 0x20, 0x21, 13, 10, 0x87, 10], nil),
            ([0, 0, 0, 12, 0x6A, 0x50, 0x20, 0x20, 10, 10, 0x87, 10], nil),
            ([0xFF, 0x4F, 0xFF, 0x51, 0], .jpeg2000), ([0xFF, 0x4F, 0xFF, 0x52, 0], nil),
            ([0, 0, 0, 8] + Array("wide".utf8), .mov), ([0, 0, 2, 0] + Array("mdat".utf8), .mov),
            (Array("a worldwide text".utf8), nil), (Array("The mdat".utf8), nil),
            ([0, 0, 0, 9] + Array("wide".utf8), nil),
            ([0, 0, 2, 0] + Array("moov".utf8) + [0, 0, 0, 108] + Array("mvhd".utf8), .mov),
            ([0, 0, 2, 0] + Array("moov".utf8) + [0, 0, 0, 108] + Array("abcd".utf8), nil),
            ([0x1A, 0x45, 0xDF, 0xA3, 0x8B, 0x42, 0x82, 0x84] + Array("webm".utf8), .webm),
            ([0x1A, 0x45, 0xDF, 0xA3, 0x8F, 0x42, 0x82, 0x88] + Array("matroska".utf8), nil),
            (Array("BM is how this text begins".utf8), nil), ([0, 0, 1, 0, 1, 0, 16, 16, 0, 7], nil),
            (Array("<!DOCTYPE html><html><body>404 Not Found</body></html>".utf8), nil),
            (Array("{\"error\": 1}".utf8), nil), (Array(repeating: 0xFF, count: 64), nil),
            (Array(repeating: 0, count: 64), nil), ([0], nil), ([], nil),
        ] as [([UInt8], ImageFormat?)])
    func numbers(_ bytes: [UInt8], _ format: ImageFormat?) {
        #expect(ImageFormat(sniffing: Data(bytes)) == format)
    }

    @Test("256 bytes are enough for every picture", arguments: ExpectedHeader.all)
    func enough(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let format = ImageFormat(sniffing: data.prefix(256))
        #expect(format?.fileExtension == expected.fileExtension)
        #expect(format == ImageFormat(sniffing: data))
    }

    @Test("types and extensions are the registered ones")
    func names() {
        for (name, type, ending) in [
            ("jpeg", "image/jpeg", "jpg"), ("svg", "image/svg+xml", "svg"), ("jxl", "image/jxl", "jxl"),
            ("ico", "image/vnd.microsoft.icon", "ico"), ("webm", "video/webm", "webm"),
            ("pdf", "application/pdf", "pdf"), ("qoi", "application/octet-stream", "qoi"),
        ] {
            let format = ImageFormat(rawValue: name)
            #expect(format.mimeType == type && format.fileExtension == ending, "\(name)")
        }
    }
}
