import Foundation
import Testing

@testable import Dipper

@Suite("Colours of a profile are brought into sRGB", .timeLimit(.minutes(2))) struct ColorTransformTests {
    private func profile(_ name: String) throws -> Data {
        let data = try Pictures.data("jpeg/\(name).jpg")
        return try #require(data.withUnsafeBytes { JPEGHeader($0).profile })
    }

    private func applied(_ transform: ColorTransform, _ pixels: [UInt8], isOpaque: Bool) -> [UInt8] {
        var pixels = pixels
        pixels.withUnsafeMutableBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            transform.apply(to: base, pixels: bytes.count / 4, isOpaque: isOpaque)
        }
        return pixels
    }

    @Test("there is nothing to do for sRGB, a broken profile, or one of other colours")
    func nothing() throws {
        let wide = try profile("profile-wide")
        for (index, bytes) in [
            try profile("profile-srgb"), Data(), Data(repeating: 7, count: 4000), wide.prefix(300),
            try profile("cmyk-profile"), try profile("profile-grey"),
        ].enumerated() { #expect(ColorTransform(icc: bytes) == nil, "\(index)") }
        #expect(ColorTransform(icc: wide, for: .cmyk(isInverted: true)) == nil)
        #expect(ColorTransform(icc: wide) != nil)
        // Greys of a profile of colours.
        #expect(ColorTransform(icc: wide, for: .grey) == nil)
        #expect(ColorTransform(icc: try profile("profile-adobe"), for: .grey) != nil)
        #expect(ColorTransform(icc: try profile("profile-grey"), for: .grey) != nil)
    }

    @Test("a profile with bytes changed makes a transform or none", arguments: ["profile-wide", "cmyk-profile"])
    func broken(_ name: String) throws {
        let profile = try profile(name)
        let source: ColorTransform.Source = name == "cmyk-profile" ? .cmyk(isInverted: false) : .rgb
        var (made, refused) = (0, 0)
        for index in stride(from: 0, to: 480, by: name == "cmyk-profile" ? 24 : 5) {
            var changed = profile
            changed[index] ^= 0xFF
            guard let transform = ColorTransform(icc: changed, for: source) else {
                refused += 1
                continue
            }
            made += 1
            // Sixteen pixels, and one on both sides that is not theirs.
            let pixel: [UInt8] = name == "cmyk-profile" ? [100, 100, 100, 100] : [100, 100, 100, 255]
            let beside: [UInt8] = [1, 2, 3, 4]
            var pixels = beside + Array(repeatElement(pixel, count: 16).joined()) + beside
            pixels.withUnsafeMutableBytes { bytes in
                guard let base = bytes.baseAddress?.advanced(by: 4) else { return }
                transform.apply(to: base, pixels: 16, isOpaque: true)
            }
            #expect(Array(pixels.prefix(4)) == beside && Array(pixels.suffix(4)) == beside, "byte \(index)")
            let result = pixels.dropFirst(4).dropLast(4)
            #expect(result.indices.allSatisfy { result[$0] == result[4 + $0 % 4] }, "byte \(index)")
            #expect(result[7] == 255, "byte \(index)")
        }
        #expect(made > 0 && refused > 0, "\(made) made, \(refused) refused")
    }

    @Test("elements that would take Little CMS hours are passed over", .timeLimit(.minutes(1)))
    func elements() throws {
        let original = [UInt8](try profile("profile-adobe"))
        let count = original[128..<132].reduce(0) { $0 << 8 | Int($1) }
        // 40,000 times the same matrix, each eight bytes of a table.
        let matrix = Array("matf\0\0\0\0".utf8) + [0, 3, 0, 3] + [UInt8](repeating: 0, count: 48)
        let number = 40_000
        var tag = Array("mpet\0\0\0\0".utf8) + [0, 3, 0, 3] + HeaderBytes.big32(number)
        for _ in 0..<number { tag += HeaderBytes.big32(16 + 8 * number) + HeaderBytes.big32(matrix.count) }
        tag += matrix
        var entries: [UInt8] = []
        for start in (0..<count).map({ 132 + 12 * $0 }) {
            let offset = original[start + 4..<start + 8].reduce(0) { $0 << 8 | Int($1) }
            entries += original[start..<start + 4] + HeaderBytes.big32(offset + 12) + original[start + 8..<start + 12]
        }
        let end = original.count + 12
        entries += Array("D2B0".utf8) + HeaderBytes.big32(end) + HeaderBytes.big32(tag.count)
        // Such tags are of version 4.
        let header = HeaderBytes.big32(end + tag.count) + original[4..<8] + [4, 0x30, 0, 0] + original[12..<128]
        let hostile = Data(header + HeaderBytes.big32(count + 1) + entries + original[(132 + 12 * count)...] + tag)
        let transform = try #require(ColorTransform(icc: hostile))
        let usual = try #require(ColorTransform(icc: Data(original)))
        let colors: [UInt8] = [10, 200, 30, 255, 250, 128, 64, 255]
        let (found, expected) = (applied(transform, colors, isOpaque: true), applied(usual, colors, isOpaque: true))
        #expect(zip(found, expected).allSatisfy { abs(Int($0) - Int($1)) <= 1 })
    }

    // One step: a multiplied colour stands for several.
    @Test("with alpha it is the colour that changes", arguments: ["profile-adobe", "profile-grey"])
    func alpha(_ name: String) throws {
        let transform = try #require(ColorTransform(icc: try profile(name), for: .grey))
        for alpha in [0, 1, 40, 128, 254, 255] {
            for grey in stride(from: 0, through: 255, by: 51) {
                let straight = applied(transform, [UInt8(grey), UInt8(grey), UInt8(grey), 255], isOpaque: true)
                let value = UInt8((grey * alpha + 127) / 255)
                let result = applied(transform, [value, value, value, UInt8(alpha)], isOpaque: false)
                #expect(result[3] == UInt8(alpha))
                for index in 0..<3 {
                    let expected = (Int(straight[index]) * alpha + 127) / 255
                    #expect(abs(Int(result[index]) - expected) <= 1, "grey \(grey), alpha \(alpha)")
                    #expect(result[index] <= result[3])
                }
            }
        }
    }

    @Test("pictures with one profile are decoded by several threads at a time")
    func threads() async throws {
        let data = try Pictures.data("jpeg/profile-wide.jpg")
        let expected = try JPEGDecoder().decode(data, .init()).pixels
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 { group.addTask { try JPEGDecoder().decode(data, .init()).pixels == expected } }
            for try await isSame in group { #expect(isSame) }
        }
    }
}
