import Dipper
import Foundation
import TestSupport
import Testing

@Suite("Pictures that mean harm", .timeLimit(.minutes(2))) struct HostileImageTests {
    private static let registry = CodecRegistry.standard

    /// One small picture of each format that the build reads, and each kind of it.
    static let readable: [ExpectedHeader] = ExpectedHeader.all.filter { expected in
        guard let data = try? expected.data(), let format = ImageFormat(sniffing: data) else { return false }
        return registry.readable.contains(format)
    }

    private func options(_ change: (inout DecodeOptions) -> Void) -> DecodeOptions {
        var options = DecodeOptions()
        change(&options)
        return options
    }

    /// - Returns: the error, or `nil` where there is a picture.
    private func failure(_ data: Data, _ options: DecodeOptions = .init()) -> DipperError? {
        do throws(DipperError) {
            _ = try Self.registry.decode(data, options)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "bytes that are no picture are of no format",
        arguments: [
            Data(), Data([0]), Data([0xFF]), Data(repeating: 0, count: 10_000), Data(repeating: 0xFF, count: 10_000),
            Data("<!DOCTYPE html><html><body>404 Not Found</body></html>".utf8), Data("{\"error\": 1}".utf8),
        ])
    func noPicture(_ data: Data) {
        #expect(failure(data) == .unsupportedFormat)
    }

    @Test("the build reads what it was made for; pictures of other formats are told so by name")
    func unreadable() throws {
        var formats: Set<ImageFormat> = [.jpeg, .png]
        #if GIF
            formats.insert(.gif)
        #endif
        #if WebP
            formats.insert(.webp)
        #endif
        #if AVIF
            formats.insert(.avif)
        #endif
        #expect(Self.registry.readable == formats && Self.readable.count > 5)
        for name in ["plain.heic", "plain.jxl", "mode-RGB.tiff", "mode-RGB.bmp", "large.ico"] {
            let data = try Pictures.data("headers/\(name)")
            let error = failure(data)
            #expect(error == .unsupportedFormat)
            #expect(error?.detail == ImageFormat(sniffing: data)?.rawValue)
        }
    }

    @Test("the bytes tell the format, and not what follows or precedes them", arguments: readable)
    func polyglot(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let tail = data + Data("%PDF-1.7 <script>GIF89a</script>".utf8)
        #expect(try Self.registry.decode(tail).pixels == Self.registry.decode(data).pixels)
        #expect(failure(Data("%PDF-1.7 ".utf8) + data) == .unsupportedFormat)
    }

    @Test("bytes too few to tell a format are of none; the first bytes of one alone are not decodable")
    func beginnings() throws {
        let telling: [ImageFormat: Int] = [.jpeg: 3, .png: 8, .gif: 6, .webp: 12, .avif: 12]
        for expected in Self.readable {
            let data = try expected.data()
            let needed = try #require(ImageFormat(sniffing: data).flatMap { telling[$0] })
            for length in 0...32 {
                let error = failure(data.prefix(length))
                #expect(error == (length < needed ? .unsupportedFormat : .undecodable), "\(expected.name): \(length)")
            }
        }
    }

    @Test("more pixels than allowed are refused, whatever size is wanted", arguments: readable)
    func pixels(_ expected: ExpectedHeader) throws {
        let count = expected.size.width * expected.size.height
        let target = TargetSize(PixelSize(width: 4, height: 4))
        for target in [nil, target] {
            var options = options {
                $0.target = target; $0.limits.pixels = count - 1
            }
            #expect(try failure(expected.data(), options) == .imageTooLarge)
            options.limits.pixels = count
            #expect(try failure(expected.data(), options) == nil)
        }
    }

    @Test("more memory than allowed is refused", arguments: readable)
    func memory(_ expected: ExpectedHeader) throws {
        let count = expected.size.width * expected.size.height * 4
        #expect(try failure(expected.data(), options { $0.limits.bytes = count - 1 }) == .imageTooLarge)
    }

    @Test("more frames than allowed are refused, unless only the first is wanted", arguments: readable)
    func frames(_ expected: ExpectedHeader) throws {
        guard try ImageInfo(expected.data()).frameCount > 1 else { return }
        #expect(try failure(expected.data(), options { $0.limits.frames = 2 }) == .imageTooLarge)
        let first = options {
            $0.limits.frames = 2; $0.firstFrameOnly = true
        }
        #expect(try failure(expected.data(), first) == nil)
        let decoder = try Self.registry.decoder(for: expected.data())
        #expect(try decoder.frames(of: expected.data(), first) == nil)
    }

    @Test("a few bytes that announce billions of pixels are refused by their header")
    func bombs() throws {
        let png = HeaderBytes.pngHeader(50_000, 50_000) + HeaderBytes.chunk("IDAT", Array(repeating: 0, count: 3000))
        #expect(failure(Data(png)) == .imageTooLarge)
        #expect(failure(Data(HeaderBytes.jpeg(65_500, 65_500))) == .imageTooLarge)
        #expect(failure(Data(HeaderBytes.jpeg(65_500, 65_500, frame: 0xC2))) == .imageTooLarge)
        #if GIF
            #expect(failure(Data(HeaderBytes.gif(65_535, 65_535, HeaderBytes.gifFrame))) == .imageTooLarge)
        #endif
        #if WebP
            let canvas: [UInt8] = [2, 0, 0, 0, 0xFF, 0xFF, 0, 0xFF, 0xFE, 0]
            let chunks = Array("VP8X".utf8) + HeaderBytes.little32(10) + canvas
            let file = Array("RIFF".utf8) + HeaderBytes.little32(chunks.count + 4) + Array("WEBP".utf8) + chunks
            #expect(failure(Data(file)) == .imageTooLarge)
        #endif
        #if AVIF
            let avif = HeaderBytes.heif(properties: [HeaderBytes.extent(0xFFFF_FFFF, 0xFFFF_FFFF)])
            #expect(failure(Data(avif)) == .imageTooLarge)
        #endif
    }

    @Test("a file that is cut off is undecodable, until the picture itself is whole", arguments: readable)
    func truncation(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let whole = try Self.registry.decode(data)
        // Of what moves the first frame may be there.
        let moves = expected.name.hasPrefix("moving")
        var isWhole = false
        for length in stride(from: 12, to: data.count - 12, by: max(1, data.count / 24)) {
            let cut = data.prefix(length)
            guard let error = failure(cut) else {
                isWhole = true
                // Orientation and profile of WebP come behind the picture: libwebp does not miss them.
                if expected.name == "profile-turned6.webp" { continue }
                #expect(moves, "\(length) bytes")
                #expect(try Self.registry.decode(cut).pixels == whole.pixels, "\(length) bytes")
                continue
            }
            #expect(error == .undecodable && !isWhole, "\(length) bytes")
        }
        // Which of the frames of AVIF come first is its writer's to say.
        if !moves || ImageFormat(sniffing: data) != .avif {
            #expect(isWhole == (moves || expected.name == "profile-turned6.webp"))
        }
    }

    @Test("where a part is allowed it is right as far as it goes, and more with more bytes", arguments: readable)
    func parts(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let format = ImageFormat(sniffing: data)
        let whole = try Self.registry.decode(data)
        let allowed = options { $0.allowsPartial = true }
        // Upright and in one pass, so that what has come is the upper rows. Of JPEG the last of them are made from their
        // neighbours, in ways that differ from version to version.
        let comesInRows =
            expected.orientation == .up && [.png, .gif, .webp].contains(format)
            && !["interlaced.png", "still.gif"].contains(expected.name)
        var (rows, isThere) = (0, false)
        for length in stride(from: 12, to: data.count - 12, by: max(1, data.count / 24)) {
            guard let image = try? Self.registry.decode(data.prefix(length), allowed) else {
                #expect(!isThere, "what there was is gone with \(length) bytes")
                continue
            }
            isThere = true
            // AVIF comes whole or not at all.
            #expect(format != .avif)
            // The orientation of WebP comes behind the picture.
            if expected.name != "profile-turned6.webp" { #expect(image.size == whole.size) }
            guard comesInRows else { continue }
            let right = Self.rightRows(image, whole)
            #expect(right >= rows, "\(length) bytes")
            rows = right
            // One row may have come in part.
            let stride = image.size.width * 4
            #expect(image.pixels.dropFirst((right + 1) * stride).allSatisfy { $0 == 0 }, "\(length) bytes")
        }
        if comesInRows, ![.webp].contains(format) { #expect(rows * 3 > whole.size.height, "\(rows) rows") }
    }

    /// Returns the number of rows from the top that equal those of the whole picture.
    private static func rightRows(_ image: Image, _ whole: Image) -> Int {
        let stride = whole.size.width * 4
        let (some, all) = (Array(image.pixels), Array(whole.pixels))
        return (0..<whole.size.height).first { row in
            some[row * stride..<(row + 1) * stride] != all[row * stride..<(row + 1) * stride]
        } ?? whole.size.height
    }

    /// In percent, and less than was seen. Checksums as those of PNG refuse most of it; GIF has none.
    private static let leastOfFlips: [ImageFormat: (pictures: Int, errors: Int)] = [
        .jpeg: (65, 6), .png: (3, 10), .gif: (90, 1), .webp: (6, 4), .avif: (15, 12),
    ]

    @Test("a byte that is another one gives a picture of the announced size, or an error", arguments: readable)
    func flips(_ expected: ExpectedHeader) throws {
        var data = try expected.data()
        let limited = options {
            $0.limits.pixels = 1 << 16; $0.limits.bytes = 1 << 20; $0.allowsPartial = true
        }
        var (pictures, errors) = (0, 0)
        for offset in stride(from: 0, to: data.count, by: max(1, data.count / 96)) {
            let byte = data[offset]
            for other in [byte ^ 0x01, byte ^ 0x80, 0, 0xFF] where other != byte {
                data[offset] = other
                if check(data, limited) { pictures += 1 } else { errors += 1 }
            }
            data[offset] = byte
        }
        let least = try #require(ImageFormat(sniffing: data).flatMap { Self.leastOfFlips[$0] })
        let flips = pictures + errors
        #expect(flips > 200)
        #expect(pictures * 100 >= flips * least.pictures, "\(pictures) pictures of \(flips)")
        #expect(errors * 100 >= flips * least.errors, "\(errors) errors of \(flips)")
    }

    /// - Returns: whether there is a picture.
    private func check(_ data: Data, _ options: DecodeOptions) -> Bool {
        do throws(DipperError) {
            let image = try Self.registry.decode(data, options)
            #expect(try ImageInfo(data).size == image.size)
            #expect(image.size.width * image.size.height <= options.limits.pixels)
            #expect(image.pixels.count == image.size.width * image.size.height * 4)
            return true
        } catch {
            // Which of the two breaks differs from version to version of the libraries; what is none of the format does not.
            let format = ImageFormat(sniffing: data)
            let isReadable = format.map { Self.registry.readable.contains($0) } ?? false
            #expect(isReadable ? [.undecodable, .imageTooLarge].contains(error) : error == .unsupportedFormat)
            return false
        }
    }

    @Test("headers with any other byte are read or refused", arguments: ExpectedHeader.all)
    func headerFlips(_ expected: ExpectedHeader) throws {
        var data = try expected.data().prefix(400)
        for offset in data.indices {
            let byte = data[offset]
            for other in [0, 0x7F, 0x80, 0xFF] {
                data[offset] = UInt8(other)
                do throws(DipperError) {
                    let info = try ImageInfo(data)
                    #expect(info.size.map { $0.width > 0 && $0.height > 0 } ?? true)
                    #expect(info.frameCount >= 1 && info.loopCount >= 0)
                } catch {
                    #expect(error == (ImageFormat(sniffing: data) == nil ? .unsupportedFormat : .undecodable))
                }
            }
            data[offset] = byte
        }
    }
}
