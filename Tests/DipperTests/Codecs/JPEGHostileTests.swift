import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("JPEG files that lie or are broken", .timeLimit(.minutes(5))) struct JPEGHostileTests {
    private func file(_ name: String) throws -> JPEGFile { JPEGFile(try Pictures.data("jpeg/\(name).jpg")) }

    private func decode(_ file: JPEGFile, _ options: DecodeOptions = .init()) throws(DipperError) -> Image {
        try JPEGDecoder().decode(file.data, options)
    }

    @Test("taken apart and put together, a file is the same")
    func support() throws {
        for name in ["420", "progressive", "scans"] {
            let file = try file(name)
            let whole = try JPEGDecoder().decode(try Pictures.data("jpeg/\(name).jpg"), DecodeOptions())
            #expect(try decode(file).pixels == whole.pixels)
        }
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
        var random = SplitMix(seed: 7)
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
            var preview = ProgressiveJPEG()
            #expect(preview.preview(in: changed) ?? 0 <= changed.count)
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
}

/// Pseudo-random numbers that are the same in every run.
private struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
