import CPixman

/// Pixels, or one colour, as an image of Pixman. The caller must keep the pixels in memory as long as this object
/// lives.
final class PixmanImage {
    let pointer: OpaquePointer

    /// Returns Pixman's name for red, green, blue and alpha in this order in memory, on machines of either byte order.
    ///
    /// - Parameter exchanges: whether to name red blue and blue red. Operations that treat both alike give the same
    ///   result, and Pixman has special loops for the exchanged name.
    private static func format(_ exchanges: Bool) -> pixman_format_code_t {
        #if _endian(little)
            exchanges ? PIXMAN_a8r8g8b8 : PIXMAN_a8b8g8r8
        #else
            exchanges ? PIXMAN_b8g8r8a8 : PIXMAN_r8g8b8a8
        #endif
    }

    /// The longest side of an image given to Pixman, in pixels. Positions in Pixman have 16 bits, so larger pictures
    /// are given to Pixman in parts.
    static let longestSide = 16_384

    /// Creates an image over pixels in memory.
    /// - Parameter size: at most ``longestSide`` each way.
    init(_ base: UnsafeRawPointer, _ size: PixelSize, rowStride: Int, exchanges: Bool) throws(DipperError) {
        // Pixman does not write to sources, but has one type for sources and targets.
        let bits = UnsafeMutableRawPointer(mutating: base).assumingMemoryBound(to: UInt32.self)
        guard
            let pointer = pixman_image_create_bits(
                Self.format(exchanges), Int32(size.width), Int32(size.height), bits, Int32(rowStride))
        else { throw .processingFailed.with(detail: "there is no memory") }
        self.pointer = pointer
    }

    /// Creates an image of one premultiplied colour everywhere.
    init(_ color: SIMD4<UInt8>, exchanges: Bool) throws(DipperError) {
        func wide(_ part: UInt8) -> UInt16 { UInt16(part) * 257 }
        let (red, blue) = exchanges ? (color.z, color.x) : (color.x, color.z)
        var color = pixman_color(red: wide(red), green: wide(color.y), blue: wide(blue), alpha: wide(color.w))
        guard let pointer = pixman_image_create_solid_fill(&color) else {
            throw .processingFailed.with(detail: "there is no memory")
        }
        self.pointer = pointer
    }

    deinit {
        pixman_image_unref(pointer)
    }
}
