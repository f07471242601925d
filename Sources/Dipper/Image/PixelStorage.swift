import Foundation

/// The memory of a picture's pixels, freed with the last reference. See ``Image/storage``.
// The memory is written only before the storage is shared: see PixelBuffer.
public final class PixelStorage: @unchecked Sendable {
    /// The pixels, valid while a reference to the storage is held.
    public let bytes: UnsafeRawBufferPointer

    /// The size of the allocated block, in bytes: at least that of the pixels.
    var capacity: Int { PixelMemory.capacity(for: bytes.count) }

    init(byteCount: Int) throws(DipperError) {
        bytes = UnsafeRawBufferPointer(try PixelMemory.allocate(byteCount))
    }

    deinit {
        PixelMemory.free(UnsafeMutableRawBufferPointer(mutating: bytes))
    }
}
