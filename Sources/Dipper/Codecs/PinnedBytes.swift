import Foundation

/// A copy of a file's bytes at a fixed address, for C libraries that read them over several calls.
// The bytes are written only before the object is shared.
final class PinnedBytes: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer

    init(_ data: Data) {
        // One more byte, so that there is an address even if the data is empty.
        bytes = .allocate(byteCount: data.count + 1, alignment: 16)
        bytes[data.count] = 0
        data.copyBytes(to: bytes)
        count = data.count
    }

    deinit {
        bytes.deallocate()
    }

    let count: Int

    var base: UnsafeMutablePointer<UInt8> {
        // At least one byte was allocated.
        bytes.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self)
    }
}
