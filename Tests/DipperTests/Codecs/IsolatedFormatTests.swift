#if HEIC || JXL || SVG
    import TestSupport
    import Testing

    @testable import Dipper

    @Suite("Formats that are decoded apart unless the program says otherwise", .timeLimit(.minutes(3)))
    struct IsolatedFormatTests {
        private static let codecs = CodecRegistry.standard
        private static func readable(_ paths: String...) -> [String] { paths.filter(Pictures.isReadable) }

        private func decode(_ data: Data, _ isolation: Isolation = .automatic) throws(DipperError) -> Image {
            try Self.codecs.decode(data, .with { $0.isolation = isolation })
        }

        @Test(
            "A helper decodes them, and this program if it says so",
            arguments: readable("heic/grid.heic", "jxl/alpha.jxl", "jxl/moving.jxl", "svg/filter.svg"))
        func apart(_ path: String) throws {
            let data = try Pictures.data(path)
            let decoder = try Self.codecs.decoder(for: data)
            #expect(Self.codecs.isolation(of: decoder, .init()) == .preferred)
            #expect(Self.codecs.isolation(of: decoder, .with { $0.isolation = .off }) == .off)
            #expect(Self.codecs.isolation(of: PNGDecoder(), .init()) == .off)
            let (there, here) = (try decode(data, .required), try decode(data, .off))
            #expect(there.pixels == here.pixels && there.isOpaque == here.isOpaque)
            #expect(there.animation?.frameCount == here.animation?.frameCount)
            #expect(there.animation?.loopCount == here.animation?.loopCount)
        }

        @Test(
            "Every beginning of a file, and every few bytes changed, gives a picture or an error of ours",
            arguments: readable(
                "heic/tiny.heic", "jxl/tiny.jxl", "jxl/tiny-lossless.jxl", "jxl/tiny-moving.jxl", "svg/filter.svg"))
        func damaged(_ path: String) throws {
            let data = try Pictures.data(path)
            let step = max(1, data.count / 120)
            var files = stride(from: 0, to: data.count, by: step).map { data.prefix($0) }
            for index in stride(from: 0, to: data.count, by: step) {
                for mask: UInt8 in [0xFF, 0x01] {
                    files.append(data)
                    files[files.count - 1][index] ^= mask
                }
            }
            for file in files {
                var options = DecodeOptions.partial
                options.limits.pixels = 1 << 16
                options.limits.bytes = 16 << 20
                let error = Self.codecs.failure(file, options)
                let expected: [DipperError?] = [
                    nil, .undecodable, .imageTooLarge, .unsupportedFormat, .decoderFailed,
                ]
                #expect(expected.contains(error))
            }
        }

        @Test(
            "The frames of an animation come again, one by one",
            arguments: readable("jxl/moving.jxl", "jxl/floating.jxl"))
        func frames(_ path: String) throws {
            let animation = try #require(try decode(Pictures.data(path)).animation)
            let frames = try animation.makeFrameDecoder()
            let first = try frames.rest()
            try frames.rewind()
            let second = try frames.rest()
            #expect(first.count == 3 && first.map(\.image.pixels) == second.map(\.image.pixels))
            #expect(first.map(\.duration) == second.map(\.duration))
        }

        #if JXL
            @Test("A JPEG XL whose bytes are coming is coarse, and whole at the end")
            func partial() throws {
                let data = try Pictures.data("jxl/large.jxl")
                let whole = try decode(data)
                var differences: [Double] = []
                for part in 1...8 {
                    let cut = data.prefix(data.count * part / 8)
                    guard let image = try? Self.codecs.decode(cut, .partial) else { continue }
                    #expect(image.size == whole.size)
                    differences.append(Difference(image.pixels, whole.pixels).mean)
                }
                #expect(differences.count > 4 && differences.last == 0)
                #expect(zip(differences, differences.dropFirst()).allSatisfy { $0 >= $1 })
            }
        #endif

        #if HEIC
            @Test("A HEIC whose coded picture is larger than it announces is refused before memory is taken")
            func hiddenSize() throws {
                var data = try Pictures.data("heic/orientation-1.heic")
                let place = try #require(data.firstRange(of: Data("ispe".utf8))).upperBound + 4
                data.replaceSubrange(place..<place + 8, with: [0, 0, 0, 64, 0, 0, 0, 64])
                // Of two threes after zeros, only the first one is no data.
                var stuffed = data
                let set = try #require(data.firstRange(of: Data([0x42, 1, 1]))).upperBound
                let flags = try #require(data[set...].firstRange(of: Data([0x90, 0, 0, 3, 0, 0, 3, 0, 0x1E])))
                stuffed.replaceSubrange(flags, with: [0x90, 0, 0, 3, 3, 0, 0, 3, 0x1E])
                for (data, isolation) in [(data, Isolation.off), (data, .required), (stuffed, .off)] {
                    #expect(throws: DipperError.imageTooLarge) { try decode(data, isolation) }
                }
            }

            @Test("A HEIC whose grid is larger than it announces is refused before memory is taken")
            func hiddenGrid() throws {
                var data = try Pictures.data("heic/grid.heic")
                // Two rows and columns, and the size of the whole.
                let size = try #require(data.firstRange(of: Data([0, 0, 1, 1, 0, 120, 0, 100]))).suffix(4)
                data.replaceSubrange(size, with: [0x75, 0x30, 0x75, 0x30])
                // A long side allows no large square.
                var narrow = data
                let announced = try #require(data.firstRange(of: Data("ispe".utf8))).upperBound + 4
                narrow.replaceSubrange(announced..<announced + 8, with: [0, 0, 0x75, 0x30, 0, 0, 0, 1])
                for data in [data, narrow] {
                    for isolation in [Isolation.off, .required] {
                        #expect(throws: DipperError.imageTooLarge) { try decode(data, isolation) }
                    }
                }
            }

            @Test("A HEIC with several headers is refused, because libheif may read another one than this program")
            func severalHeaders() throws {
                let data = try Pictures.data("heic/tiny.heic")
                let start = try #require(data.firstRange(of: Data("meta".utf8))).lowerBound - 4
                let length = data[start..<start + 4].reduce(0) { $0 << 8 | Int($1) }
                #expect(throws: DipperError.undecodable) { try decode(data + data[start..<start + length], .off) }
            }
        #endif
    }
#endif
