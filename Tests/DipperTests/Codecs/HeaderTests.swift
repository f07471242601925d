import Dipper
import Foundation
import Testing

@Suite("Headers made byte by byte", .timeLimit(.minutes(2))) struct HeaderTests {
    private func info(_ bytes: [UInt8]) throws(DipperError) -> ImageInfo { try ImageInfo(Data(bytes)) }

    private func size(_ bytes: [UInt8]) throws(DipperError) -> PixelSize? { try info(bytes).size }

    /// Entries that would be believed if they were not out of place.
    private func exif(_ orientation: Int, type: Int = 3, count: Int = 1) -> [UInt8] {
        Array("Exif\0\0".utf8) + HeaderBytes.directory([(0x112, type, count, orientation)])
    }

    @Test("JPEG: what is no segment is stepped over, and the first Exif counts")
    func jpeg() throws {
        let turned = try info(
            HeaderBytes.jpeg(
                30, 20,
                [
                    [0xFF, 0xFF, 0xFF], HeaderBytes.segment(0xFE, [0xFF, 0xC0, 0, 9]), [0, 1, 2],
                    HeaderBytes.segment(0xE0, [], length: 0), HeaderBytes.segment(0xE0, [], length: 1),
                    HeaderBytes.segment(0xE1, Array("http://ns.adobe.com/xap/1.0/\0".utf8)),
                    HeaderBytes.segment(0xE1, exif(6)), HeaderBytes.segment(0xE1, exif(3)),
                    HeaderBytes.segment(0xC4, [1, 2, 3, 4, 5, 6, 7]),
                ], frame: 0xC2))
        #expect(turned.size == PixelSize(width: 20, height: 30))
        #expect(turned.orientation == .right)
        #expect(turned.isProgressive)
        #expect(turned.bitDepth == 8)
    }

    @Test("an Exif that points outside, loops, or has no meaning is none")
    func brokenExif() throws {
        let tag = HeaderBytes.directory([(0x112, 3, 1, 6)])
        var past = tag
        past.replaceSubrange(8..<10, with: [0xFF, 0xFF])
        let broken: [[UInt8]] = [
            exif(0), exif(9), exif(6, count: 0), exif(6, type: 5), exif(6, count: 0xFFFF_FFFF),
            HeaderBytes.directory([(0x112, 3, 1, 6)], offset: 0xFFFF_FFFF),
            HeaderBytes.directory([(0x112, 3, 1, 6)], offset: 0x7FFF_FFF0),
            HeaderBytes.directory([(0x112, 3, 1, 6)], offset: 0), Array(tag.prefix(11)), Array("II*\0".utf8), [],
        ]
        for content in broken {
            let bytes = content.starts(with: Array("Exif".utf8)) ? content : Array("Exif\0\0".utf8) + content
            #expect(try info(HeaderBytes.jpeg(30, 20, [HeaderBytes.segment(0xE1, bytes)])).orientation == .up)
        }
        // More entries announced than there are: those there are count.
        let cut = try info(HeaderBytes.jpeg(30, 20, [HeaderBytes.segment(0xE1, Array("Exif\0\0".utf8) + past)]))
        #expect(cut.orientation == .up)
    }

    @Test("PNG: transparency and orientation count where they come before the pixels")
    func png() throws {
        let pixels = HeaderBytes.chunk("IDAT", [1, 2, 3])
        let tag = HeaderBytes.chunk("eXIf", HeaderBytes.directory([(0x112, 3, 1, 8)]))
        let before = try info(HeaderBytes.pngHeader(30, 20) + tag + HeaderBytes.chunk("tRNS", [0, 0]) + pixels)
        #expect(before.size == PixelSize(width: 20, height: 30))
        #expect(before.orientation == .left)
        #expect(before.hasAlpha)
        #expect(try info(HeaderBytes.pngHeader(30, 20) + pixels + tag).orientation == .up)
    }

    @Test("PNG: a length of 2^31 and more, or a header that is no header, is broken")
    func brokenPNG() {
        for length in [0x8000_0000, 0xFFFF_FFFF] {
            #expect(throws: DipperError.undecodable) {
                try info(HeaderBytes.pngHeader(3, 2) + HeaderBytes.chunk("tEXt", [1], length: length))
            }
        }
        #expect(throws: DipperError.undecodable) {
            try info(HeaderBytes.pngSignature + HeaderBytes.chunk("CgBI", [1, 2, 3, 4]))
        }
    }

    @Test("GIF: frames are counted up to what is no block, and loops told by either extension")
    func gif() throws {
        func loop(_ name: String, _ block: [UInt8]) -> [UInt8] { [0x21, 0xFF, 11] + Array(name.utf8) + block + [0] }
        func info(_ blocks: [UInt8]) throws -> ImageInfo { try self.info(HeaderBytes.gif(1, 1, blocks)) }
        let frame = HeaderBytes.gifFrame
        #expect(try info(frame + frame + [0x3B]).frameCount == 2)
        #expect(try info(frame + frame + [0x3B]).loopCount == 1)
        #expect(try info(frame + [0x77] + frame).frameCount == 1)
        #expect(try info([]).frameCount == 1)
        #expect(try info(loop("NETSCAPE2.0", [3, 1, 0, 0]) + frame).loopCount == 0)
        #expect(try info(loop("ANIMEXTS1.0", [3, 1, 2, 1]) + frame).loopCount == 259)
        #expect(try info(loop("NETSCAPE2.0", [1, 1]) + frame).loopCount == 1)
        #expect(try info(loop("XMP DataXMP", [3, 1, 5, 0]) + frame).loopCount == 1)
        #expect(try info(loop("NETSCAPE2.0", [3, 2, 9, 0]) + frame).loopCount == 1)
    }

    @Test("GIF: a screen without pixels holds the first frame")
    func emptyScreen() throws {
        #expect(try size(HeaderBytes.gif(0, 0, HeaderBytes.gifFrame)) == PixelSize(width: 1, height: 1))
        #expect(throws: DipperError.undecodable) { try info(HeaderBytes.gif(0, 5, [0x3B])) }
        #expect(throws: DipperError.undecodable) { try info(HeaderBytes.gif(0, 0, [0x2C, 0, 0])) }
    }

    @Test("WebP: chunks of lengths that are not so end the reading, and the size stays")
    func webP() throws {
        func file(_ chunks: [UInt8], length: Int? = nil) -> [UInt8] {
            Array("RIFF".utf8) + HeaderBytes.little32(length ?? chunks.count + 4) + Array("WEBP".utf8) + chunks
        }
        func chunk(_ type: String, _ content: [UInt8], length: Int? = nil) -> [UInt8] {
            Array(type.utf8) + HeaderBytes.little32(length ?? content.count) + content
        }
        let canvas = chunk("VP8X", [0x0A, 0, 0, 0, 29, 0, 0, 19, 0, 0])
        let tag = chunk("EXIF", HeaderBytes.directory([(0x112, 3, 1, 6)]))
        let turned = try info(file(canvas + chunk("ANMF", [0, 0]) + chunk("ANIM", [0, 0, 0, 0, 7, 0]) + tag))
        #expect(turned.size == PixelSize(width: 20, height: 30))
        #expect(turned.frameCount == 1)
        #expect(turned.loopCount == 7)
        for length in [0xFFFF_FFFF, 0xFFFF_FFFE, 0x7FFF_FFFF] {
            #expect(
                try size(file(canvas + chunk("ANMF", [], length: length) + tag)) == PixelSize(width: 30, height: 20))
        }
        let beyond = canvas.count + 4
        #expect(try size(file(canvas + tag, length: beyond)) == PixelSize(width: 30, height: 20))
        #expect(throws: DipperError.undecodable) { try info(file(chunk("ABCD", [1, 2, 3, 4]))) }
        #expect(throws: DipperError.undecodable) {
            try info(file(chunk("VP8 ", [1, 0, 0, 0x9D, 1, 0x2A, 9, 0, 9, 0])))
        }
    }

    @Test("TIFF: a directory outside, or without a size, is none")
    func tiff() throws {
        let sized = [(256, 4, 1, 30), (257, 3, 1, 20)]
        #expect(try size(HeaderBytes.directory(sized + [(274, 3, 1, 5)])) == PixelSize(width: 20, height: 30))
        #expect(throws: DipperError.undecodable) { try info(HeaderBytes.directory([(256, 4, 1, 30)])) }
        #expect(throws: DipperError.undecodable) { try info(HeaderBytes.directory(sized, offset: 0xFFFF_FFFF)) }
        #expect(try size(Array("II+\0\u{8}\0\0\0".utf8)) == nil)
    }

    @Test("icons: the largest counts, and 0 is 256")
    func icon() throws {
        func entry(_ width: UInt8, _ height: UInt8) -> [UInt8] {
            [width, height, 0, 0, 1, 0, 32, 0, 9, 0, 0, 0] + HeaderBytes.little32(1000)
        }
        let start: [UInt8] = [0, 0, 1, 0, 3, 0]
        #expect(
            try size(start + entry(16, 16) + entry(0, 0) + entry(48, 48)) == PixelSize(width: 256, height: 256))
        #expect(throws: DipperError.undecodable) { try info(start + entry(16, 16)) }
    }
}
