import Foundation

/// Bytes of a file at an address that stays, for C libraries that read them call by call.
// The bytes are written only before anyone else sees them.
final class PinnedBytes: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer

    init(_ data: Data) {
        // One byte more, so that there is an address even if there are no bytes.
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
        // There is always one byte.
        bytes.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self)
    }
}
