import Dipper
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("JPEG files that lie, are broken, or end too early", .timeLimit(.minutes(2))) struct JPEGHostileTests {
    private func file(_ name: String) throws -> JPEGFile { JPEGFile(try Pictures.data("jpeg/\(name).jpg")) }

    private func decode(_ file: JPEGFile, _ options: DecodeOptions = .init()) throws(DipperError) -> Image {
        try JPEGDecoder().decode(file.data, options)
    }

    @Test("a size above the limits is refused before memory is taken")
    func tooLarge() throws {
        for name in ["420", "progressive"] {
            var file = try file(name)
            file.claim(width: 65_500, height: 65_500)
            #expect(throws: DipperError.imageTooLarge) { try decode(file) }
            var options = DecodeOptions(target: TargetSize(PixelSize(width: 10, height: 10)))
            #expect(throws: DipperError.imageTooLarge) { try decode(file, options) }
            file.claim(width: 100, height: 100)
            options.limits.pixels = 9999
            #expect(throws: DipperError.imageTooLarge) { try decode(file, options) }
        }
    }

    @Test("coefficients count as memory, also where the result is small")
    func coefficients() throws {
        var file = try file("progressive-grey")
        file.claim(width: 8000, height: 8000)
        var options = DecodeOptions(target: TargetSize(PixelSize(width: 10, height: 10)))
        options.limits.bytes = 8000 * 8000 * 2
        #expect(throws: DipperError.imageTooLarge) { try decode(file, options) }
        var baseline = try self.file("grey")
        baseline.claim(width: 8000, height: 8000)
        #expect(try decode(baseline, options).size == PixelSize(width: 10, height: 10))
    }

    @Test("an empty size, a size libjpeg cannot, and twelve bits are undecodable")
    func frame() throws {
        for (index, values) in [(1, [0, 0]), (3, [0, 0]), (1, [255, 255]), (0, [12]), (5, [9])] as [(Int, [UInt8])] {
            var file = try file("420")
            file.changeFrame(index, to: values)
            #expect(throws: DipperError.undecodable) { try decode(file) }
        }
    }

    @Test("data that ends with a proper end before the last row gives a picture, as in browsers")
    func shortData() throws {
        var file = try file("420")
        let whole = try decode(file)
        file.claim(width: 61, height: 90)
        let image = try decode(file)
        #expect(image.isOpaque && image.size == PixelSize(width: 61, height: 90))
        #expect(image.pixels.prefix(61 * 4 * 40) == whole.pixels.prefix(61 * 4 * 40))
    }

    @Test("bad codes inside give a picture")
    func badCodes() throws {
        for name in ["420", "progressive", "restart"] {
            var file = try file(name)
            let end = file.scans[0].count
            file.scans[0].replaceSubrange(end - 40..<end - 28, with: Data(repeating: 0x55, count: 12))
            #expect(try decode(file).isOpaque)
        }
    }

    @Test("an error after a complete scan leaves what came")
    func errorBetweenScans() throws {
        var file = try file("progressive")
        // A Huffman table that defines more codes than there are.
        file.scans[3] = Data([0xFF, 0xC4, 0, 19, 0] + Array(repeating: 255, count: 16)) + file.scans[3]
        let image = try decode(file)
        let whole = try decode(try self.file("progressive"))
        #expect(image.isOpaque)
        #expect(Difference(image.pixels, whole.pixels).mean < 20)
    }

    // libjpeg takes the second frame's size before it refuses it: the reader must not go on with it.
    @Test("a second frame after a scan leaves what came")
    func secondFrame() throws {
        for name in ["progressive", "progressive-grey"] {
            var file = try file(name)
            let frame = try #require(file.header.first { $0[1] == 0xC2 })
            var other = frame
            other.replaceSubrange(5..<10, with: [0x20, 0, 0x20, 0, 4])
            file.scans[2] = other + file.scans[2]
            let image = try decode(file)
            #expect(image.isOpaque && image.size == PixelSize(width: 61, height: 43))
            let small = DecodeOptions(target: TargetSize(PixelSize(width: 30, height: 20)))
            #expect(try decode(file, small).isOpaque)
        }
    }

    @Test("more than 100 scans in arithmetic codes are refused")
    func arithmeticScans() throws {
        var file = try file("arithmetic-progressive")
        file.scans += Array(repeating: file.scans[1], count: 90 - file.scans.count)
        #expect(try decode(file).isOpaque)
        file.scans += Array(repeating: file.scans[1], count: 11)
        #expect(throws: DipperError.imageTooLarge) { try decode(file) }
    }

    @Test("more than 500 scans are refused, and fewer for large pictures")
    func scans() throws {
        var file = try file("progressive")
        let (first, last) = (file.scans[0], file.scans[1])
        file.scans = [first] + Array(repeating: last, count: 480)
        #expect(try decode(file).isOpaque)
        file.scans += Array(repeating: last, count: 40)
        #expect(throws: DipperError.imageTooLarge) { try decode(file) }

        file.scans = [first] + Array(repeating: last, count: 30)
        var options = DecodeOptions()
        options.limits.pixels = 61 * 43
        #expect(try decode(file, options).isOpaque)
        file.scans += [last, last]
        #expect(throws: DipperError.imageTooLarge) { try decode(file, options) }
    }

    @Test(
        "with bytes changed at random give a picture or an error",
        arguments: [
            "17x33", "progressive", "arithmetic-progressive", "ycck", "cmyk-profile", "profile-wide", "restart",
        ])
    func randomBytes(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        var random = SteadyNumbers(7)
        var options = DecodeOptions()
        options.limits.pixels = 1 << 16
        // Each changed profile is read anew, and tables are made of it.
        let rounds = name == "cmyk-profile" ? 30 : 120
        var pictures = 0
        for round in 0..<rounds {
            var changed = data
            for _ in 0...Int(random.next() % 6) {
                changed[Int(random.next() % UInt64(data.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            options.allowsPartial = round % 2 == 0
            options.target = round % 3 == 0 ? TargetSize(PixelSize(width: 5, height: 4)) : nil
            do {
                _ = try JPEGDecoder().decode(changed, options)
                pictures += 1
            } catch {
                #expect(error == .undecodable || error == .imageTooLarge)
            }
        }
        #expect(pictures > rounds / 10)
    }

    @Test("bytes that are not JPEG are not recognized, and undecodable")
    func foreign() {
        #expect(!JPEGDecoder().recognizes(Data("GIF89a".utf8)))
        #expect(JPEGDecoder().recognizes(Data([0xFF, 0xD8, 0xFF, 0xE0])))
        for data in [Data(), Data("GIF89a".utf8), Data([0xFF, 0xD8, 0xFF, 0xD9]), Data(repeating: 0xFF, count: 1000)] {
            #expect(throws: DipperError.undecodable) { try JPEGDecoder().decode(data, DecodeOptions()) }
        }
    }

    // MARK: Files that end too early

    private static let partial = {
        var options = DecodeOptions()
        options.allowsPartial = true
        return options
    }()

    /// The rows, which have no gaps in a picture just decoded.
    private func bytes(_ image: Image) -> Data { image.withPixels { Data($0) } }

    private static let names = [
        "17x33", "420", "progressive", "progressive-grey", "restart-blocks", "scans", "arithmetic", "ycck",
    ]

    @Test("are an error at every byte, until all data is there", arguments: names)
    func errors(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        let whole = try bytes(JPEGDecoder().decode(data, DecodeOptions()))
        var needed: Int?
        for count in 0...data.count {
            do {
                let image = try JPEGDecoder().decode(data.prefix(count), DecodeOptions())
                #expect(bytes(image) == whole, "\(count) bytes")
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
        var isThere = false
        for count in 0..<data.count {
            let image = try? JPEGDecoder().decode(data.prefix(count), Self.partial)
            #expect(!isThere || image != nil, "\(count) bytes")
            isThere = isThere || image != nil
        }
        #expect(isThere)
    }

    @Test("give the rows that came, where that is allowed", arguments: ["17x33", "420", "restart-blocks"])
    func partialRows(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        let whole = try bytes(JPEGDecoder().decode(data, DecodeOptions()))
        var heights: Set<Int> = []
        for count in 0..<data.count - 4 {
            guard let image = try? JPEGDecoder().decode(data.prefix(count), Self.partial) else { continue }
            let pixels = bytes(image)
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
        var errors: [Double] = []
        for count in Array(stride(from: 0, to: data.count, by: 11)) + [data.count] {
            guard let image = try? JPEGDecoder().decode(data.prefix(count), Self.partial), image.isOpaque else {
                continue
            }
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
        var options = Self.partial
        options.target = TargetSize(PixelSize(width: 50, height: 50))
        let image = try JPEGDecoder().decode(data.prefix(data.count / 2), options)
        #expect(image.size == PixelSize(width: 50, height: 38) && !image.isOpaque)
        #expect(image[25, 2].w == 255 && image[25, 37] == .zero)
        // Of no rows at all there is no picture.
        let other = try Pictures.data("jpeg/420.jpg")
        for count in [0, 1, 2, 3, 100, 640] {
            #expect(throws: DipperError.undecodable) { try JPEGDecoder().decode(other.prefix(count), Self.partial) }
        }
    }

    // MARK: Cancelling

    @Test(
        "a decode can be cancelled between rows, in one scan or several",
        arguments: [("large", 18), ("large-progressive", 25), ("cmyk-profile", 3)])
    func cancelled(_ name: String, _ least: Int) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        func decode(cancelledAt limit: Int) throws(DipperError) -> Int {
            let questions = Mutex(0)
            var options = DecodeOptions()
            options.isCancelled = {
                questions.withLock {
                    $0 += 1
                    return $0 > limit
                }
            }
            _ = try JPEGDecoder().decode(data, options)
            return questions.withLock { $0 }
        }
        let all = try decode(cancelledAt: .max)
        // Sixteen rows for each question; and for several scans, sixteen rows of blocks of each scan besides.
        #expect(all > least)
        for limit in 0..<all {
            #expect(throws: DipperError.cancelled) { _ = try decode(cancelledAt: limit) }
        }
    }
}
