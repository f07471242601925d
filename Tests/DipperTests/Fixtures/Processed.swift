import Dipper
import Foundation
import Testing

/// Pictures for tests of processors.
enum Processed {
    /// Returns a picture in `Pictures/processed`.
    static func picture(_ name: String) throws -> Image {
        let golden = try Golden("processed/\(name).rgba")
        return try #require(Image(size: golden.size, premultiplied: golden.premultiplied))
    }

    /// Returns the difference between the result of a processor and the expected picture.
    static func difference(
        _ processor: some ImageProcessor, on name: String, _ golden: String
    ) throws -> Difference {
        try Difference(processor.process(picture(name), .init()), Golden("processed/\(golden).rgba"))
    }

    /// Returns a picture of pseudo-random colours and alpha values, in which many pixels are transparent and many are
    /// opaque. The same seed gives the same picture.
    static func noise(_ width: Int, _ height: Int, seed: UInt64 = 1) throws -> Image {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        func random() -> UInt8 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
        var pixels: [UInt8] = []
        for _ in 0..<width * height {
            let kind = random() % 4
            let alpha: UInt8 = kind == 0 ? 0 : kind == 1 ? 255 : random()
            pixels += (0..<3).map { _ in UInt8(Int(random()) * Int(alpha) / 255) } + [alpha]
        }
        return try #require(Image(size: PixelSize(width: width, height: height), premultiplied: pixels))
    }

    /// Returns processors of every kind, with ordinary settings.
    static func all() throws -> [any ImageProcessor] {
        let mark = try noise(9, 7, seed: 5)
        let color = Color(hex: 0xff8040, alpha: 0.6)
        var all: [any ImageProcessor] = [
            .resize(width: 17, height: 11), .scale(by: 1.7), .crop(width: 20, height: 9, anchor: .topRight),
            .fitting(width: 30, height: 44, .aspectFit, background: color), .fitting(width: 9, height: 8, .topRight),
            .roundedCorners(radius: 7.3), .roundedCorners(radius: 9, corners: .left, background: color), .circle,
            .border(color, width: 2.4), .border(.white, width: 3, radius: 8, corners: .top), .blur(1.3), .blur(5),
            .blur(16), .overlay(color), .tint(color),
            .colorControls(brightness: 0.3, contrast: 2, saturation: 3, exposure: 0.5), .colorControls(contrast: -1),
            .monochrome(color, intensity: 0.7), .rotate(degrees: 33), .rotate(degrees: 90),
            .rotate(degrees: 200, background: color, expands: false), .flip(.horizontal), .flip(.vertical),
        ]
        for mode in ImageProcessors.Blend.Mode.allCases {
            all += ImageProcessors.Blend.Side.allCases.map { .blend(color, mode, opacity: 0.8, side: $0) }
            all.append(.blend(mark, mode, anchor: .bottomRight, opacity: 0.9))
        }
        return all
    }
}
