import CodecShims
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Rows are as long as the memory for them", .timeLimit(.minutes(5)))
struct RowFormTests {
    private static let names = [
        "rgb8", "palette4-trns", "rgba16", "rgb8-interlaced", "gamma-linear", "icc-p3",
    ]

    @Test(
        "a PNG whose rows would have another form than was computed is refused before any row is written",
        arguments: names)
    func otherForm(_ name: String) throws {
        let data = try Pictures.data("png/\(name).png")
        try data.withUnsafeBytes { bytes in
            let start = bytes.bindMemory(to: UInt8.self)
            for isWrong in [false, true] {
                let reader = try #require(dipper_png_open(start.baseAddress, start.count, false))
                defer { dipper_png_close(reader) }
                var header = dipper_png_header()
                #expect(dipper_png_read_header(reader, 1 << 20, &header) == DIPPER_PNG_OK)
                let status = dipper_png_start(reader, header.has_alpha != isWrong ? 4 : 3)
                #expect(status == (isWrong ? DIPPER_PNG_BROKEN : DIPPER_PNG_OK))
            }
        }
    }

    #if WebP
        @Test(
            "an animated WebP whose canvas would have another size than its header said is refused before it is read",
            arguments: [24, 27], [1, 255] as [UInt8])
        func otherCanvas(offset: Int, change: UInt8) throws {
            let data = try Pictures.data("webp/moving.webp")
            let bytes = PinnedBytes(data)
            // The canvas's width or height, of three bytes each, less one.
            var other = data
            other[offset] &+= change
            let features = try WebPFeatures(PinnedBytes(other))
            let own = try WebPFeatures(bytes)
            #expect(features.isMoving && features.size != own.size)
            #expect(throws: DipperError.undecodable) { try WebPFrames(bytes, features, .up, .init()) }
            #expect(try WebPFrames(bytes, own, .up, .init()).frameCount == 3)
        }
    #endif

    /// Chunks that may change what libpng makes of a row, put before the pixels, in every kind of file.
    @Test(
        "transparency in odd places and lengths gives a picture or an error, and rows that end where they should",
        arguments: names)
    func transparency(_ name: String) throws {
        let file = PNGFile(try Pictures.data("png/\(name).png"))
        let pixels = try #require(file.chunks.firstIndex { $0.kind == "IDAT" })
        var (pictures, errors) = (0, 0)
        for length in [0, 1, 2, 3, 6, 16, 255, 256, 257] {
            for count in 1...2 {
                for place in [1, pixels, pixels + 1] {
                    var copy = file
                    for _ in 0..<count {
                        copy.chunks.insert(("tRNS", Array(repeating: 7, count: length)), at: place)
                    }
                    for allowsPartial in [false, true] {
                        var options = DecodeOptions()
                        options.allowsPartial = allowsPartial
                        do throws(DipperError) {
                            let image = try CodecRegistry.standard.decode(copy.data, options)
                            #expect(image.pixels.count == image.width * image.height * 4)
                            pictures += 1
                        } catch {
                            #expect(error == .undecodable)
                            errors += 1
                        }
                    }
                }
            }
        }
        #expect(pictures > 0 && pictures + errors == 108)
    }

    @Test("a colour type that the header does not have is an error or a picture, interlaced or not", arguments: names)
    func colorTypes(_ name: String) throws {
        let file = PNGFile(try Pictures.data("png/\(name).png"))
        var outcomes = 0
        for type in 0...7 as ClosedRange<UInt8> {
            for depth in [1, 2, 4, 8, 16] as [UInt8] {
                for interlace in 0...2 as ClosedRange<UInt8> {
                    var copy = file
                    copy.chunks[0].body[8] = depth
                    copy.chunks[0].body[9] = type
                    copy.chunks[0].body[12] = interlace
                    do throws(DipperError) {
                        let image = try CodecRegistry.standard.decode(copy.data)
                        #expect(image.pixels.count == image.width * image.height * 4)
                    } catch {
                        #expect(error == .undecodable)
                    }
                    outcomes += 1
                }
            }
        }
        #expect(outcomes == 120)
    }
}
