import Dipper
import Foundation
import TestSupport
import Testing

@Suite("JPEG pictures", .timeLimit(.minutes(2))) struct JPEGTests {
    private func decode(_ name: String, _ options: DecodeOptions = .init()) throws -> Image {
        try JPEGDecoder().decode(Pictures.data("jpeg/\(name).jpg"), options)
    }

    // No step: both are libjpeg-turbo, whose transforms and upsampling are exact on all machines. One step for profiles:
    // versions of Little CMS round the tables they make of a profile differently.
    @Test(
        "of every kind look as Pillow shows them",
        arguments: [
            "grey", "444", "422", "420", "440", "411", "rgb", "progressive", "progressive-grey", "restart",
            "restart-blocks", "scans", "arithmetic", "arithmetic-progressive", "pixel", "column", "17x33",
            "orientation-1", "orientation-2", "orientation-3", "orientation-4", "orientation-5", "orientation-6",
            "orientation-7", "orientation-8", "cmyk", "cmyk-adobe", "ycck", "profile-srgb", "profile-wide",
            "profile-adobe", "profile-grey", "cmyk-profile",
        ])
    func golden(_ name: String) throws {
        let image = try decode(name)
        #expect(image.isOpaque)
        let difference = try Difference(image, Golden("jpeg/\(name).rgba"))
        #expect(difference.largest <= (name.contains("profile") && name != "profile-srgb" ? 1 : 0), "\(difference)")
    }

    // MARK: Profiles

    @Test("have a profile in parts, in whatever order they come; parts that are wrong make none")
    func profileParts() throws {
        let source = JPEGFile(try Pictures.data("jpeg/profile-wide.jpg"))
        let isProfile: (Data) -> Bool = { $0.dropFirst(4).starts(with: Data("ICC_PROFILE\0".utf8)) }
        let profile = try #require(source.header.first(where: isProfile)).dropFirst(18)
        func decoded(_ parts: [(number: UInt8, of: UInt8, content: Data)]) throws -> [UInt8] {
            var file = source
            file.header.removeAll(where: isProfile)
            for part in parts.reversed() {
                file.insert(application: 2, Data("ICC_PROFILE\0".utf8) + [part.number, part.of] + part.content)
            }
            file.insert(application: 2, Data("MPF\0 and more of it".utf8))
            return try JPEGDecoder().decode(file.data, .init()).pixels
        }
        let (wide, plain) = (try decode("profile-wide").pixels, try decoded([]))
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

    // MARK: Smaller ones

    // Beside Pillow's picture, made whole and then reduced by Lanczos: a reduced transform leaves out other detail. At
    // 1/8 it gives the mean of each block, which is softer.
    @Test(
        "made smaller look like the whole, reduced", arguments: [(200, 1.5), (100, 1.8), (80, 1.5), (50, 4.5), (40, 4)])
    func reduced(_ width: Int, _ most: Double) throws {
        let golden = try Golden("jpeg/large-\(width).rgba")
        for name in ["large", "large-progressive"] {
            let image = try decode(name, DecodeOptions(target: TargetSize(golden.size, .stretch)))
            let difference = try Difference(image, golden)
            #expect(difference.mean < most, "\(name): \(difference)")
        }
    }

    @Test("of several scans have the same pixels as those of one, in every size", arguments: [400, 200, 80, 50, 40, 7])
    func progressive(_ width: Int) throws {
        let options = DecodeOptions(target: TargetSize(PixelSize(width: width, height: width)))
        #expect(try decode("large", options).pixels == decode("large-progressive", options).pixels)
    }

    @Test("are fitted as displayed, and need memory for the result alone")
    func target() throws {
        let turned = DecodeOptions(target: TargetSize(PixelSize(width: 10, height: 100)))
        #expect(try decode("orientation-6", turned).size == PixelSize(width: 10, height: 15))
        var options = DecodeOptions(target: TargetSize(PixelSize(width: 40, height: 30)))
        options.limits.bytes = 100_000
        #expect(try decode("large", options).size == PixelSize(width: 40, height: 30))
        options.target = nil
        expectError(.imageTooLarge) { _ = try decode("large", options) }
    }

    // MARK: Writing

    private func roundTrip(_ image: Image, _ options: EncodeOptions) throws -> (data: Data, image: Image) {
        let data = try CodecRegistry.standard.encode(image, as: .jpeg, options)
        return (data, try CodecRegistry.standard.decode(data))
    }

    @Test("are written nearer and larger with a higher quality, with halved colours below 0.9")
    func quality() throws {
        let image = try decode("444")
        var last = (error: Double.infinity, count: 0)
        for quality in [0, 0.3, 0.6, 0.89, 0.9, 1] {
            let (data, result) = try roundTrip(image, EncodeOptions(quality: quality))
            let error = Difference(result.pixels, image.pixels).mean
            #expect(error < last.error && data.count > last.count, "\(quality): \(error)")
            last = (error, data.count)
            let frame = try #require(JPEGFile(data).header.first { $0[1] == 0xC0 })
            #expect(frame[11] == (quality < 0.9 ? 0x22 : 0x11))
        }
        #expect(last.error < 0.5)
        func encoded(_ quality: Double) throws -> Data { try roundTrip(image, EncodeOptions(quality: quality)).data }
        #expect(try encoded(-3) == encoded(0) && encoded(7) == encoded(1))
        #expect(try encoded(.nan) == encoded(EncodeOptions().quality))
    }

    @Test("are written with the background where they are transparent")
    func background() throws {
        let pixels: [UInt8] = (0..<32 * 20).flatMap { index -> [UInt8] in
            switch index % 32 / 8 {
            case 0: [0, 0, 0, 0]
            case 1: [128, 0, 0, 128]
            case 2: [0, 0, 255, 255]
            default: [10, 10, 10, 20]
            }
        }
        let image = try #require(Image(size: PixelSize(width: 32, height: 20), premultiplied: pixels))
        var options = EncodeOptions(quality: 1)
        options.background = [0, 200, 100]
        let result = try roundTrip(image, options).image
        #expect(result.isOpaque)
        for (x, color) in [(4, [0, 200, 100]), (12, [128, 100, 50]), (20, [0, 0, 255]), (28, [10, 194, 102])] {
            #expect((0..<3).allSatisfy { abs(Int(result[x, 10][$0]) - color[$0]) <= 3 }, "\(x)")
        }
    }

    @Test("are written with sides of up to 65,500 pixels, and without frames")
    func refused() throws {
        func image(_ width: Int, _ height: Int) throws -> Image {
            let size = PixelSize(width: width, height: height)
            return try #require(Image(size: size, premultiplied: [UInt8](repeating: 255, count: width * height * 4)))
        }
        #expect(try roundTrip(image(65_500, 1), .init()).image.size == PixelSize(width: 65_500, height: 1))
        #expect(try roundTrip(image(1, 1), .init()).image.pixels == [255, 255, 255, 255])
        for (width, height) in [(65_501, 1), (1, 65_501)] {
            expectError(.unencodable) { _ = try JPEGEncoder().encode(image(width, height), .init()) }
        }
        let frame = AnimationFrame(image: try image(1, 1), duration: .milliseconds(40))
        expectError(.unencodable) { _ = try JPEGEncoder().encode([frame], loopCount: 0, .init()) }
    }
}
