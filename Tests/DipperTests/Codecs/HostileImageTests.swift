import HostileCalls
import TestSupport
import Testing

@Suite("Pictures that mean harm", .timeLimit(.minutes(2))) struct HostileImageTests {
    private static let registry = CodecRegistry.standard

    /// One small picture of each format that the build reads, and each kind of it.
    static let readable: [ExpectedHeader] = ExpectedHeader.all.filter { expected in
        guard let data = try? expected.data(), let format = ImageFormat(sniffing: data) else { return false }
        return registry.readable.contains(format)
    }

    private func failure(_ data: Data, _ options: DecodeOptions = .init()) -> DipperError? {
        Self.registry.failure(data, options)
    }

    @Test("the build reads what it was made for; pictures of other formats are told so by name")
    func unreadable() throws {
        var formats: Set<ImageFormat> = [.jpeg, .png, .bmp, .ico]
        #if GIF
            formats.insert(.gif)
        #endif
        #if WebP
            formats.insert(.webp)
        #endif
        #if AVIF
            formats.insert(.avif)
        #endif
        #if HEIC
            formats.insert(.heic)
        #endif
        #if JXL
            formats.insert(.jpegXL)
        #endif
        #if SVG
            formats.insert(.svg)
        #endif
        #expect(Self.registry.readable == formats && Self.readable.count > 5)
        for name in ["plain.heic", "plain.jxl", "mode-RGB.tiff"]
        where !Pictures.isReadable(name) {
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

    /// The number of bytes that tell a format.
    private static let telling: [ImageFormat: Int] = [
        .jpeg: 3, .png: 8, .gif: 6, .webp: 12, .avif: 12, .heic: 12, .jpegXL: 2, .bmp: 18, .ico: 22,
    ]

    @Test("bytes too few to tell a format are of none; the first bytes of one alone are not decodable")
    func beginnings() throws {
        for expected in Self.readable {
            let data = try expected.data()
            let needed = try #require(ImageFormat(sniffing: data).flatMap { Self.telling[$0] })
            for length in 0...32 {
                let error = failure(data.prefix(length))
                #expect(error == (length < needed ? .unsupportedFormat : .undecodable), "\(expected.name): \(length)")
            }
        }
    }

    @Test("more memory than allowed is refused, and more pixels, whatever size is wanted", arguments: readable)
    func pixels(_ expected: ExpectedHeader) throws {
        let count = expected.size.width * expected.size.height
        #expect(try failure(expected.data(), .with { $0.limits.bytes = count * 4 - 1 }) == .imageTooLarge)
        for target in [nil, TargetSize(width: 4, height: 4)] {
            var options = DecodeOptions(target: target)
            options.limits.pixels = count - 1
            #expect(try failure(expected.data(), options) == .imageTooLarge)
            options.limits.pixels = count
            #expect(try failure(expected.data(), options) == nil)
        }
    }

    @Test("more frames than allowed are refused, unless only the first is wanted", arguments: readable)
    func frames(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let count = try ImageInfo(data).frameCount
        guard count > 1 else { return }
        var limited = DecodeOptions.with { $0.limits.frames = count - 1 }
        #expect(failure(data, limited) == .imageTooLarge)
        limited.firstFrameOnly = true
        #expect(try Self.registry.decode(data, limited).animation == nil)
        #expect(try Self.registry.decoder(for: data).frames(of: data, limited) == nil)
    }

    @Test("a few bytes that announce billions of pixels are refused by their header, whatever size is wanted")
    func bombs() throws {
        typealias Bytes = HeaderBytes
        let header = HeaderBytes.pngHeader(50_000, 50_000) + HeaderBytes.chunk("IDAT", Array(repeating: 0, count: 3000))
        var files = [header, HeaderBytes.jpeg(65_500, 65_500), HeaderBytes.jpeg(65_500, 65_500, frame: 0xC2)].map {
            Data($0)
        }
        for (bits, coding) in [(1, 0), (8, 1), (24, 0), (32, 3)] {
            for (width, height) in [(50_000, -50_000), (0x7FFF_FFFF, -0x8000_0000), (1 << 30, 1)] {
                let bitmap = Bytes.bitmap(width, height, bits: bits, coding: coding, colors: 1)
                files.append(Data(Bytes.bmp(bitmap + Array(repeating: 0, count: 100))))
            }
        }
        for name in ["rgb8", "rgba8-interlaced", "rgb16"] {
            let file = PNGFile(try Pictures.data("png/\(name).png"))
            for (width, height): (UInt32, UInt32) in [(50_000, 50_000), (1 << 31 - 1, 1 << 31 - 1), (1 << 30, 1)] {
                files.append(file.claiming(width: width, height: height))
            }
        }
        for name in ["420", "progressive"] {
            var file = JPEGFile(try Pictures.data("jpeg/\(name).jpg"))
            file.claim(width: 65_500, height: 65_500)
            files.append(file.data)
        }
        #if GIF
            files.append(Data(HeaderBytes.gif(65_535, 65_535, HeaderBytes.gifFrame)))
            // A small screen with a frame that is larger than any screen may be.
            var frame = HeaderBytes.gifFrame
            frame.replaceSubrange(5..<9, with: [255, 255, 255, 255])
            files.append(Data(HeaderBytes.gif(1, 1, frame)))
        #endif
        #if WebP
            let canvas = HeaderBytes.riff("VP8X", [2, 0, 0, 0, 0xFF, 0xFF, 0, 0xFF, 0xFE, 0])
            files.append(Data(HeaderBytes.webP(canvas)))
            // 16383 pixels each way: lossless, one bit after the other in the header.
            var lossless = try Pictures.data("webp/tiny-lossless.webp")
            lossless.replaceSubrange(21..<25, with: [0xFE, 0xBF, 0xFF, 0x1F])
            #expect(try ImageInfo(lossless).size?.width == 16383)
            #expect(failure(lossless) == .imageTooLarge)
        #endif
        #if AVIF
            files.append(Data(HeaderBytes.heif(properties: [HeaderBytes.extent(0xFFFF_FFFF, 0xFFFF_FFFF)])))
            var whole = try Pictures.data("avif/tiny.avif")
            let place = try #require(whole.range(of: Data("ispe".utf8))).upperBound + 4
            whole.replaceSubrange(place..<place + 8, with: [0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF])
            files.append(whole)
        #endif
        for (index, file) in files.enumerated() {
            for target in [nil, TargetSize(width: 10, height: 10)] {
                #expect(failure(file, DecodeOptions(target: target)) == .imageTooLarge, "\(index)")
            }
        }
    }

    /// Pictures, and the step between the lengths that are tried.
    private static let cut: [(String, Int)] =
        readable.map { ("headers/\($0.name)", 20) }
        + PictureTests.png.map { ($0.path, $0.path.contains("rgba8.") || $0.path.contains("tiny") ? 1 : 13) }
        + ["17x33", "420", "progressive", "progressive-grey", "restart-blocks", "scans", "arithmetic", "ycck"].map {
            ("jpeg/\($0).jpg", 1)
        }

    @Test(
        "a file that is cut off is undecodable until the picture itself is whole; a part of it stays once it is there",
        arguments: cut)
    func truncation(_ path: String, step: Int) throws {
        let data = try Pictures.data(path)
        let format = try #require(ImageFormat(sniffing: data))
        let whole = try Self.registry.decode(data)
        // Orientation and profile of WebP come behind the picture: libwebp does not miss them.
        let isLate = path == "headers/profile-turned6.webp"
        var (needed, isThere): (Int?, Bool) = (nil, false)
        let first = max(12, Self.telling[format] ?? 0)
        for length in Array(stride(from: first, to: data.count - 12, by: step)) + (data.count - 12...data.count) {
            let cut = data.prefix(length)
            do throws(DipperError) {
                let image = try Self.registry.decode(cut)
                #expect(isLate || image.pixels == whole.pixels, "\(length) bytes")
                needed = needed ?? length
            } catch {
                #expect(error == .undecodable && needed == nil, "\(length) bytes")
                if path.hasPrefix("jpeg"), length > 700 { #expect(error.detail == "truncated") }
            }
            let part = try? Self.registry.decode(cut, .partial)
            #expect(!isThere || part != nil, "what there was is gone with \(length) bytes")
            isThere = part != nil
            if let part {
                #expect(isLate || part.size == whole.size)
            } else {
                #expect(failure(cut, .partial) == .undecodable)
            }
            if format == .avif || format == .heic { #expect(isThere == (needed != nil), "whole or not at all") }
        }
        // Of an animation the first frame may be there; the writer of an AVIF decides which frame comes first.
        let moves = path.contains("moving")
        let may: ClosedRange<Int> =
            switch format {
            case .avif where moves: 0...data.count
            case _ where moves || isLate: 13...data.count
            // Arithmetic code has no visible end. Otherwise the end marker may be missing, and a fill byte before it.
            case .jpeg: path.contains("arithmetic") ? 0...0 : 2...4
            case .png: 12...12
            default: 0...12
            }
        #expect(may.contains(data.count - (try #require(needed))))
    }

    /// Upright and in one pass, with the least number of different heights seen. The last rows of a JPEG are made from
    /// their neighbours, differently by version: 3 where that is the last row alone.
    private static let inRows =
        readable.filter { file in
            file.orientation == .up && !["interlaced.png", "still.gif"].contains(file.name)
                && ["png", "gif", "webp"].contains(file.fileExtension)
        }.map { ("headers/\($0.name)", $0.fileExtension == "webp" ? 0 : 2) }
        + [
            ("png/rgb8.png", 21), ("gif/still.gif", 4), ("webp/lossy.webp", 2), ("jpeg/17x33.jpg", 2),
            ("jpeg/420.jpg", 2), ("jpeg/restart-blocks.jpg", 2),
        ].filter { Pictures.isReadable($0.0) }

    @Test("where a part is allowed the rows that came are there, and the rest is transparent", arguments: inRows)
    func rows(_ path: String, _ least: Int) throws {
        let data = try Pictures.data(path)
        let whole = try Self.registry.decode(data)
        let (stride, all) = (whole.width * 4, whole.pixels)
        // The last row may have come in part, or is mixed with the next one.
        let unsure = path.hasSuffix("png") ? 0 : 1
        var heights = [0]
        for length in Swift.stride(
            from: 12, to: data.count - 16, by: max(1, data.count / (path.hasPrefix("headers") ? 24 : 100)))
        {
            guard let image = try? Self.registry.decode(data.prefix(length), .partial) else { continue }
            let pixels = image.pixels
            let right =
                (0..<whole.height).first { row in
                    pixels[row * stride..<(row + 1) * stride] != all[row * stride..<(row + 1) * stride]
                } ?? whole.height
            if right + unsure < whole.height { #expect(!image.isOpaque) }
            #expect(right >= heights[heights.count - 1], "\(length) bytes")
            #expect(pixels.dropFirst((right + unsure) * stride).allSatisfy { $0 == 0 }, "\(length) bytes")
            heights.append(right)
        }
        #expect(Set(heights).count > least, "\(heights)")
        if !path.hasSuffix("webp") { #expect(heights[heights.count - 1] * 3 > whole.height, "\(heights)") }
    }

    @Test(
        "complete frames of an animation are shown when the file ends too early",
        arguments: [("gif/keep.gif", 100, 3), ("apng/keep-over.png", 100, 3), ("webp/moving.webp", 20, 2)].filter {
            Pictures.isReadable($0.0)
        })
    func truncatedAnimation(_ path: String, missing: Int, frames: Int) throws {
        let data = try Pictures.data(path)
        #expect(try Self.registry.decoder(for: data).allFrames(of: data.dropLast(missing)).count == frames)
    }

    @Test(
        "every beginning of a file, and every byte changed, gives an error of ours and nothing worse",
        arguments: [
            "gif/tiny.gif", "apng/tiny.png", "webp/tiny.webp", "webp/tiny-lossless.webp", "webp/tiny-moving.webp",
            "avif/tiny.avif",
            "avif/tiny-moving.avif", "bmp/tiny.bmp", "bmp/tiny-masks.bmp", "ico/tiny.ico",
        ].filter(Pictures.isReadable))
    func damaged(_ path: String) throws {
        let data = try Pictures.data(path)
        try Self.registry.decoder(for: data).survivesDamage(to: data)
    }

    @Test("what is damaged shows nothing that was in memory before")
    func forgetful() throws {
        var options = DecodeOptions.partial
        options.isolation = .off
        // For the whole process, so in one go.
        defer { hostile_fill_new_memory(0) }
        for path in PictureTests.stills.map(\.path) {
            let whole = try Pictures.data(path)
            var random = SeededRandom(UInt64(whole.count))
            for round in 0..<workload(5) {
                var data = whole
                for _ in 0..<2 { data[data.count / 3 + random.below(data.count * 2 / 3)] = UInt8(random.below(256)) }
                let images = [0x33, 0xCC].map { byte -> [UInt8]? in
                    hostile_fill_new_memory(Int32(byte))
                    _ = Image.filled(with: Color(hex: UInt32(byte) * 0x010101), 64, 64)
                    return try? Self.registry.decode(data, options).pixels
                }
                #expect(images[0] == images[1], "\(path), round \(round)")
            }
        }
    }

    /// Pictures and errors in percent, less than were seen. Checksums as those of PNG refuse most of it; GIF has none.
    private static let leastOfFlips: [ImageFormat: (Int, Int)] = [
        .jpeg: (65, 6), .png: (3, 10), .gif: (90, 1), .webp: (6, 4), .avif: (15, 12), .heic: (10, 5), .jpegXL: (0, 5),
        .bmp: (40, 1), .ico: (3, 5),
    ]

    private static let flipped =
        readable.map { "headers/\($0.name)" }
        + ["17x33", "progressive", "arithmetic-progressive", "ycck", "cmyk-profile", "profile-wide", "restart"]
        .map { "jpeg/\($0).jpg" }

    @Test("a byte that is another one gives a picture of the announced size, or an error", arguments: flipped)
    func flips(_ path: String) throws {
        var data = try Pictures.data(path)
        var limited = DecodeOptions.with {
            $0.limits.pixels = 1 << 16
            $0.limits.bytes = 8 << 20
        }
        var results = [true: 0, false: 0]
        // Each changed profile is read again, and tables are made of it.
        let offsets = path.hasPrefix("headers") ? 96 : path.contains("cmyk-profile") ? 12 : 40
        for offset in stride(from: 0, to: data.count, by: max(1, data.count / offsets)) {
            let byte = data[offset]
            for (index, other) in [byte ^ 0x01, byte ^ 0x80, 0, 0xFF].enumerated() where other != byte {
                data[offset] = other
                limited.allowsPartial = path.hasPrefix("headers") || index % 2 == 0
                let isSmaller = path.hasPrefix("jpeg") && (offset + index) % 3 == 0
                limited.target = isSmaller ? TargetSize(width: 5, height: 4) : nil
                results[check(data, limited), default: 0] += 1
            }
            data[offset] = byte
        }
        let format = try #require(ImageFormat(sniffing: data))
        let least = path.hasPrefix("headers") ? try #require(Self.leastOfFlips[format]) : (10, 1)
        let (pictures, errors) = (results[true] ?? 0, results[false] ?? 0)
        let flips = pictures + errors
        #expect(flips > min(offsets, data.count) * 2)
        #expect(pictures * 100 >= flips * least.0, "\(pictures) pictures of \(flips)")
        #expect(errors * 100 >= flips * least.1, "\(errors) errors of \(flips)")
    }

    private func check(_ data: Data, _ options: DecodeOptions) -> Bool {
        do throws(DipperError) {
            let image = try Self.registry.decode(data, options)
            let size = try ImageInfo(data).size
            #expect(image.size == size.map { options.target?.size(for: $0) ?? $0 })
            #expect(image.size.width * image.size.height <= options.limits.pixels)
            #expect(image.pixels.count == image.size.width * image.size.height * 4)
            return true
        } catch {
            // Which error comes depends on the versions of the libraries; bytes of no known format are unsupported.
            let format = ImageFormat(sniffing: data)
            let isReadable = format.map { Self.registry.readable.contains($0) } ?? false
            // A helper may have crashed: that is an error of this file alone.
            let isApart = [.heic, .jpegXL].contains(format)
            #expect(
                isReadable
                    ? [.undecodable, .imageTooLarge].contains(error) || isApart && error == .decoderFailed
                    : error == .unsupportedFormat)
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
