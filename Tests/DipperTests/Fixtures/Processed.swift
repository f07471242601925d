import Dipper
import Foundation
import TestSupport
import Testing

enum Processed {
    static func picture(_ name: String) throws -> Image {
        let golden = try Golden("processed/\(name).rgba")
        return try #require(Image(size: golden.size, premultiplied: golden.premultiplied))
    }

    /// Returns a picture of random colours and alpha values, in which many pixels are transparent and many are opaque.
    static func noise(_ width: Int, _ height: Int, seed: UInt64 = 1) throws -> Image {
        var random = SeededRandom(seed)
        let pixels = (0..<width * height).flatMap { _ -> [UInt8] in
            let noise = random.next()
            let alpha = noise & 3 == 0 ? 0 : noise & 3 == 1 ? 255 : noise >> 8 & 255
            return [16, 24, 32].map { UInt8((noise >> $0 & 255) * alpha / 255) } + [UInt8(alpha)]
        }
        return try TestPicture(size: PixelSize(width: width, height: height), pixels: pixels).image()
    }

    /// Returns processors of every kind, with ordinary settings.
    static func all() throws -> [any ImageProcessor] {
        let mark = try noise(9, 7, seed: 5)
        let color = Color(hex: 0xff8040, alpha: 0.6)
        var all: [any ImageProcessor] = [
            .resize(width: 17, height: 11), .resize(width: 6, height: 6, .stretch),
            .resize(width: 97, height: 97, .stretch, allowsUpscaling: true), .scale(by: 1.7),
            .crop(width: 20, height: 9, anchor: .topRight), .crop(toRatio: 1, anchor: .left),
            .fitting(width: 30, height: 44, .aspectFit, background: color), .fitting(width: 9, height: 8, .topRight),
            .roundedCorners(radius: 7.3), .roundedCorners(radius: 9, corners: .left, background: color), .circle,
            .border(color, width: 2.4), .border(.white, width: 3, radius: 8, corners: .top), .blur(1.3), .blur(5),
            .blur(16), .overlay(color), .tint(color),
            .colorControls(brightness: 0.3, contrast: 2, saturation: 3, exposure: 0.5), .colorControls(contrast: -1),
            .whiteBalance(temperature: 3000, tint: -40), .storyboard(columns: 3, rows: 2), .soulOut(),
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
