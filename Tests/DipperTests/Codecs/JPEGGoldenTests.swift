import Foundation
import Testing

@testable import Dipper

@Suite("JPEG pictures look as Pillow shows them", .timeLimit(.minutes(5))) struct JPEGGoldenTests {
    private func difference(_ name: String) throws -> Difference {
        let image = try JPEGDecoder().decode(try Pictures.data("jpeg/\(name).jpg"), DecodeOptions())
        #expect(image.isOpaque)
        return try Difference(image, try Golden("jpeg/\(name).rgba"))
    }

    // No step: both are libjpeg-turbo, whose transforms and upsampling are exact on all machines.
    @Test(
        "colours, sampling, scans and codes of every kind",
        arguments: [
            "grey", "444", "422", "420", "440", "411", "rgb", "progressive", "progressive-grey", "restart",
            "restart-blocks", "scans", "arithmetic", "arithmetic-progressive", "pixel", "column", "17x33",
        ])
    func kinds(_ name: String) throws {
        let difference = try difference(name)
        #expect(difference.largest == 0, "\(difference)")
    }

    @Test("all orientations are upright", arguments: 1...8)
    func orientations(_ value: Int) throws {
        let difference = try difference("orientation-\(value)")
        #expect(difference.largest == 0, "\(difference)")
    }

    @Test("CMYK and YCCK, inverted by Adobe or not", arguments: ["cmyk", "cmyk-adobe", "ycck"])
    func inks(_ name: String) throws {
        let difference = try difference(name)
        #expect(difference.largest == 0, "\(difference)")
    }

    // One step: versions of Little CMS round the tables they make of a profile differently.
    @Test(
        "profiles lead to sRGB", arguments: ["profile-wide", "profile-adobe", "profile-grey", "cmyk-profile"])
    func profiles(_ name: String) throws {
        let difference = try difference(name)
        #expect(difference.largest <= 1, "\(difference)")
    }

    @Test("a profile that is sRGB changes nothing")
    func sRGB() throws {
        #expect(try difference("profile-srgb").largest == 0)
    }
}
