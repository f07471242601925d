import CZstd
import Foundation

/// Zstandard (RFC 8878), by libzstd, for whole bodies.
enum Zstd {
    /// A frame that begins with the body's length, of at most `limit` bytes.
    static func compress(_ body: Data, atMost limit: Int) -> Data? {
        body.withUnsafeBytes { input in
            output(limit) { ZSTD_compress($0, limit, input.baseAddress, input.count, ZSTD_CLEVEL_DEFAULT) }
        }
    }

    /// `nil` if the bytes are not complete frames of exactly `count` bytes. Allocates no more memory than `count`
    /// bytes, and none if the first frame does not announce them or is too short for such a body.
    static func decompress(_ bytes: UnsafeRawBufferPointer, count: Int) -> Data? {
        // A block makes at most 128 KiB and takes at least four bytes.
        guard count >= 0, count / 32_768 <= bytes.count,
            ZSTD_getFrameContentSize(bytes.baseAddress, bytes.count) == UInt64(count)
        else { return nil }
        let body = output(count) { ZSTD_decompress($0, count, bytes.baseAddress, bytes.count) }
        return body?.count == count ? body : nil
    }

    private static func output(_ room: Int, _ make: (UnsafeMutableRawPointer) -> Int) -> Data? {
        guard let output = malloc(max(room, 1)) else { return nil }
        let made = make(output)
        guard ZSTD_isError(made) == 0 else {
            free(output)
            return nil
        }
        // The output may be shorter than the room; the rest of the memory is given back.
        return Data(bytesNoCopy: realloc(output, max(made, 1)) ?? output, count: made, deallocator: .free)
    }
}
