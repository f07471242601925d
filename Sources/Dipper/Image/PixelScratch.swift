/// Temporary memory for one piece of work, with undefined contents, freed with the last reference.
final class PixelScratch {
    let bytes: UnsafeMutableRawBufferPointer

    init(byteCount: Int) throws(DipperError) {
        bytes = try PixelMemory.allocate(max(1, byteCount))
    }

    deinit {
        PixelMemory.free(bytes)
    }

    /// The address of the first byte.
    var base: UnsafeMutableRawPointer {
        // At least one byte was allocated.
        bytes.baseAddress.unsafelyUnwrapped
    }
}
