import CodecShims
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("JPEG files that are unusual, lie, are broken, or end too early", .timeLimit(.minutes(2))) struct JPEGTests {
    private let decoder = JPEGDecoder()

    private func file(_ name: String) throws -> JPEGFile { JPEGFile(try Pictures.data("jpeg/\(name).jpg")) }

    private func decode(_ file: JPEGFile, _ options: DecodeOptions = .init()) throws(DipperError) -> Image {
        try decoder.decode(file.data, options)
    }

    @Test("coefficients count as memory, also where the result is small")
    func coefficients() throws {
        var file = try file("progressive-grey")
        file.claim(width: 8000, height: 8000)
        var options = DecodeOptions(target: TargetSize(width: 10, height: 10))
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

    private func eighth(of data: Data, isFlawless: Bool) throws -> [UInt8] {
        try data.withBytes { bytes throws(DipperError) in
            let reader = try JPEGReader(bytes)
            try reader.start(eighths: 1, isFlawless: isFlawless)
            let size = reader.outputSize
            guard !reader.header.has_several_scans, size.width * size.height < 1 << 16 else { throw .cancelled }
            let pixels = UnsafeMutableRawBufferPointer.allocate(byteCount: size.width * size.height * 4, alignment: 1)
            defer { pixels.deallocate() }
            guard let base = pixels.baseAddress else { throw .undecodable }
            do throws(DipperError) {
                let done = try reader.read(size.height, of: size.width * 4, into: base)
                if done < size.height { throw RowWriter.truncated }
            } catch {
                throw reader.foundFlaw ? .notCached : error
            }
            return Array(pixels)
        }
    }

    @Test("an eighth of a file without a flaw is decoded faster, to the same pixels; others are left to libjpeg")
    func eighths() throws {
        var random = SeededRandom(3)
        var files = try [
            "pixel", "420", "422", "440", "411", "444", "grey", "rgb", "17x33", "restart", "restart-blocks", "cmyk",
            "ycck",
        ].map { try Pictures.data("jpeg/\($0).jpg") }
        // Codes of all lengths.
        let noise = try Processed.noise(120, 90)
        for quality in [0.1, 0.5, 0.95, 1] {
            files.append(try JPEGEncoder().encode(noise, .init(quality: quality)))
        }
        var results = (same: 0, flawed: 0, equallyBroken: 0)
        for (index, file) in files.enumerated() {
            #expect(try eighth(of: file, isFlawless: true) == eighth(of: file, isFlawless: false))
            guard index > 0 else { continue }
            // The end is missing.
            #expect(throws: DipperError.notCached) { try eighth(of: file.prefix(file.count - 20), isFlawless: true) }
            #expect(throws: DipperError.undecodable) { try eighth(of: file.prefix(file.count - 20), isFlawless: false) }
            let start = try #require(file.lastRange(of: Data([0xFF, 0xC4]))?.lowerBound)
            for _ in 0..<150 {
                var changed = file
                for _ in 0...random.below(2) {
                    let place = start + random.below(file.count - start)
                    changed[place] = random.below(3) == 0 ? 0xFF : UInt8(truncatingIfNeeded: random.next())
                }
                let expected = Result { try eighth(of: changed, isFlawless: false) }
                switch Result(catching: { try eighth(of: changed, isFlawless: true) }) {
                case .success(let pixels):
                    results.same += 1
                    #expect(try pixels == expected.get())
                case .failure(let error as DipperError) where error == .notCached: results.flawed += 1
                case .failure: results.equallyBroken += (try? expected.get()) == nil ? 1 : -100_000
                }
                // Whoever decodes it, the picture is the same.
                if index == 1, let pixels = try? expected.get() {
                    let size = try #require(try ImageInfo(changed).size)
                    let target = TargetSize(width: (size.width + 7) / 8, height: (size.height + 7) / 8, .stretch)
                    #expect(try decoder.decode(changed, DecodeOptions(target: target)).pixels == pixels)
                }
            }
        }
        #expect(results.same > 100 && results.flawed > 100 && results.equallyBroken >= 0, "\(results)")
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
            let small = DecodeOptions(target: TargetSize(width: 30, height: 20))
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
        let options = DecodeOptions.with { $0.limits.pixels = 61 * 43 }
        #expect(try decode(file, options).isOpaque)
        file.scans += [last, last]
        #expect(throws: DipperError.imageTooLarge) { try decode(file, options) }
    }

    @Test("bytes that are not JPEG are not recognized, and undecodable")
    func foreign() {
        #expect(!decoder.recognizes(Data("GIF89a".utf8)))
        #expect(decoder.recognizes(Data([0xFF, 0xD8, 0xFF, 0xE0])))
        for data in [Data(), Data("GIF89a".utf8), Data([0xFF, 0xD8, 0xFF, 0xD9]), Data(repeating: 0xFF, count: 1000)] {
            #expect(throws: DipperError.undecodable) { try decoder.decode(data, DecodeOptions()) }
        }
    }

    // MARK: Files that end too early

    @Test(
        "of several scans give the whole picture, coarse, where that is allowed",
        arguments: ["progressive", "progressive-grey", "scans", "arithmetic-progressive"])
    func coarse(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        let whole = try decoder.decode(data, .init()).pixels
        let images = (Array(stride(from: 0, to: data.count, by: 11)) + [data.count]).compactMap {
            try? decoder.decode(data.prefix($0), .partial)
        }
        let errors = images.filter(\.isOpaque).map { Difference($0.pixels, whole).mean }
        let first = try #require(errors.first)
        #expect(first > 1 && first < 40, "\(first)")
        #expect(errors.last == 0)
        #expect(try #require(errors.last { $0 > 0 }) < first)
    }

    @Test("of one scan keep their rows when they are made smaller; of no rows at all there is no picture")
    func partialReduced() throws {
        let data = try Pictures.data("jpeg/large.jpg")
        var options = DecodeOptions.partial
        options.target = TargetSize(width: 50, height: 50)
        let image = try decoder.decode(data.prefix(data.count / 2), options)
        #expect(image.size == PixelSize(width: 50, height: 38) && !image.isOpaque)
        #expect(image[25, 2].w == 255 && image[25, 37] == .zero)
        let other = try Pictures.data("jpeg/420.jpg")
        for count in [0, 1, 2, 3, 100, 640] {
            #expect(throws: DipperError.undecodable) { try decoder.decode(other.prefix(count), .partial) }
        }
    }

    @Test("have a profile in parts, in whatever order they come; parts that are wrong make none")
    func profileParts() throws {
        let source = try file("profile-wide")
        let isProfile: (Data) -> Bool = { $0.dropFirst(4).starts(with: Data("ICC_PROFILE\0".utf8)) }
        let profile = try #require(source.header.first(where: isProfile)).dropFirst(18)
        func decoded(_ parts: [(number: UInt8, of: UInt8, content: Data)]) throws -> [UInt8] {
            var file = source
            file.header.removeAll(where: isProfile)
            for part in parts.reversed() {
                file.insert(application: 2, Data("ICC_PROFILE\0".utf8) + [part.number, part.of] + part.content)
            }
            file.insert(application: 2, Data("MPF\0 and more of it".utf8))
            return try decode(file).pixels
        }
        let (wide, plain) = (try decode(source).pixels, try decoded([]))
        #expect(wide != plain)
        let (start, end) = (Data(profile.prefix(100)), Data(profile.dropFirst(100)))
        #expect(try decoded([(1, 2, start), (2, 2, end)]) == wide)
        #expect(try decoded([(2, 2, end), (1, 2, start)]) == wide)
        let whole = Data(profile)
        for wrong: [(number: UInt8, of: UInt8, content: Data)] in [
            [(1, 2, whole)], [(1, 1, whole), (1, 1, whole)], [(0, 1, whole)], [(2, 1, whole)],
            [(1, 2, start), (2, 3, end)], [(1, 1, Data())], [(1, 1, Data(repeating: 9, count: 500))],
        ] {
            #expect(try decoded(wrong) == plain)
        }
    }
}

@Suite("Previews while bytes arrive", .timeLimit(.minutes(2))) struct JPEGPreviewTests {
    private func previews(of data: Data, step: Int) -> (lengths: [Int], state: ProgressiveJPEG) {
        var state = ProgressiveJPEG()
        var lengths: [Int] = []
        for count in stride(from: 0, to: data.count + step, by: step) {
            if let length = state.preview(in: data.prefix(count)) { lengths.append(length) }
        }
        return (lengths, state)
    }

    @Test("come after scans and get better; the first has all colours, and the last is all of it")
    func better() throws {
        let data = try Pictures.data("jpeg/large-progressive.jpg")
        let (lengths, state) = previews(of: data, step: 256)
        #expect(state.isProgressive == true && state.completeScans == JPEGFile(data).scans.count)
        #expect((3...8).contains(lengths.count) && state.usableLength == data.count - 2, "\(lengths)")
        let whole = try JPEGDecoder().decode(data, DecodeOptions()).pixels
        var options = DecodeOptions.partial
        var errors = [Double.infinity]
        for length in lengths {
            let image = try JPEGDecoder().decode(data.prefix(length), options)
            errors.append(Difference(image.pixels, whole).mean)
            #expect(image.isOpaque && errors[errors.count - 1] < errors[errors.count - 2], "\(length) bytes")
        }
        #expect(errors.last == 0)
        // At an eighth of the size little is missing but the finest steps.
        options.target = TargetSize(width: 40, height: 30)
        let first = try JPEGDecoder().decode(
            data.prefix(try #require(previews(of: data, step: 64).lengths.first)), options)
        #expect(try Difference(first.pixels, JPEGDecoder().decode(data, options).pixels).mean < 5)
    }

    @Test("are the same however the bytes are split")
    func splits() throws {
        let data = try Pictures.data("jpeg/progressive.jpg")
        let (byOne, state) = previews(of: data, step: 1)
        var atOnce = ProgressiveJPEG()
        #expect(atOnce.preview(in: data) == byOne.last && atOnce.completeScans == state.completeScans)
        #expect(atOnce.preview(in: data) == nil)
    }

    @Test("rows are worth a preview whenever the bytes have doubled, until a second frame begins")
    func rows() throws {
        func scan(_ data: Data) -> (lengths: [Int], isPointless: Bool) {
            var state = PictureScan()
            let lengths = stride(from: 1_000, through: data.count, by: 1_000).compactMap { count in
                state.preview(in: data.prefix(count))
            }
            return (lengths, state.isPointless)
        }
        let png = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) + Data(count: 600_000)
        #expect(scan(png).lengths == [17, 34, 68, 136, 272, 544].map { $0 * 1_000 } && !scan(png).isPointless)
        #expect(scan(png.prefix(16_000)).lengths.isEmpty)
        #expect(scan(try Pictures.data("jpeg/large.jpg")).lengths == [17_000])
        let text = scan(Data(repeating: 65, count: 20_000))
        #expect(text.lengths.isEmpty && text.isPointless)
        #if GIF
            let frame = AnimationFrame(image: try TestPicture.waves(200, 200).image(), duration: .seconds(1))
            let data = try GIFEncoder().encode([frame, frame, frame], loopCount: 0, EncodeOptions())
            let (lengths, isPointless) = scan(data)
            let last = try #require(lengths.last)
            #expect(isPointless && lengths.count > 1)
            #expect(try ImageInfo(data.prefix(last)).frameCount > 1)
        #endif
    }

    @Test("there are none of baseline files, other formats and broken ones")
    func none() throws {
        for name in ["large", "scans", "arithmetic", "cmyk-profile"] {
            let (lengths, state) = previews(of: try Pictures.data("jpeg/\(name).jpg"), step: 100)
            #expect(lengths.isEmpty && state.isProgressive == false)
        }
        for data in [Data(repeating: 0xFF, count: 1000), Data("GIF89a, and so on".utf8)] {
            #expect(previews(of: data, step: 1).lengths.isEmpty)
        }
        let data = try Pictures.data("jpeg/progressive.jpg")
        var random = SeededRandom(7)
        for _ in 0..<200 {
            var changed = data
            for _ in 0...random.below(6) {
                changed[random.below(data.count)] = UInt8(truncatingIfNeeded: random.next())
            }
            var state = ProgressiveJPEG()
            #expect(state.preview(in: changed) ?? 0 <= changed.count)
        }
    }
}
