/// Memory for the time of one piece of work, with anything in it.
final class PixelScratch {
    let bytes: UnsafeMutableRawBufferPointer

    init(byteCount: Int) throws(DipperError) {
        bytes = try PixelMemory.allocate(max(1, byteCount))
    }

    deinit {
        PixelMemory.free(bytes)
    }

    /// The first byte.
    var base: UnsafeMutableRawPointer {
        // One byte at least was asked for.
        bytes.baseAddress.unsafelyUnwrapped
    }
}
