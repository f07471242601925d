import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Rows in the order of a file become a picture in the size wanted", .timeLimit(.minutes(5)))
struct RowWriterTests {
    static let sizes = [(1, 1), (2, 3), (7, 5), (33, 31), (64, 48), (65, 67)]

    @Test("Without a change of size the rows are the picture", arguments: sizes)
    func direct(width: Int, height: Int) throws {
        let picture = TestPicture.waves(width, height, opaque: false)
        let image = try picture.written()
        #expect(image.size == picture.size)
        #expect(image.pixels == picture.pixels)
    }

    @Test("Every orientation puts each pixel where it belongs", arguments: Orientation.allCases, sizes)
    func orientations(_ orientation: Orientation, _ size: (Int, Int)) throws {
        let picture = TestPicture.waves(size.0, size.1)
        let image = try picture.written(orientation: orientation)
        let (width, height) = (size.0, size.1)
        try #require(image.size == orientation.applied(to: picture.size))
        var expected: [UInt8] = []
        for y in 0..<image.height {
            for x in 0..<image.width {
                // Exif 2.32: where the stored row 0 and column 0 are seen.
                let (column, row) =
                    switch orientation {
                    case .up: (x, y)
                    case .upMirrored: (width - 1 - x, y)
                    case .down: (width - 1 - x, height - 1 - y)
                    case .downMirrored: (x, height - 1 - y)
                    case .leftMirrored: (y, x)
                    case .right: (y, height - 1 - x)
                    case .rightMirrored: (width - 1 - y, height - 1 - x)
                    case .left: (width - 1 - y, x)
                    }
                expected += picture.pixel(column, row)
            }
        }
        #expect(image.pixels == expected)
    }

    @Test("How many rows come at a time makes no difference", arguments: [1, 2, 31, 32, 33, 1000])
    func pieces(rows: Int) throws {
        let picture = TestPicture.waves(61, 83, opaque: false)
        for target in [nil, TargetSize(PixelSize(width: 7, height: 9), .stretch)] {
            let options = DecodeOptions(target: target)
            let whole = try picture.written(options, orientation: .right, rowsAtATime: 83)
            #expect(try picture.written(options, orientation: .right, rowsAtATime: rows).pixels == whole.pixels)
        }
    }

