/// A picture that is being drawn. Its only owner may write to it until it becomes an ``Image``.
struct PixelBuffer: ~Copyable {
    let size: PixelSize
    /// The number of bytes from one row to the next.
    let rowStride: Int
    private let storage: PixelStorage

    /// Allocates memory for a picture. Its contents are undefined.
    /// - Parameter size: within the limits of the decode; at least one pixel in each direction.
    /// - Throws: `DipperError.imageTooLarge` if the system does not have this much memory.
    init(_ size: PixelSize) throws(DipperError) {
        precondition(!size.isEmpty, "A picture has at least one pixel.")
        let (rowStride, isTooWide) = size.width.multipliedReportingOverflow(by: 4)
        let (byteCount, isTooHigh) = rowStride.multipliedReportingOverflow(by: size.height)
        guard !isTooWide, !isTooHigh else { throw PixelMemory.noMemory }
        storage = try PixelStorage(byteCount: byteCount)
        self.size = size
        self.rowStride = rowStride
    }

    /// The address of the first byte.
    var base: UnsafeMutableRawPointer {
        // The storage has at least one pixel.
        UnsafeMutableRawPointer(mutating: storage.bytes.baseAddress.unsafelyUnwrapped)
    }

    /// Returns the address of the first byte of a row.
    func row(_ y: Int) -> UnsafeMutableRawPointer {
        precondition(y >= 0 && y < size.height, "The row is inside the picture.")
        return base + y * rowStride
    }

    var bytes: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(mutating: storage.bytes) }

    /// Makes all pixels transparent.
    func clear() {
        bytes.withMemoryRebound(to: UInt8.self) { $0.update(repeating: 0) }
    }

    /// Returns the finished picture. Nothing may be written to it afterwards.
    consuming func image(isOpaque: Bool, scale: Double = 1) -> Image {
        Image(storage: storage, size: size, rowStride: rowStride, isOpaque: isOpaque, scale: scale)
    }
}

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
