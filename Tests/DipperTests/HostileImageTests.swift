import Dipper
import Foundation
import Testing

@Suite("Pictures that mean harm") struct HostileImageTests {
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

    @Test("the build reads what it was made for")
    func formats() {
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
        #expect(Self.registry.readable == formats)
        #expect(Self.readable.count > 5)
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

    @Test("pictures of formats that no codec reads are told so by name")
    func unreadable() throws {
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
        #expect(failure(tail) == nil)
        #expect(failure(Data("%PDF-1.7 ".utf8) + data) == .unsupportedFormat)
    }

    @Test("the first bytes of a format alone are not decodable", arguments: [1, 2, 3, 4, 8, 12, 16, 24, 32])
    func beginnings(_ length: Int) throws {
        for expected in Self.readable {
            let error = try failure(expected.data().prefix(length))
            #expect(
                error == .unsupportedFormat || error == .undecodable, "\(expected.name): \(String(describing: error))")
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
            #expect(failure(Data(file)).map { [.imageTooLarge, .undecodable].contains($0) } == true)
        #endif
        #if AVIF
            let avif = HeaderBytes.heif(properties: [HeaderBytes.extent(0xFFFF_FFFF, 0xFFFF_FFFF)])
            #expect(failure(Data(avif)).map { [.imageTooLarge, .undecodable].contains($0) } == true)
        #endif
    }

    @Test("sizes of zero and of 2^31 are refused")
    func sizes() {
        for (width, height) in [(0, 1), (1, 0), (0x7FFF_FFFF, 0x7FFF_FFFF), (0xFFFF_FFFF, 1), (1, 0x8000_0000)] {
            let png = HeaderBytes.pngHeader(width, height) + HeaderBytes.chunk("IDAT", [1])
            let error = failure(Data(png))
            #expect(error == .imageTooLarge || error == .undecodable, "\(width)x\(height)")
        }
        #expect(failure(Data(HeaderBytes.jpeg(0, 8))) == .undecodable)
        #expect(failure(Data(HeaderBytes.jpeg(8, 0))) == .undecodable)
    }

    #if GIF
        @Test("100,000 frames are refused, and the first alone is not")
        func manyFrames() throws {
            var data = Data(HeaderBytes.gif(1, 1, []))
            for _ in 0..<100_000 { data.append(contentsOf: HeaderBytes.gifFrame) }
            #expect(failure(data) == .imageTooLarge)
            #expect(failure(data, options { $0.firstFrameOnly = true }) == nil)
        }
    #endif

    @Test("a file that is cut off is an error, or a part of the picture where that is allowed", arguments: readable)
    func truncation(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        for length in stride(from: 12, to: data.count - 12, by: max(1, data.count / 24)) {
            let error = failure(data.prefix(length))
            #expect(error == .undecodable || error == nil, "\(length) bytes")
            let partial = options { $0.allowsPartial = true }
            guard let image = try? Self.registry.decode(data.prefix(length), partial) else { continue }
            #expect(image.size == expected.size || image.size == expected.orientation.applied(to: expected.size))
        }
    }

    /// libjpeg takes it for this picture's before it refuses it.
    @Test("a second frame header after complete scans changes nothing of the picture")
    func secondFrameHeader() throws {
        let data = try Pictures.data("headers/progressive.jpg")
        let second = HeaderBytes.segment(0xC0, [8, 0, 26, 0, 40, 1, 1, 0x11, 0])
        let broken = data.dropLast(2) + second + data.suffix(300)
        #expect(try Self.registry.decode(broken).pixels == Self.registry.decode(data).pixels)
    }

    @Test("a byte that is another one gives a picture of the announced size, or an error", arguments: readable)
    func flips(_ expected: ExpectedHeader) throws {
        var data = try expected.data()
        let limited = options {
            $0.limits.pixels = 1 << 16; $0.limits.bytes = 1 << 20; $0.allowsPartial = true
        }
        for offset in stride(from: 0, to: data.count, by: max(1, data.count / 96)) {
            let byte = data[offset]
            for other in [byte ^ 0x01, byte ^ 0x80, 0, 0xFF] where other != byte {
                data[offset] = other
                check(data, limited)
            }
            data[offset] = byte
        }
    }

    private func check(_ data: Data, _ options: DecodeOptions) {
        do throws(DipperError) {
            let image = try Self.registry.decode(data, options)
            #expect(try ImageInfo(data).size == image.size)
        } catch {
            #expect([.undecodable, .imageTooLarge, .unsupportedFormat].contains(error))
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
                    #expect(error == .undecodable || error == .unsupportedFormat)
                }
            }
            data[offset] = byte
        }
    }
}