    @Test("The size wanted is the size as displayed")
    func orientedTarget() throws {
        let picture = TestPicture.waves(60, 40)
        let options = DecodeOptions(target: TargetSize(PixelSize(width: 20, height: 30), .stretch))
        let turned = try picture.written(options, orientation: .right)
        #expect(turned.size == PixelSize(width: 20, height: 30))
        let straight = try picture.written(
            DecodeOptions(target: TargetSize(PixelSize(width: 30, height: 20), .stretch)))
        for y in 0..<30 { for x in 0..<20 { #expect(turned[x, y] == straight[y, 19 - x]) } }
    }

    @Test("Straight colours are multiplied by alpha, rounded to nearest, for all pairs")
    func premultiplies() throws {
        var pixels: [UInt8] = []
        for alpha in 0...255 {
            for color in 0...255 { pixels += [UInt8(color), UInt8(255 - color), UInt8(color / 2), UInt8(alpha)] }
        }
        // An odd width, so that the ends of rows are met too.
        for width in [256, 1] {
            let picture = TestPicture(size: PixelSize(width: width, height: 65_536 / width), pixels: pixels)
            let image = try picture.written(alpha: .straight, rowsAtATime: 7)
            let result = image.pixels
            #expect(!image.isOpaque)
            var wrong = 0
            for start in stride(from: 0, to: pixels.count, by: 4) {
                let alpha = Double(pixels[start + 3])
                if result[start + 3] != pixels[start + 3] { wrong += 1 }
                for index in start..<start + 3
                where result[index] != UInt8((Double(pixels[index]) * alpha / 255).rounded()) { wrong += 1 }
            }
            #expect(wrong == 0)
        }
    }

    @Test("A picture is opaque if every alpha is 255, wherever the other one is", arguments: [0, 4, 35, 62, 63])
    func opacity(place: Int) throws {
        var picture = TestPicture.waves(9, 7)
        for alpha in [RowWriter.Alpha.straight, .premultiplied] {
            #expect(try picture.written(alpha: alpha).isOpaque)
        }
        if place < 63 {
            picture.pixels.replaceSubrange(place * 4..<place * 4 + 4, with: [0, 0, 0, 254])
            for alpha in [RowWriter.Alpha.straight, .premultiplied] {
                #expect(try !picture.written(alpha: alpha).isOpaque)
            }
        }
    }

    @Test("Rows that never came are transparent", arguments: [0, 1, 17, 39], Orientation.allCases)
    func partial(rows: Int, orientation: Orientation) throws {
        let picture = TestPicture.waves(30, 40)
        let image = try picture.written(orientation: orientation, upTo: rows)
        #expect(!image.isOpaque)
        var rest = picture
        rest.pixels.replaceSubrange(
            (rows * 120)..., with: [UInt8](repeating: 0, count: picture.pixels.count - rows * 120))
        #expect(image.pixels == (try rest.written(orientation: orientation)).pixels)

        let options = DecodeOptions(target: TargetSize(PixelSize(width: 6, height: 6), .stretch))
        let small = try picture.written(options, orientation: orientation, upTo: rows)
        #expect(small.pixels == (try rest.written(options, orientation: orientation)).pixels)
        #expect(!small.isOpaque)
    }

    @Test("Limits are checked before memory is taken")
    func limits() throws {
        let huge = PixelSize(width: 1 << 20, height: 1 << 20)
        let wide = PixelSize(width: Int.max, height: 2)
        let small = DecodeOptions(target: TargetSize(PixelSize(width: 10, height: 10)))
        for size in [huge, wide] {
            for options in [DecodeOptions(), small] {
                #expect(throws: DipperError.imageTooLarge) {
                    _ = try RowWriter(source: size, of: size, alpha: .opaque, options).committed
                }
            }
        }
        #expect(throws: DipperError.undecodable) {
            let empty = PixelSize(width: 0, height: 5)
            _ = try RowWriter(source: empty, of: empty, alpha: .opaque, small).committed
        }
        var larger = DecodeOptions(
            target: TargetSize(PixelSize(width: 1 << 20, height: 1 << 20), .stretch, allowsUpscaling: true))
        let one = PixelSize(width: 1, height: 1)
        #expect(throws: DipperError.imageTooLarge) {
            _ = try RowWriter(source: one, of: one, alpha: .opaque, larger).committed
        }
        larger.target = nil
        larger.limits.bytes = 3
        #expect(throws: DipperError.imageTooLarge) {
            _ = try RowWriter(source: one, of: one, alpha: .opaque, larger).committed
        }
    }

    @Test("A small picture of a large one needs little memory on the way")
    func memory() throws {
        var options = DecodeOptions(target: TargetSize(PixelSize(width: 400, height: 300)))
        options.limits.bytes = 2 << 20
        let size = PixelSize(width: 4000, height: 3000)
        let writer = try RowWriter(source: size, of: size, alpha: .straight, options)
        #expect(writer.stored == PixelSize(width: 400, height: 300))
    }

    @Test("No rows are asked for after the last")
    func end() throws {
        var writer = try RowWriter(
            source: PixelSize(width: 3, height: 2), of: PixelSize(width: 3, height: 2), alpha: .opaque, .init())
        #expect(writer.memory(rows: 100).rows == 2)
        _ = writer.memory(rows: 2).base.initializeMemory(as: UInt8.self, repeating: 255, count: 24)
        writer.commit(2)
        #expect(writer.memory(rows: 1).rows == 0)
        writer.commit(0)
        #expect(try writer.finish().isOpaque)
    }
}
