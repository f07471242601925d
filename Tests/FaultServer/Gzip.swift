import CZlib
import Foundation

/// A gzip encoder (RFC 1952).
enum Gzip {
    /// Returns the data as stored blocks, which every decoder accepts and which are not smaller than the data.
    static func stored(_ data: Data) -> Data { Data(encode([UInt8](data), level: Z_NO_COMPRESSION)) }

    /// Returns the data as small as zlib makes it.
    static func compressed(_ data: [UInt8]) -> [UInt8] { encode(data, level: Z_BEST_COMPRESSION) }

    private static func encode(_ data: [UInt8], level: Int32) -> [UInt8] {
        var stream = z_stream()
        // 15 is zlib's largest window, and 16 asks for gzip instead of zlib's own format.
        let status = deflateInit2_(
            &stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        precondition(status == Z_OK, "zlib refuses its own defaults: \(status)")
        defer { deflateEnd(&stream) }
        var input = data
        var output = [UInt8](repeating: 0, count: Int(deflateBound(&stream, uLong(input.count))))
        let capacity = output.count
        return input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                stream.next_in = input.baseAddress
                stream.avail_in = uInt(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = uInt(capacity)
                let status = deflate(&stream, Z_FINISH)
                precondition(status == Z_STREAM_END, "the bound was too small: \(status)")
            }
            return Array(output.prefix(capacity - Int(stream.avail_out)))
        }
    }
}
