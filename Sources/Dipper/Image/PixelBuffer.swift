import Foundation

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

    var base: UnsafeMutableRawPointer { storage.base }

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
// Only a single owner writes to the memory, before it shares the storage.
public final class PixelStorage: @unchecked Sendable {
    /// The pixels, valid while a reference to the storage is held.
    public let bytes: UnsafeRawBufferPointer

    private let isMapped: Bool

    var capacity: Int {
        let page = PixelRegions.pageSize
        return isMapped ? (bytes.count + page - 1) / page * page : PixelMemory.capacity(for: bytes.count)
    }

    /// The contents are undefined. Throws `DipperError.imageTooLarge` without memory.
    init(byteCount: Int) throws(DipperError) {
        bytes = UnsafeRawBufferPointer(try PixelMemory.allocate(byteCount))
        isMapped = false
    }

    /// Maps a file in memory that has at least as many bytes, and that nobody can change any more.
    init(sealed file: Int32, byteCount: Int) throws(DipperError) {
        // Private, because older kernels refuse shared mappings of sealed files.
        let start = mmap(nil, byteCount, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0)
        guard let start, start != MAP_FAILED else { throw PixelMemory.noMemory }
        bytes = UnsafeRawBufferPointer(start: start, count: byteCount)
        isMapped = true
    }

    deinit {
        let bytes = UnsafeMutableRawBufferPointer(mutating: bytes)
        if isMapped { munmap(bytes.baseAddress, bytes.count) } else { PixelMemory.free(bytes) }
    }

    var base: UnsafeMutableRawPointer {
        // Even an allocation of no bytes has an address.
        UnsafeMutableRawPointer(mutating: bytes.baseAddress.unsafelyUnwrapped)
    }
}
