/// The only owner may write to the buffer until it becomes an ``Image``.
struct PixelBuffer: ~Copyable {
    let size: PixelSize
    let rowStride: Int
    private let storage: PixelStorage

    /// The contents are undefined. Throws `imageTooLarge` without memory. The size must be within limits, and not
    /// empty.
    init(_ size: PixelSize) throws(DipperError) {
        precondition(!size.isEmpty, "A picture has at least one pixel.")
        let (rowStride, isTooWide) = size.width.multipliedReportingOverflow(by: 4)
        let (byteCount, isTooHigh) = rowStride.multipliedReportingOverflow(by: size.height)
        guard !isTooWide, !isTooHigh else { throw PixelMemory.noMemory }
        storage = try PixelStorage(byteCount: byteCount)
        self.size = size
        self.rowStride = rowStride
    }

    var base: UnsafeMutableRawPointer {
        // The storage has at least one pixel.
        UnsafeMutableRawPointer(mutating: storage.bytes.baseAddress.unsafelyUnwrapped)
    }

    func row(_ y: Int) -> UnsafeMutableRawPointer {
        precondition(y >= 0 && y < size.height, "The row is inside the picture.")
        return base + y * rowStride
    }

    var bytes: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(mutating: storage.bytes) }

    func clear() {
        bytes.withMemoryRebound(to: UInt8.self) { $0.update(repeating: 0) }
    }

    /// Nothing may be written to the buffer afterwards.
    consuming func image(isOpaque: Bool, scale: Double = 1) -> Image {
        Image(storage: storage, size: size, rowStride: rowStride, isOpaque: isOpaque, scale: scale)
    }
}

/// The memory of a picture's pixels, freed with the last reference. See ``Image/storage``.
// The memory is written only before the storage is shared: see PixelBuffer.
public final class PixelStorage: @unchecked Sendable {
    /// The pixels, valid while a reference to the storage is held.
    public let bytes: UnsafeRawBufferPointer

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

    var base: UnsafeMutableRawPointer {
        // At least one byte was allocated.
        bytes.baseAddress.unsafelyUnwrapped
    }
}
