import Dipper
import Foundation

/// What holds of every decoded picture.
enum PictureRules {
    static func check(_ image: Image, is size: PixelSize?, _ options: DecodeOptions) {
        require(image.width > 0 && image.height > 0, "a picture has pixels: \(image.size)")
        if let size {
            let wanted = options.target?.size(for: size) ?? size
            require(image.size == wanted, "\(image.size) is the size asked for, \(wanted)")
        }
        require(image.rowStride >= image.width * 4, "rows hold their pixels")
        image.withPixels { bytes in
            require(bytes.count >= image.rowStride * (image.height - 1) + image.width * 4, "the memory holds all rows")
            for y in 0..<image.height {
                for x in 0..<image.width {
                    let pixel = bytes.loadUnaligned(
                        fromByteOffset: y * image.rowStride + x * 4, as: SIMD4<UInt8>.self)
                    require(
                        pixel.x <= pixel.w && pixel.y <= pixel.w && pixel.z <= pixel.w,
                        "colours are at most alpha: \(pixel) at \(x), \(y)")
                    require(pixel.w == 255 || !image.isOpaque, "an opaque picture has no \(pixel) at \(x), \(y)")
                }
            }
        }
    }

    /// Whether all pixels are the same.
    static func areEqual(_ a: Image, _ b: Image) -> Bool {
        guard a.size == b.size else { return false }
        return a.withPixels { first in
            b.withPixels { second in
                guard let first = first.baseAddress, let second = second.baseAddress else { return true }
                return (0..<a.height).allSatisfy { y in
                    memcmp(first + y * a.rowStride, second + y * b.rowStride, a.width * 4) == 0
                }
            }
        }
    }
}
