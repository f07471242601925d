import CPixman

/// Pixels, or a colour, as Pixman sees them. Holds no memory of pixels: that must outlive it.
final class PixmanImage {
    let pointer: OpaquePointer

    /// Red, green, blue and alpha in this order in memory, whatever the machine's order of bytes.
    ///
    /// - Parameter exchanges: calls red blue and blue red, for work that does the same to both: the name that Pixman has
    ///   loops of their own for.
    private static func format(_ exchanges: Bool) -> pixman_format_code_t {
        #if _endian(little)
            exchanges ? PIXMAN_a8r8g8b8 : PIXMAN_a8b8g8r8
        #else
            exchanges ? PIXMAN_b8g8r8a8 : PIXMAN_r8g8b8a8
        #endif
    }

    /// Positions in Pixman have 16 bits: pictures are given to it in parts no larger than this each way.
    static let longestSide = 16_384

    /// - Parameter size: at most ``longestSide`` each way.
    init(_ base: UnsafeRawPointer, _ size: PixelSize, rowStride: Int, exchanges: Bool) throws(DipperError) {
        // Sources are not written to; the type is one for both.
        let bits = UnsafeMutableRawPointer(mutating: base).assumingMemoryBound(to: UInt32.self)
        guard
            let pointer = pixman_image_create_bits(
                Self.format(exchanges), Int32(size.width), Int32(size.height), bits, Int32(rowStride))
        else { throw .processingFailed.with(detail: "there is no memory") }
        self.pointer = pointer
    }

    /// One colour everywhere, premultiplied.
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
