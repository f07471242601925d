import CPixman

/// Pixels, or a colour, as Pixman sees them. Holds no memory of pixels: that must outlive it.
final class PixmanImage {
    let pointer: OpaquePointer

    /// Red, green, blue and alpha in this order in memory, whatever the machine's order of bytes.
    private static var format: pixman_format_code_t {
        #if _endian(little)
            PIXMAN_a8b8g8r8
        #else
            PIXMAN_r8g8b8a8
        #endif
    }

    /// Positions in Pixman have 16 bits: pictures are given to it in parts no larger than this each way.
    static let longestSide = 16_384

    /// - Parameter size: at most ``longestSide`` each way.
    init(_ base: UnsafeRawPointer, _ size: PixelSize, rowStride: Int) throws(DipperError) {
        // Sources are not written to; the type is one for both.
        let bits = UnsafeMutableRawPointer(mutating: base).assumingMemoryBound(to: UInt32.self)
        guard
            let pointer = pixman_image_create_bits(
                Self.format, Int32(size.width), Int32(size.height), bits, Int32(rowStride))
        else { throw .processingFailed.with(detail: "there is no memory") }
        self.pointer = pointer
    }

    /// One colour everywhere, premultiplied.
    init(_ color: SIMD4<UInt8>) throws(DipperError) {
        func wide(_ part: UInt8) -> UInt16 { UInt16(part) * 257 }
        var color = pixman_color(red: wide(color.x), green: wide(color.y), blue: wide(color.z), alpha: wide(color.w))
        guard let pointer = pixman_image_create_solid_fill(&color) else {
            throw .processingFailed.with(detail: "there is no memory")
        }
        self.pointer = pointer
    }

    deinit {
        pixman_image_unref(pointer)
    }
}
