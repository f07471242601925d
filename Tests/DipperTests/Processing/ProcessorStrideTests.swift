import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures whose rows have bytes behind their pixels", .timeLimit(.minutes(5)))
struct ProcessorStrideTests {
    /// Returns an image with the same pixels and `count` bytes of padding after each row.
    private func padded(_ image: Image, by count: Int) throws -> Image {
        let rowStride = image.width * 4 + count
        let storage = try PixelStorage(byteCount: rowStride * image.height)
        let bytes = UnsafeMutableRawBufferPointer(mutating: storage.bytes)
        for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: index &* 83 | 1) }
        for y in 0..<image.height {
            for x in 0..<image.width {
                bytes.storeBytes(of: image[x, y], toByteOffset: y * rowStride + x * 4, as: SIMD4<UInt8>.self)
            }
        }
        return Image(
            storage: storage, size: image.size, rowStride: rowStride, isOpaque: image.isOpaque, scale: image.scale)
    }

    @Test("every processor makes the same of them", arguments: [4, 36])
    func processors(padding: Int) throws {
        let image = try Processed.noise(37, 29)
        let wide = try padded(image, by: padding)
        #expect(wide.pixels == image.pixels)
        let mark = try Processed.noise(9, 7, seed: 5)
        let more: [any ImageProcessor] = [
            .flip(.vertical) |> .rotate(degrees: 270), .rotate(degrees: 180), .downsample(width: 12, height: 12),
            .scale(by: 0.3), .blend(image, .multiply), .fitting(width: 50, height: 20, .aspectFill, background: .white),
            .crop(width: 11, height: 40),
        ]
        for processor in try Processed.all() + more {
            let (result, expected) = (try processor.process(wide, .init()), try processor.process(image, .init()))
            #expect(result.pixels == expected.pixels, "\(processor.identifier)")
            #expect(result.isOpaque == expected.isOpaque, "\(processor.identifier)")
        }
        let wideMark = try padded(mark, by: padding)
        #expect(ImageProcessors.Blend(wideMark, .over).identifier == ImageProcessors.Blend(mark, .over).identifier)
        for mode in ImageProcessors.Blend.Mode.allCases {
            #expect(
                try ImageProcessors.Blend(wideMark, mode, anchor: .bottomRight).process(wide, .init()).pixels
                    == ImageProcessors.Blend(mark, mode, anchor: .bottomRight).process(image, .init()).pixels, "\(mode)"
            )
        }
    }
}
