import Foundation

/// The memory of a picture's pixels, freed with its last reference.
// The memory is written only before the storage is shared: see PixelBuffer.
public final class PixelStorage: @unchecked Sendable {
    /// Valid as long as the storage is held.
    public let bytes: UnsafeRawBufferPointer

    /// What it takes in memory, in bytes: more than the pixels.
    var capacity: Int { PixelMemory.capacity(for: bytes.count) }

    init(byteCount: Int) throws(DipperError) {
        bytes = UnsafeRawBufferPointer(try PixelMemory.allocate(byteCount))
    }

    deinit {
        PixelMemory.free(UnsafeMutableRawBufferPointer(mutating: bytes))
    }
}
